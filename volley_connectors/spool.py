"""Makes a polled `Source` replayable: what was polled is stored before Spark hears of it.

Driver-side. One Arrow file per epoch at `state_location`, created only if absent; the offset is its number. A file
that never reached Spark's log, because of a crash in between, is taken over by the next start.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from volley_connectors.polled import PolledSource
from volley_connectors.state import StateStore
from volley_core import (
    ConfigError,
    Offset,
    PipelineConflictError,
    ReadLimit,
    ResumableSource,
    Source,
    SourceConfig,
    StreamRecord,
)

MAX_EPOCH_BYTES = 64 * 1024 * 1024
"""An epoch is held in memory while it is polled, so it has a bound even where the user sets none."""
MAX_EPOCH_SECONDS = 5.0
"""A source that always has one more record must not keep the epoch from starting."""
RETAINED_EPOCHS = 10
"""How many epochs back a checkpoint may be restored to and still find its rows."""

_POSITION = b"volley.position"


class SpoolSource(PolledSource):
    """A SplitSource over a polled Source."""

    def __init__(self, source: Source, config: SourceConfig) -> None:
        super().__init__(source)
        self._config = config
        self._last: int | None = None
        self._frozen = self._drained = False

    def initial_offset(self) -> Offset:
        return {"spool": 0}

    def freeze(self) -> None:
        self._frozen = True

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        number = start["spool"]
        self._forget(number)
        if self._resume(number) > number:
            return {"spool": number + 1}
        if self._drained:
            return start
        records, position = self._poll(limit)
        if not records:
            return start
        self._store_epoch(number + 1, records, position)
        # Durable now, whatever becomes of the epoch: upstream may forget it.
        self._polled.on_checkpoint(number + 1)
        return {"spool": number + 1}

    def splits(self, start: Offset, end: Offset) -> Sequence[tuple[str, str]]:
        numbers = range(start["spool"] + 1, end["spool"] + 1)
        return [(self._store.location, _name(number)) for number in numbers]

    def read(self, split: tuple[str, str]) -> Iterator[StreamRecord]:
        location, name = split
        try:
            data = StateStore(location).read(name)
        except FileNotFoundError:
            raise ConfigError(
                f"{self.connector_id}: {name} is not at {location}. If the state_location was moved or cleaned, "
                "restore it; if executors do not share the driver's disk, give one that they can reach."
            ) from None
        with pa.ipc.open_stream(data) as batches:
            for batch in batches:
                yield StreamRecord(batch)

    @cached_property
    def _store(self) -> StateStore:
        location = self._config.state_location
        if location is None:
            # Also for delivery='at-least-once': a replay without the stored rows would lose them.
            raise ConfigError(
                f"{self.connector_id}: option 'state_location' is required: a path or address of this query's own, "
                "where polled records are kept until their epoch is done."
            )
        return StateStore(location) / "spool"

    def _resume(self, number: int) -> int:
        """The number of the last stored epoch; the first call sets the source to go on after it."""
        if self._last is None:
            last = max((int(name.partition(".")[0]) for name in self._store.names()), default=0)
            if last < number:
                raise ConfigError(
                    f"{self.connector_id}: the checkpoint is at epoch {number} but {self._store.location} holds only "
                    f"{last}: the state_location was changed or cleaned. Restore it, or start with a new checkpoint."
                )
            if isinstance(self._polled, ResumableSource) and last:
                metadata = pa.ipc.open_stream(self._store.read(_name(last))).schema.metadata or {}
                if _POSITION in metadata:
                    self._polled.seek(json.loads(metadata[_POSITION]))
            self._last = last
        return self._last

    def _poll(self, limit: ReadLimit) -> tuple[list[StreamRecord], Offset | None]:
        max_bytes = min(limit.max_bytes or MAX_EPOCH_BYTES, MAX_EPOCH_BYTES)
        records: list[StreamRecord] = []
        size = rows = 0
        deadline = time.monotonic() + MAX_EPOCH_SECONDS
        while size < max_bytes and (limit.max_rows is None or rows < limit.max_rows) and time.monotonic() < deadline:
            record = self._polled.poll()
            if record is None:
                self._drained = self._frozen
                break
            if record.num_rows:
                records.append(record)
                size += record.batch.nbytes
                rows += record.num_rows
        position = self._polled.position() if isinstance(self._polled, ResumableSource) else None
        return records, position

    def _store_epoch(self, number: int, records: Sequence[StreamRecord], position: Offset | None) -> None:
        metadata: dict[Any, Any] = {} if position is None else {_POSITION: json.dumps(position).encode()}
        schema = records[0].batch.schema.with_metadata(metadata)
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, schema) as stream:
            for record in records:
                stream.write_batch(record.batch.replace_schema_metadata(metadata))
        if not self._store.create(_name(number), buffer.getvalue().to_pybytes()):
            raise PipelineConflictError(
                f"{self.connector_id}: another query stored epoch {number} at {self._store.location}. "
                "Give each query a state_location of its own, or stop the other one."
            )
        self._last = number

    def _forget(self, number: int) -> None:
        """Remove what no restart can ask for any more."""
        gone = number - RETAINED_EPOCHS
        if gone > 0 and self._last is None:
            for name in self._store.names():
                if int(name.partition(".")[0]) <= gone:
                    self._store.delete(name)
        elif gone > 0:
            self._store.delete(_name(gone))


def _name(number: int) -> str:
    return f"{number:020d}.arrow"
