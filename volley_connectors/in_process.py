"""Any SplitSource as a polled `Source`, in one process and without Spark: the same parts plan, split and read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

import pyarrow as pa

from volley_core import Offset, ReadLimit, SplitSource, StreamRecord


class InProcessSource:
    """Reads a SplitSource's epochs one after the other. A position is an epoch and how many records came of it."""

    def __init__(self, source: SplitSource, limit: ReadLimit | None = None) -> None:
        self._source = source
        self._limit = limit or ReadLimit()
        self._taken = self._durable = 0

    @property
    def connector_id(self) -> str:
        return self._source.connector_id

    def schema(self) -> pa.Schema:
        return self._source.schema()

    def poll(self) -> StreamRecord | None:
        record = next(self._records, None)
        if record is None and self._next_epoch():
            record = next(self._records, None)
        self._taken += record is not None
        return record

    def on_checkpoint(self, epoch: int) -> None:
        self._durable = self._taken

    def position(self) -> Offset:
        start, end = self._epoch
        return {"start": start, "end": end, "records": self._taken}

    def seek(self, position: Offset) -> None:
        self._begin(position["start"], position["end"], position["records"])

    def close(self) -> None:
        """Let go of the source's connections."""
        self._source.close()

    @cached_property
    def _epoch(self) -> tuple[Offset, Offset]:
        start = self._source.initial_offset()
        return start, start

    @cached_property
    def _records(self) -> Iterator[StreamRecord]:
        start, end = self._epoch
        splits = self._source.splits(start, end) if start != end else ()
        return islice((record for split in splits for record in self._source.read(split)), self._taken, None)

    def _next_epoch(self) -> bool:
        """Plan another epoch. Asking for one says that the last is durable, so until `on_checkpoint` there is none."""
        if self._durable < self._taken:
            return False
        start = self._epoch[1]
        end = self._source.latest_offset(start, self._limit)
        if end == start:
            return False
        self._begin(start, end, 0)
        return True

    def _begin(self, start: Offset, end: Offset, taken: int) -> None:
        self._epoch = (start, end)
        self._taken = self._durable = taken
        self.__dict__.pop("_records", None)
