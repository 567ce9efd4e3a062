"""Durable memory at a `state_location`: small files that are created once and never changed.

One code path for local directories and cloud stores (obstore). Everything that must survive a crash of the driver
goes through here; creation is conditional in the store itself, so that of two writers exactly one wins. Whatever a
store raises comes out as ConfigError or TransientError.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import IO, Any, TypeAlias

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from volley_connectors.state_errors import shown, translated
from volley_core.errors import ConfigError

ObjectStore: TypeAlias = Any

_RETRY: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_CHUNK_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StateFile:
    """One file as a listing shows it."""

    name: str
    size: int
    modified_ms: int


class StateStore:
    """The files under one location. Picklable: the connection is made where it is first used."""

    def __init__(self, location: str) -> None:
        self.location = location

    def __reduce__(self) -> tuple[type[StateStore], tuple[str]]:
        return (StateStore, (self.location,))

    def __truediv__(self, name: str) -> StateStore:
        """The store of a folder inside this one."""
        return StateStore(f"{self.location.rstrip('/')}/{name}")

    @property
    def shown(self) -> str:
        """The location as it may be printed."""
        return shown(self.location)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless it is there already. False if it was; then nothing changed."""
        with self._translated(f"Writing {name}", writes=True):
            try:
                obstore.put(self._store, name, data, mode="create")
            except AlreadyExistsError:
                return False
            self.sync(name)
        return True

    def replace(self, name: str, data: bytes | IO[bytes]) -> None:
        """Write a file, in one step, over what may be there."""
        with self._translated(f"Writing {name}", writes=True):
            obstore.put(self._store, name, data)

    def read(self, name: str) -> bytes:
        """The whole file. Raises FileNotFoundError."""
        if self.is_absent:
            raise FileNotFoundError(name)
        with self._translated(f"Reading {name}"):
            return bytes(obstore.get(self._store, name).bytes())

    def exists(self, name: str) -> bool:
        if self.is_absent:
            return False
        with self._translated(f"Looking for {name}"):
            try:
                obstore.head(self._store, name)
            except FileNotFoundError:
                return False
        return True

    def names(self, after: str = "") -> Iterator[str]:
        """The names of all files, or of those that sort after one, sorted."""
        return iter([file.name for file in self.files(after)])

    def files(self, after: str = "") -> list[StateFile]:
        """All files, or those whose names sort after one, sorted by name."""
        if self.is_absent:
            return []
        with self._translated("Listing the files"):
            pages = obstore.list(self._store, offset=after or None)
            found = [
                StateFile(entry["path"], entry["size"], int(entry["last_modified"].timestamp() * 1000))
                for page in pages
                for entry in page
                # A local directory's are listed in full.
                if entry["path"] > after
            ]
        return sorted(found, key=lambda file: file.name)

    def delete(self, *names: str) -> None:
        """Remove files. One that is gone is no error."""
        if not names or self.is_absent:
            return
        with self._translated(f"Deleting {names[0]}"):
            try:
                obstore.delete(self._store, names)
                return
            except FileNotFoundError:
                if len(names) == 1:
                    return
        for name in names:
            self.delete(name)

    def clear(self) -> None:
        """Remove all files, and of a local store the directory."""
        self.delete(*self.names())
        if self._path is not None and not self.is_absent:
            with self._translated("Deleting the directory"):
                shutil.rmtree(self._path)

    def download(self, name: str, path: Path) -> None:
        """Put a file, in one step, to a path of this machine. Raises FileNotFoundError."""
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
        with self._translated(f"Reading {name}"):
            try:
                with open(partial, "wb") as file:
                    for chunk in obstore.get(self._store, name).stream(min_chunk_size=_CHUNK_BYTES):
                        file.write(chunk)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)

    def upload(self, name: str, path: Path) -> None:
        """Write a file of this machine, however big, in one step, over what may be there."""
        with self._translated(f"Writing {name}", writes=True):
            obstore.put(self._store, name, path)
            self.sync(name)

    def path_of(self, name: str) -> Path | None:
        """Where a file lies on this machine; None if this is a remote store."""
        return None if self._path is None else self._path / name

    def is_same_place(self, other: StateStore) -> bool:
        """Whether both are one folder, however it is spelled."""
        mine, theirs = (store._path.resolve() if store._path else None for store in (self, other))
        return mine == theirs and (mine is not None or self.location.rstrip("/") == other.location.rstrip("/"))

    @property
    def is_absent(self) -> bool:
        """Whether this is a local directory that nobody made yet. Writing makes it; looking must not."""
        return self._path is not None and not self._path.is_dir()

    @property
    def _path(self) -> Path | None:
        if "://" in self.location and not self.location.startswith("file://"):
            return None
        return Path(self.location.removeprefix("file://")).expanduser().absolute()

    @cached_property
    def _store(self) -> ObjectStore:
        try:
            path = self._path
            if path is not None:
                path.mkdir(parents=True, exist_ok=True)
                return obstore.store.LocalStore(path)
            return obstore.store.from_url(self.location, retry_config=_RETRY)
        except (BaseError, OSError, ValueError) as error:
            reason = str(error).partition("\n\nDebug source")[0]
            raise ConfigError(
                f"state_location {self.shown!r} cannot be used: {reason}. "
                "Give a path or an s3://, az:// or gs:// address."
            ) from error

    def _translated(self, doing: str, *, writes: bool = False) -> AbstractContextManager[None]:
        return translated(doing, self.location, writes=writes)

    def sync(self, name: str) -> None:
        """What was written to a local disk survives a power failure, as it does in a cloud store."""
        path = self.path_of(name)
        if path is None:
            return
        for place in (path, path.parent):
            descriptor = os.open(place, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
