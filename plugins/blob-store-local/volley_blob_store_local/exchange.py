"""Two directories swapped in one step: what a plain rename cannot do, for it never replaces a directory with files."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

_AT_FDCWD = -100
_LINUX_EXCHANGE = 2
_MACOS_SWAP = 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV)


def exchange(left: Path, right: Path) -> bool:
    """Swap two directories of one file system. False if the system or the file system cannot; then nothing changed."""
    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(left), os.fsencode(right)
    if sys.platform == "darwin":
        failed = libc.renamex_np(*paths, _MACOS_SWAP)
    elif hasattr(libc, "renameat2"):
        failed = libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _LINUX_EXCHANGE)
    else:
        return False
    number = ctypes.get_errno()
    if failed and number not in _UNSUPPORTED:
        raise OSError(number, os.strerror(number), str(left), None, str(right))
    return not failed
