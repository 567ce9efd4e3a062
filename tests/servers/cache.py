"""What was downloaded or built for the tests, kept from one run to the next."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache, filled by `make` if it is not there.

    `name` holds the version, so that a folder never changes. Of two runs that ask at once, one waits for the other;
    one that dies halfway leaves nothing that looks finished.
    """
    cache = Path(os.environ.get("VOLLEY_CACHE_DIR") or Path.home() / ".cache" / "volley")
    cache.mkdir(parents=True, exist_ok=True)
    folder, partial = cache / name, cache / f"{name}.partial"
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            make(partial)
            partial.rename(folder)
    return folder
