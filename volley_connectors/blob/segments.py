"""Sorted identities in a file that is memory-mapped, never changed, and read only where it must be.

A file holds, after a header: a filter, where the buckets begin, and one column for each field of RECORD, sorted by uri
and version. A bucket is the share of about 50 neighbours in the range of hashes; its filter is one cache line. The
filter answers for most objects that are new, so that of the columns, whose pages may have to come from the disk, one
look-up of many objects touches few. Touched pages are given back after each look-up.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from volley_connectors.blob.identities import RECORD

Array: TypeAlias = npt.NDArray[Any]

_MAGIC = b"VOLLEY\x00\x01"
_HEADER = struct.Struct("<8sQQ")
_PER_BUCKET = 51
"""With 512 bits of filter to a bucket, ten bits to an object: one in a hundred new ones passes."""
_WORDS = 8
_MARKS = 5
_CHUNK = 1 << 16


class StoppedError(Exception):
    """A merge was told to stop halfway. What it wrote is worth nothing."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where in a file its parts begin."""

    count: int
    buckets: int

    @classmethod
    def of(cls, count: int) -> Self:
        return cls(count, max(1, -(-count // _PER_BUCKET)))

    @property
    def starts(self) -> int:
        return _HEADER.size + self.buckets * _WORDS * 8

    @property
    def columns(self) -> dict[str, int]:
        position, found = _aligned(self.starts + 4 * (self.buckets + 1)), {}
        for name in _fields():
            found[name] = position
            position = _aligned(position + self.count * RECORD[name].itemsize)
        return found

    @property
    def size(self) -> int:
        name = _fields()[-1]
        return self.columns[name] + self.count * RECORD[name].itemsize

    def buckets_of(self, high: Array) -> Array:
        return ((high >> np.uint64(32)) * np.uint64(self.buckets)) >> np.uint64(32)

    def begin_of(self, bucket: int) -> int:
        """The least `high` of a bucket."""
        return -(-(bucket << 32) // self.buckets) << 32


class Segment:
    """One file, open for look-ups. May be used by several threads; a deleted file stays readable."""

    def __init__(self, path: Path) -> None:
        """Raises ValueError for a file that is not whole."""
        with open(path, "rb") as file:
            magic, count, buckets = _HEADER.unpack(file.read(_HEADER.size).ljust(_HEADER.size, b"\0"))
            self._layout = _Layout(count, buckets)
            if magic != _MAGIC or os.fstat(file.fileno()).st_size != self._layout.size:
                raise ValueError(f"{path} is not a whole ledger segment")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._filter = self._array("<u8", _HEADER.size, buckets * _WORDS)
        self._starts = self._array("<u4", self._layout.starts, buckets + 1)
        columns = self._layout.columns
        self.columns: dict[str, Array] = {name: self._array(RECORD[name], columns[name], count) for name in _fields()}
        # Pages are never needed for their neighbours' sake, but for the filter and the starts, which are read ahead.
        self._columns_begin = columns["high"]
        self._paged = self._columns_begin // mmap.PAGESIZE * mmap.PAGESIZE
        self._advise("MADV_WILLNEED", 0, self._paged)
        self._advise("MADV_RANDOM", self._paged, len(self._map) - self._paged)
        # All of the filter is needed by the first look-up: read in order it is there sooner.
        np.bitwise_or.reduce(self._filter)

    @property
    def count(self) -> int:
        return self._layout.count

    def likely(self, high: Array, low: Array) -> Array:
        """Which of these uris may have records here. Where they would be is read from the disk from now on, at once."""
        buckets, marks = self._layout.buckets_of(high), _marks(low)
        found = np.flatnonzero((self._filter[_words(buckets, low)] & marks) == marks)
        firsts = self._columns_begin + 8 * self._starts[buckets[found]].astype(np.int64)
        lasts = self._columns_begin + 8 * self._starts[buckets[found] + np.uint64(1)].astype(np.int64)
        page = mmap.PAGESIZE
        for first, last in zip((firsts // page * page).tolist(), lasts.tolist(), strict=True):
            self._advise("MADV_WILLNEED", first, last - first)
        return found

    def find(self, high: Array, low: Array, likely: Array) -> tuple[Array, Array]:
        """For each uri that is likely here, where its records begin and where they end: both the same if at none."""
        high, low = high[likely], low[likely]
        buckets = self._layout.buckets_of(high)
        first, last = self._starts[buckets].astype(np.int64), self._starts[buckets + np.uint64(1)].astype(np.int64)
        begin = self._bound(first, last, high, beyond=False)
        end = begin.copy()
        hits = np.flatnonzero(begin < last)
        hits = hits[self.columns["high"][begin[hits]] == high[hits]]
        if len(hits):
            end[hits] = self._bound(begin[hits], last[hits], high[hits], beyond=True)
            self._narrow(begin, end, low, hits)
        self.release()
        return begin, end

    def records(self, begin: int, end: int) -> Array:
        """A copy of some records."""
        found = np.empty(end - begin, RECORD)
        for name, column in self.columns.items():
            found[name] = column[begin:end]
        return found

    def position(self, high: int) -> int:
        """Where the records from this `high` on begin."""
        return int(np.searchsorted(self.columns["high"], np.uint64(high)))

    def will_need(self) -> None:
        """Everything is about to be read, in order."""
        self._advise("MADV_SEQUENTIAL", self._paged, len(self._map) - self._paged)

    def release(self) -> None:
        """Give touched pages back."""
        self._advise("MADV_DONTNEED", self._paged, len(self._map) - self._paged)

    def _narrow(self, begin: Array, end: Array, low: Array, hits: Array) -> None:
        """From the records of one `high`, as a rule those of one uri, to those with this `low` too."""
        lows = self.columns["low"]
        is_one = (lows[begin[hits]] == low[hits]) & (lows[end[hits] - 1] == low[hits])
        for number in hits[~is_one]:
            here = lows[begin[number] : end[number]]
            sides = np.searchsorted(here, low[number], "left"), np.searchsorted(here, low[number], "right")
            begin[number], end[number] = begin[number] + sides[0], begin[number] + sides[1]

    def _bound(self, first: Array, last: Array, high: Array, *, beyond: bool) -> Array:
        """A binary search for many at once, each within its own bounds."""
        first, last, highs = first.copy(), last.copy(), self.columns["high"]
        while len(open_ := np.flatnonzero(first < last)):
            middle = (first[open_] + last[open_]) // 2
            goes_on = highs[middle] <= high[open_] if beyond else highs[middle] < high[open_]
            first[open_[goes_on]] = middle[goes_on] + 1
            last[open_[~goes_on]] = middle[~goes_on]
        return first

    def _array(self, kind: Any, offset: int, count: int) -> Array:
        return np.frombuffer(self._map, kind, count, offset)

    def _advise(self, advice: str, offset: int, length: int) -> None:
        # Windows has no such thing, and does without.
        if length and hasattr(mmap, advice):
            self._map.madvise(getattr(mmap, advice), offset, length)


def write(path: Path, records: Array) -> None:
    """Make a file of these records, which need not be sorted."""
    layout = _Layout.of(len(records))
    _write(path, layout, iter([(0, layout.buckets, _sorted(records))]))


def merge(path: Path, segments: Sequence[Segment], is_stopped: Callable[[], bool] = lambda: False) -> None:
    """Make a file of all their records, a little at a time. Raises StoppedError if told to stop."""
    layout = _Layout.of(sum(segment.count for segment in segments))
    for segment in segments:
        segment.will_need()
    _write(path, layout, _merged(layout, segments, is_stopped))


def _merged(
    layout: _Layout, segments: Sequence[Segment], is_stopped: Callable[[], bool]
) -> Iterator[tuple[int, int, Array]]:
    step = max(1, _CHUNK // _PER_BUCKET)
    positions = [0] * len(segments)
    for first in range(0, layout.buckets, step):
        if is_stopped():
            raise StoppedError
        last = min(first + step, layout.buckets)
        parts = []
        for number, segment in enumerate(segments):
            end = segment.count if last == layout.buckets else segment.position(layout.begin_of(last))
            parts.append(segment.records(positions[number], end))
            positions[number] = end
            segment.release()
        yield first, last, _sorted(np.concatenate(parts))


def _write(path: Path, layout: _Layout, parts: Iterator[tuple[int, int, Array]]) -> None:
    """Each part: from which bucket to which, and their records in order."""
    columns, done = layout.columns, 0
    with open(path, "wb") as file:
        file.write(_HEADER.pack(_MAGIC, layout.count, layout.buckets))
        for first, last, records in parts:
            buckets = layout.buckets_of(records["high"])
            words = np.zeros((last - first) * _WORDS, "<u8")
            np.bitwise_or.at(words, _words(buckets, records["low"]) - np.uint64(first * _WORDS), _marks(records["low"]))
            starts = done + np.searchsorted(buckets, np.arange(first, last, dtype=np.uint64))
            _put(file, _HEADER.size + first * _WORDS * 8, words)
            _put(file, layout.starts + first * 4, starts.astype("<u4"))
            for name in _fields():
                _put(file, columns[name] + done * RECORD[name].itemsize, np.ascontiguousarray(records[name]))
            done += len(records)
        _put(file, layout.starts + layout.buckets * 4, np.array([done], "<u4"))
        file.truncate(layout.size)


def _put(file: Any, offset: int, array: Array) -> None:
    file.seek(offset)
    file.write(array.data)


def _sorted(records: Array) -> Array:
    return records[np.lexsort((records["version"], records["low"], records["high"]))]


def _words(buckets: Array, low: Array) -> Array:
    """Which word of the filter is an object's."""
    return buckets * np.uint64(_WORDS) + (low & np.uint64(_WORDS - 1))


def _marks(low: Array) -> Array:
    """The bits that an object sets in its word."""
    marks = np.zeros(len(low), np.uint64)
    for number in range(_MARKS):
        marks |= np.uint64(1) << ((low >> np.uint64(3 + 6 * number)) & np.uint64(63))
    return marks


def _fields() -> tuple[str, ...]:
    assert RECORD.names is not None
    return RECORD.names


def _aligned(position: int) -> int:
    return -(-position // 8) * 8
