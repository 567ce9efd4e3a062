"""One spelling for every path: absolute, as plain text, whether it came as a path or as a file:// address."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit


def absolute(path: str) -> str:
    """The path without symbolic links being followed, so that an object keeps the name it was announced by."""
    if path.startswith("file:/"):
        path = unquote(urlsplit(path).path)
    return os.path.abspath(os.path.expanduser(path))
