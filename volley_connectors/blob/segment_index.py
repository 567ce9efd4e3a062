"""The durable form of the ledger: segments, and an index that says which of them count.

The index is a numbered file, created only if absent and never changed: the highest number counts. A change is made by
writing new segments under names of their own, then the next index, then deleting what is no longer named. So a crash
between any two steps leaves a whole ledger, and of two writers one wins. What a crash left over is swept later.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from volley_connectors.blob.segments import Segment
from volley_connectors.java import cache_directory
from volley_connectors.state import StateStore
from volley_core import ConfigError

log = logging.getLogger(__name__)

_FOLDER = "ledger"
_FORMAT = 1
_LEFT_OVER_MS = 24 * 3600 * 1000
"""A file that no index names is another writer's unfinished work, or, when it is so old, that of a crash."""


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One segment as the index names it."""

    name: str
    first: int
    last: int
    """The manifests whose objects it holds, or some of them."""
    count: int
    size: int
    level: int
    newest_ms: int | None
    """The latest event time; None for a segment of objects that have none, which is kept for good."""


@dataclass(frozen=True, slots=True)
class Index:
    """What the ledger consists of."""

    number: int = 0
    folded: int = 0
    """Up to this manifest the segments hold everything."""
    horizon_ms: int = 0
    """Objects older than this may have been forgotten. It never goes back."""
    segments: tuple[SegmentEntry, ...] = ()


class SegmentIndex:
    """The ledger's files at one state_location."""

    def __init__(self, state: StateStore) -> None:
        self._location = state.shown
        self._index = state / _FOLDER / "index"
        self._segments = state / _FOLDER / "segments"
        self._writer = secrets.token_hex(8)

    def last(self) -> Index:
        """The index that counts; an empty one if there is none."""
        while names := list(self._index.names()):
            try:
                return self._decode(self._index.read(names[-1]))
            except FileNotFoundError:
                # Another writer went on by two since the names were listed.
                continue
        return Index()

    def commit(self, index: Index) -> bool:
        """Make it the one that counts. False if another writer's has its number."""
        data = json.dumps({"format": _FORMAT, "writer": self._writer} | asdict(index)).encode()
        name = _name(index.number)
        if not self._index.create(name, data) and not self._is_mine(name, data):
            return False
        # One who slept while another went on finds its number free again, because old indexes are deleted.
        if any(self._index.names(after=name)):
            self._index.delete(name)
            return False
        # The one before is kept for whoever has just listed the names.
        self._index.delete(_name(index.number - 2))
        return True

    def add(
        self, make: Callable[[Path], None], count: int, first: int, last: int, newest_ms: int | None, level: int
    ) -> SegmentEntry:
        """Store a new segment, which counts from the next index on. `make` fills the file."""
        name = f"{first:012d}-{last:012d}-{secrets.token_hex(6)}"
        place = self._segments.path_of(name)
        path = self._cache / name if place is None else place
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{name}.partial")
        try:
            make(partial)
            size = partial.stat().st_size
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        if place is None:
            self._segments.upload(name, path)
        else:
            self._segments.sync(name)
        return SegmentEntry(name, first, last, count, size, level, newest_ms)

    def open(self, entry: SegmentEntry) -> Segment:
        """Map a segment: where it lies, or a copy that was downloaded once. Raises ConfigError if it is lost."""
        place = self._segments.path_of(entry.name)
        path = self._cache / entry.name if place is None else place
        try:
            if place is None and not (path.exists() and path.stat().st_size == entry.size):
                self._segments.download(entry.name, path)
            return Segment(path)
        except (FileNotFoundError, ValueError) as error:
            raise ConfigError(
                f"The memory of what was read is damaged: segment {entry.name} of the ledger at state_location "
                f"{self._location!r} is missing or not whole ({error}). Restore the folder {_FOLDER!r} there, or begin "
                "with a new checkpoint and a new state_location."
            ) from None

    def delete(self, entries: list[SegmentEntry]) -> None:
        """Remove segments that no index names any more."""
        self._segments.delete(*(entry.name for entry in entries))
        if self._segments.path_of("") is None:
            for entry in entries:
                (self._cache / entry.name).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what crashes left over."""
        # Not by an index that was read long ago: another writer may have gone on since.
        index = self.last()
        old_ms = time.time_ns() // 1_000_000 - _LEFT_OVER_MS
        named = {entry.name for entry in index.segments}
        files = [file for file in self._segments.files() if file.name not in named and file.modified_ms < old_ms]
        self._segments.delete(*(file.name for file in files))
        older = [file for file in self._index.files() if file.name < _name(index.number) and file.modified_ms < old_ms]
        self._index.delete(*(file.name for file in older))
        if self._segments.path_of("") is None:
            for path in self._cache.iterdir():
                if path.name not in named and path.stat().st_mtime * 1000 < old_ms:
                    path.unlink(missing_ok=True)

    def close(self) -> None:
        if "_temporary" in self.__dict__:
            shutil.rmtree(self._temporary, ignore_errors=True)

    @cached_property
    def _cache(self) -> Path:
        """Where copies of a remote store's segments lie. Names are unique, so that a copy is never out of date."""
        key = blake2b(self._segments.location.encode(), digest_size=16).hexdigest()
        folder = cache_directory() / _FOLDER / key
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return self._temporary
        return folder

    @cached_property
    def _temporary(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="volley-ledger-"))

    def _is_mine(self, name: str, data: bytes) -> bool:
        """Whether the store took the file although the first answer got lost, and then refused the retry."""
        try:
            return self._index.read(name) == data
        except FileNotFoundError:
            return False

    def _decode(self, data: bytes) -> Index:
        values = json.loads(data)
        if values.pop("format") != _FORMAT:
            raise ConfigError(
                f"The ledger at state_location {self._location!r} was written by a later version of Volley. Use that "
                "version, or a new checkpoint and a new state_location."
            )
        del values["writer"]
        segments = tuple(SegmentEntry(**entry) for entry in values.pop("segments"))
        return Index(**values, segments=segments)


def _name(number: int) -> str:
    return f"{number:020d}.json"
