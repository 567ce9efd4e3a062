"""Durable memory at a `state_location`: small files that are created once and never changed.

One code path for local directories and cloud stores (obstore). Everything that must survive a crash of the driver
goes through here; creation is conditional in the store itself, so that of two writers exactly one wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any, TypeAlias

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from volley_core.errors import ConfigError

ObjectStore: TypeAlias = Any


class StateStore:
    """The files under one location. Picklable: the connection is made where it is first used."""

    def __init__(self, location: str) -> None:
        self.location = location

    def __reduce__(self) -> tuple[type[StateStore], tuple[str]]:
        return (StateStore, (self.location,))

    def __truediv__(self, name: str) -> StateStore:
        """The store of a folder inside this one."""
        return StateStore(f"{self.location.rstrip('/')}/{name}")

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless it is there already. False if it was; then nothing changed."""
        try:
            obstore.put(self._store, name, data, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def replace(self, name: str, data: bytes | IO[bytes]) -> None:
        """Write a file, in one step, over what may be there."""
        obstore.put(self._store, name, data)

    def read(self, name: str) -> bytes:
        """The whole file. Raises FileNotFoundError."""
        if self.is_absent:
            raise FileNotFoundError(name)
        return bytes(obstore.get(self._store, name).bytes())

    def exists(self, name: str) -> bool:
        if self.is_absent:
            return False
        try:
            obstore.head(self._store, name)
        except FileNotFoundError:
            return False
        return True

    def names(self) -> Iterator[str]:
        """The names of all files, sorted."""
        if self.is_absent:
            return iter(())
        found = [entry["path"] for page in obstore.list(self._store) for entry in page]
        return iter(sorted(found))

    def delete(self, name: str) -> None:
        """Remove a file. One that is gone is no error."""
        try:
            obstore.delete(self._store, name)
        except FileNotFoundError:
            return

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
            return obstore.store.from_url(self.location)
        except (BaseError, OSError, ValueError) as error:
            raise ConfigError(
                f"state_location {self.location!r} cannot be used: {error}. "
                "Give a path or an s3://, az:// or gs:// address."
            ) from error
