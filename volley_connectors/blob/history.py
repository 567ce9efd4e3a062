"""What a blob source has read, as Arrow: one row per object, from the manifests and the tasks' reports.

The manifests are read a few at a time and in order, so that memory does not grow with the history.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import pyarrow as pa

from volley_connectors.blob.cleaned import CleaningLog
from volley_connectors.blob.manifests import ManifestLog
from volley_connectors.blob.reports import BlobReport, Reports
from volley_connectors.moments import parse_moment
from volley_connectors.state import StateStore
from volley_core import BlobRef, ConfigError

CLEANED_STATES = ("deleted", "archived")
STATES = ("planned", "read", "corrupt", "missing", *CLEANED_STATES)
SCHEMA = pa.schema(
    [
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("uri", pa.string(), nullable=False),
        pa.field("version", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("planned_at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("event_time", pa.timestamp("us", "UTC")),
        pa.field("state", pa.string(), nullable=False),
        pa.field("rows", pa.int64()),
        pa.field("bad", pa.int64()),
        pa.field("error", pa.string()),
        pa.field("message_id", pa.string(), nullable=False),
    ]
)
"""`epoch` is the manifest's number, from 1. rows and bad are null for an object that no task reported on yet;
`planned` with rows is one in pieces of which some are read."""

_AT_ONCE = 16
_EPOCHS = re.compile(r"(\d*)(?:(\.\.)(\d*))?")


@dataclass(frozen=True, slots=True)
class Filters:
    """Which objects are asked for. Every filter that is set holds."""

    first: int = 1
    last: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """Both about when the epoch was planned."""
    match: str | None = None
    """A glob over the whole uri; * also crosses folders."""
    state: str | None = None

    @classmethod
    def parse(
        cls,
        epoch: str | None = None,
        since: str | None = None,
        until: str | None = None,
        match: str | None = None,
        state: str | None = None,
    ) -> Self:
        """From what people write. Raises ValueError, whose text begins with the filter's name."""
        if state is not None and state not in STATES:
            raise ValueError(f"state {state!r}: expected one of {', '.join(STATES)}")
        first, last = parse_epochs(epoch) if epoch is not None else (1, None)
        return cls(first, last, _moment("since", since), _moment("until", until), match, state)

    def takes_epoch(self, number: int) -> bool:
        return self.first <= number and (self.last is None or number <= self.last)

    def takes_time(self, planned_ms: int) -> bool:
        return (self.since_ms is None or self.since_ms <= planned_ms) and (
            self.until_ms is None or planned_ms <= self.until_ms
        )

    def rows_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows whose uri and state are asked for."""
        import pyarrow.compute as pc

        if self.state is not None:
            batch = batch.filter(pc.equal(batch["state"], self.state))
        if self.match is not None:
            pattern = re.compile(fnmatch.translate(self.match))
            batch = batch.filter(pa.array([bool(pattern.match(uri)) for uri in batch["uri"].to_pylist()], pa.bool_()))
        return batch


def parse_epochs(text: str) -> tuple[int, int | None]:
    """`7`, `2..5`, `2..` or `..5` as the first and the last number; None is no bound. Raises ValueError."""
    found = _EPOCHS.fullmatch(text.strip())
    if found is None or not (found[1] or found[3]):
        raise ValueError(f"epoch {text!r}: expected a number such as 7, or a range such as 2..5, 2.. or ..5")
    first = int(found[1] or 1)
    last = (int(found[3]) if found[3] else None) if found[2] else first
    if last is not None and last < first:
        raise ValueError(f"epoch {text!r}: the range ends before it begins")
    return first, last


class History:
    """The epochs at one state_location. Reads only; safe beside the query that writes there."""

    def __init__(self, location: str, *, with_cleaning: bool = True) -> None:
        """`with_cleaning`: tell of objects that were read also if they were deleted or archived since."""
        self._state = StateStore(location)
        self._with_cleaning = with_cleaning
        self._manifests = ManifestLog(self._state)
        self._reports = Reports(self._state)
        self._cleaning = CleaningLog(self._state)

    def check(self) -> None:
        """Raise ConfigError if nothing was ever planned here."""
        if not self.numbers():
            raise ConfigError(
                f"{self._state.shown!r} holds no manifests{': there is no such directory' * self._state.is_absent}. "
                "Give the state_location of a blob source that has run; where a pipeline file names none, it is "
                "the folder volley-state in its checkpoint."
            )

    def numbers(self, filters: Filters = Filters()) -> list[int]:
        """The epochs that are there, in order."""
        return [number for number in self._manifests.numbers() if filters.takes_epoch(number)]

    def has(self, number: int) -> bool:
        return self._manifests.has(number)

    def batches(
        self, filters: Filters = Filters(), on_epoch: Callable[[int, int], None] = lambda done, total: None
    ) -> Iterator[pa.RecordBatch]:
        """One batch for each epoch that holds objects asked for. `on_epoch` hears how many of them all are done."""
        return self.batches_of(self.numbers(filters), filters, on_epoch)

    def batches_of(
        self,
        numbers: Sequence[int],
        filters: Filters = Filters(),
        on_epoch: Callable[[int, int], None] = lambda done, total: None,
    ) -> Iterator[pa.RecordBatch]:
        """The same for these epochs."""
        # Over a network each epoch costs some round trips, so that many at once are worth it; all would fill memory.
        with ThreadPoolExecutor(_AT_ONCE, "volley-history") as pool:
            for begin in range(0, len(numbers), _AT_ONCE):
                wave = numbers[begin : begin + _AT_ONCE]
                for done, batch in enumerate(pool.map(lambda number: self.batch(number, filters), wave), begin + 1):
                    on_epoch(done, len(numbers))
                    if batch.num_rows:
                        yield batch

    def batch(self, number: int, filters: Filters = Filters()) -> pa.RecordBatch:
        """The objects of one epoch, in the order in which they were planned."""
        planned_ms, entries = self._manifests.planned(number)
        if not filters.takes_time(planned_ms):
            return _batch([])
        outcomes = self._reports.outcomes(number)
        if number in self._cleaned_numbers:
            cleaned = self._cleaning.read(number)
            outcomes = {
                identity: replace(report, state=cleaned.state)
                if report.state == "read" and identity not in cleaned.kept
                else report
                for identity, report in outcomes.items()
            }
        rows = [
            _row(number, planned_ms, entry.blob, outcomes.get(entry.blob.identity), entry.message_id)
            for entry in entries
        ]
        return filters.rows_of(_batch(rows))

    @cached_property
    def _cleaned_numbers(self) -> set[int]:
        return self._cleaning.numbers() if self._with_cleaning else set()


Row = tuple[object, ...]


def _batch(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _row(number: int, planned_ms: int, blob: BlobRef, outcome: BlobReport | None, message_id: str) -> Row:
    event_us = None if blob.event_time_ms is None else blob.event_time_ms * 1000
    told: Row = ("planned", None, None, None)
    if outcome is not None:
        told = (outcome.state, outcome.rows, outcome.bad, outcome.error or None)
    return (number, blob.uri, blob.version, blob.size, planned_ms * 1000, event_us, *told, message_id)


def _moment(name: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_moment(text)
    except ValueError as error:
        raise ValueError(f"{name} {text!r}: {error}") from None
