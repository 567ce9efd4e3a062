"""Files as objects. A writer should write under another name and rename: a half-written file is an object too."""

from __future__ import annotations

import errno
import os
import shutil
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
    GUARANTEE: ClassVar[str] = (
        "A file that changed since it was announced is refused, never read as another. It is looked at right before it "
        "is deleted or moved: file systems know no conditional delete."
    )

    def __init__(self, config: FileBlobReaderConfig) -> None:
        self._config = config

    def open(self, ref: BlobRef) -> BinaryIO:
        path = absolute(ref.uri)
        try:
            file = open(path, "rb")  # noqa: SIM115 - the caller closes it
        except OSError as error:
            raise _translate(error, "Reading", path) from error
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
            raise _translate(error, "Reading", path) from error

    def delete(self, ref: BlobRef) -> bool:
        path = absolute(ref.uri)
        try:
            found = _version_at(path)
            if found == ref.version:
                os.unlink(path)
        except OSError as error:
            raise _translate(error, "Deleting", path) from error
        return found in (ref.version, None)

    def move(self, ref: BlobRef, uri: str) -> bool:
        path, target = absolute(ref.uri), absolute(uri)
        try:
            found, there = _version_at(path), _version_at(target)
            is_copy = there is not None and _but_inode(there) == _but_inode(ref.version)
            if found is None:
                return is_copy
            if found != ref.version or not (there is None or is_copy):
                return False
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _move(path, target)
        except OSError as error:
            raise _translate(error, f"Moving to {target}:", path) from error
        return True


def _walk(folder: str) -> Iterator[str]:
    """Every file below a folder, sorted; folders behind symbolic links are left out, for they may lead in a circle."""
    for parent, folders, files in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in sorted(files):
            yield os.path.join(parent, name)


def _raise(error: OSError) -> None:
    # A folder may vanish while others are being walked through.
    if not isinstance(error, FileNotFoundError):
        raise _translate(error, "Reading", str(error.filename)) from error


def _ref(path: str, found: os.stat_result) -> BlobRef:
    return BlobRef(path, found.st_size, _version(found), event_time_ms=found.st_mtime_ns // 1_000_000)


def _version(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"


def _version_at(path: str) -> str | None:
    try:
        return _version(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _but_inode(version: str) -> str:
    """What stays of a version when the file is copied to another file system."""
    return version.rpartition("-")[0]


def _move(path: str, target: str) -> None:
    try:
        os.rename(path, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # Another file system: the copy gets its name once it is whole.
        folder, name = os.path.split(target)
        draft = os.path.join(folder, f".{name}.moving")
        shutil.copy2(path, draft)
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, target)
        os.unlink(path)


def _translate(error: OSError, doing: str, path: str) -> VolleyError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return BlobNotFoundError(f"{doing} {path}: the file is gone")
    if isinstance(error, IsADirectoryError):
        return BlobNotFoundError(f"{doing} {path}: it is a directory, not a file")
    if isinstance(error, PermissionError):
        return ConfigError(f"{doing} {path}: permission denied. Give this user the right to do so.")
    return TransientError(f"{doing} {path}: {error}")
