"""Batches that a test, notebook or benchmark pushed, as a source.

A pushed batch is one Arrow IPC file under a number that never changes, so that an offset is just the next number.
Tasks map the files into memory: no row is copied on the way to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import pyarrow as pa
from pydantic import Field, model_validator

from volley_connectors.memory.channel import Channel, ChannelName
from volley_connectors.memory.faults import SOURCE_POINTS, SourceFaults, fire
from volley_connectors.memory.pushed import MemorySourceHandle
from volley_connectors.memory.rounds import Rounds
from volley_core.config import SourceConfig
from volley_core.errors import ConfigError
from volley_core.protocols import Offset, ReadLimit
from volley_core.records import StreamRecord


class MemorySourceConfig(SourceConfig):
    """Options of the memory source."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"name": "events", "max_files_per_trigger": 10}

    name: ChannelName = Field(description="The channel to read: what was pushed to `MemorySource.handle(name)`.")
    loop: bool = Field(
        False,
        description="Repeat what was pushed before the query began without end, max_rows_per_trigger rows an epoch.",
    )
    splits_per_epoch: int = Field(2, gt=0, description="Most tasks that read one epoch.")
    faults: SourceFaults = Field(
        (),
        description="Faults to inject, as action@point:epoch separated by commas. Actions: raise, kill, sleep. Points: "
        "latest_offset, splits, read. The epoch is the number of a pushed batch (with loop, of an epoch): the fault "
        "fires where that batch is handled. Each fires once; a * behind it makes it fire every time.",
    )

    @model_validator(mode="after")
    def _loop_is_bounded(self) -> Self:
        if self.loop and self.max_rows_per_trigger is None:
            raise ValueError("loop needs max_rows_per_trigger, for an endless source has no other end of an epoch")
        return self


@dataclass(frozen=True, slots=True)
class BatchSplit:
    """The pushed batches from `first` up to, not including, `last`."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LoopSplit:
    """Rows `first` up to, not including, `last` of the first `batches` batches repeated without end."""

    first: int
    last: int
    batches: int


class MemorySource:
    """Batches pushed from a test, notebook or benchmark."""

    Config: ClassVar[type[MemorySourceConfig]] = MemorySourceConfig
    GUARANTEE: ClassVar[str] = "exactly-once: a pushed batch keeps its number, and an epoch is a range of numbers."

    def __init__(self, config: MemorySourceConfig) -> None:
        self.config = config
        self._schema: pa.Schema | None = None
        self._frozen: int | None = None
        self._is_frozen = False
        self._lengths: dict[int, int] = {}

    @staticmethod
    def handle(name: str) -> MemorySourceHandle:
        """The other end of the channel, for the process that pushes."""
        return MemorySourceHandle(name)

    @property
    def connector_id(self) -> str:
        return f"memory:{self.config.name}"

    def schema(self) -> pa.Schema:
        if self._schema is None:
            # What was pushed is what comes; the option only stands in until there is something.
            declared = self.config.schema
            self._schema = declared if declared is not None and not self._pushed.count() else self._pushed.schema
        return self._schema

    def initial_offset(self) -> Offset:
        return {"next": 0}

    def freeze(self) -> None:
        self._is_frozen = True
        # A loop has no end to come to rest at: it rests after one more epoch.
        self._frozen = None if self.config.loop else self._pushed.count()

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        end = self._loop_end(start, limit) if self.config.loop else self._batch_end(start, limit)
        self._fire("latest_offset", start["next"], end["next"])
        return end

    def splits(self, start: Offset, end: Offset) -> Sequence[BatchSplit | LoopSplit]:
        first, last = start["next"], end["next"]
        self._fire("splits", first, last)
        count = self.config.splits_per_epoch
        cuts = [first + (last - first) * i // count for i in range(count + 1)]
        if not self.config.loop:
            return [BatchSplit(low, high) for low, high in pairwise(cuts) if low < high]
        if first >= last:
            return []
        batches = end["batches"]
        rounds = self._rounds(batches)
        cuts = [first, *(max(first, rounds.batch_start(cut)) for cut in cuts[1:-1]), last]
        return [LoopSplit(low, high, batches) for low, high in pairwise(cuts) if low < high]

    def read(self, split: BatchSplit | LoopSplit) -> Iterator[StreamRecord]:
        self._fire("read", split.first, split.last)
        if isinstance(split, BatchSplit):
            for number in range(split.first, split.last):
                yield StreamRecord(self._batch(number))
            return
        records = [StreamRecord(self._batch(number)) for number in range(split.batches)]
        rounds = Rounds([record.num_rows for record in records])
        for index, skip, length in rounds.pieces(split.first, split.last):
            whole = records[index]
            yield whole if length == whole.num_rows else StreamRecord(whole.batch.slice(skip, length))

    def close(self) -> None:
        """Nothing is held open."""

    @property
    def _pushed(self) -> MemorySourceHandle:
        return MemorySourceHandle(self.config.name)

    def _batch(self, number: int) -> pa.RecordBatch:
        batch = self._pushed.batch(number)
        schema = self.schema()
        if batch.schema.equals(schema):
            return batch
        try:
            return batch.cast(schema)
        except (pa.ArrowException, ValueError) as error:
            raise ConfigError(
                f"Batch {number} of memory channel {self.config.name!r} does not fit the option 'schema' ({error}). "
                "Correct the option, or leave it out: the pushed batches bring their own schema."
            ) from error

    def _batch_end(self, start: Offset, limit: ReadLimit) -> Offset:
        first = start["next"]
        available = self._pushed.count()
        if self._frozen is not None:
            available = min(available, self._frozen)
        num_bytes = rows = 0
        for files, number in enumerate(range(first, available), start=1):
            num_bytes += self._pushed.size(number) if limit.max_bytes is not None else 0
            rows += self._length(number) if limit.max_rows is not None else 0
            if number > first and not limit.allows(files, num_bytes, rows):
                return {"next": number}
        return {"next": max(first, available)}

    def _loop_end(self, start: Offset, limit: ReadLimit) -> Offset:
        batches = start.get("batches") or self._pushed.count()
        first = start["next"]
        if not batches or (self._frozen is not None and first >= self._frozen):
            return start
        bounds = (limit.max_rows, self.config.max_rows_per_trigger)
        last = first + min(bound for bound in bounds if bound is not None)
        if limit.max_files is not None or limit.max_bytes is not None:
            last = self._bounded(first, last, batches, limit)
        if self._is_frozen:
            self._frozen = last
        return {"next": last, "batches": batches}

    def _bounded(self, first: int, last: int, batches: int, limit: ReadLimit) -> int:
        row, num_bytes = first, 0
        for files, (index, _, length) in enumerate(self._rounds(batches).pieces(first, last), start=1):
            num_bytes += self._pushed.size(index)
            if row > first and not limit.allows(files, num_bytes):
                break
            row += length
        return row

    def _rounds(self, batches: int) -> Rounds:
        return Rounds([self._length(number) for number in range(batches)])

    def _length(self, number: int) -> int:
        if number not in self._lengths:
            self._lengths[number] = int(self._pushed.batch(number).num_rows)
        return self._lengths[number]

    def _fire(self, point: str, first: int, last: int) -> None:
        if not self.config.faults or first >= last:
            return
        rows = self.config.max_rows_per_trigger
        epochs = range(first // rows, (last - 1) // rows + 1) if self.config.loop and rows else range(first, last)
        fire(self.config.faults, SOURCE_POINTS, Channel("source", self.config.name), point, epochs)
