"""Files as objects. A writer should write under another name and rename: a half-written file is an object too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, ClassVar, cast

from volley_blob_store_local.paths import absolute
from volley_core import (
    BlobChangedError,
    BlobNotFoundError,
    BlobRef,
    ConfigError,
    ConnectorConfig,
    TransientError,
    VolleyError,
)


class FileBlobReaderConfig(ConnectorConfig):
    """A file's uri says it all: there is nothing to set."""


class FileBlobReader:
    """Files of a local or mounted directory."""

    Config: ClassVar[type[FileBlobReaderConfig]] = FileBlobReaderConfig
    GUARANTEE: ClassVar[str] = "A file that changed since it was announced is refused, never read as another."

    def __init__(self, config: FileBlobReaderConfig) -> None:
        self._config = config

    def open(self, ref: BlobRef) -> BinaryIO:
        path = absolute(ref.uri)
        try:
            file = open(path, "rb")  # noqa: SIM115 - the caller closes it
        except OSError as error:
            raise _translate(error, path) from error
        # Asked of the open file: the name may come to mean another one at any moment.
        found = _version(os.fstat(file.fileno()))
        if ref.version and found != ref.version:
            file.close()
            raise BlobChangedError(f"Reading {path}: the file was overwritten after it was announced")
        return cast(BinaryIO, file)

    def list(self, prefix: str) -> Iterator[BlobRef]:
        # A prefix may end in the middle of a name.
        for path in _walk(absolute(os.path.dirname(prefix))):
            if path.startswith(prefix):
                try:
                    yield _ref(path, os.stat(path))
                except FileNotFoundError:
                    continue

    def stat(self, ref: BlobRef) -> BlobRef:
        path = absolute(ref.uri)
        try:
            return _ref(path, os.stat(path))
        except OSError as error:
            raise _translate(error, path) from error


def _walk(folder: str) -> Iterator[str]:
    """Every file below a folder, sorted; folders behind symbolic links are left out, for they may lead in a circle."""
    for parent, folders, files in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in sorted(files):
            yield os.path.join(parent, name)


def _raise(error: OSError) -> None:
    # A folder may vanish while others are being walked through.
    if not isinstance(error, FileNotFoundError):
        raise _translate(error, str(error.filename)) from error


def _ref(path: str, found: os.stat_result) -> BlobRef:
    return BlobRef(path, found.st_size, _version(found), event_time_ms=found.st_mtime_ns // 1_000_000)


def _version(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"


def _translate(error: OSError, path: str) -> VolleyError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return BlobNotFoundError(f"Reading {path}: the file is gone")
    if isinstance(error, IsADirectoryError):
        return BlobNotFoundError(f"Reading {path}: it is a directory, not a file")
    if isinstance(error, PermissionError):
        return ConfigError(f"Reading {path}: permission denied. Let this user read it.")
    return TransientError(f"Reading {path}: {error}")
