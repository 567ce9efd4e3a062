"""The source `volley-files`: which objects another query has read, as rows.

A stream gives an epoch once the one after it is planned, which happens only when its tasks have reported and Spark has
committed it: so a replay gives the same rows. A batch gives what is known now.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from volley_connectors.blob.history import CLEANED_STATES, SCHEMA, Filters, History
from volley_core import ConfigError, Offset, ReadLimit, SourceConfig, StreamRecord

log = logging.getLogger(__name__)

_EPOCHS_PER_SPLIT = 50
_LONGEST_REST_SECONDS = 1.0


class HistorySourceConfig(SourceConfig):
    """Options of the source `volley-files`."""

    EXAMPLE = {"location": "/data/checkpoints/orders/volley-state", "state": "corrupt"}

    location: str = Field(min_length=1, description="The state_location of the blob source whose objects are listed.")
    epoch: str | None = Field(None, description="Only these of its epochs: 7, 2..5, 2.. or ..5.")
    since: str | None = Field(None, description="Planned since: '2024-05-01 12:00' (UTC), or '2 hours' ago.")
    until: str | None = Field(None, description="Planned until then.")
    match: str | None = Field(None, description="Only objects with such a uri: '*/2024/*.json'. * crosses folders.")
    state: str | None = Field(
        None,
        description="Only objects that are planned, read, corrupt or missing; in a batch also deleted or archived.",
    )
    max_files_per_trigger: int | None = Field(
        1000, gt=0, description="Most epochs of that source that one epoch takes in."
    )

    @property
    def filters(self) -> Filters:
        """With times that are said as so long ago counted from now."""
        return Filters.parse(self.epoch, self.since, self.until, self.match, self.state)

    @field_validator("max_rows_per_trigger", "max_bytes_per_trigger")
    @classmethod
    def _is_unknown(cls, bound: int | None) -> int | None:
        if bound is not None:
            raise ValueError("what an epoch of that source holds is not known before; use max_files_per_trigger")
        return bound

    @model_validator(mode="after")
    def _filters_make_sense(self) -> Self:
        _ = self.filters
        return self


@dataclass(frozen=True, slots=True)
class HistorySplit:
    """Some epochs for one task."""

    numbers: range
    filters: Filters
    is_final: bool


class HistorySource:
    """The objects that a blob source has read, one row each."""

    Config: ClassVar[type[HistorySourceConfig]] = HistorySourceConfig
    GUARANTEE: ClassVar[str] = (
        "Exactly-once: a stream tells of an epoch when it is final, which is when the next one is planned. With "
        "delivery=at-least-once it tells at once what is known by then. A batch also tells what clean_source did."
    )

    def __init__(self, config: HistorySourceConfig) -> None:
        self._config = config
        self._frozen: int | None = None
        self._last = 0
        self._look_at = 0.0

    @property
    def connector_id(self) -> str:
        return f"volley-files:{self._config.location}"

    def schema(self) -> pa.Schema:
        return SCHEMA

    def initial_offset(self) -> Offset:
        return {"manifest": 0}

    def freeze(self) -> None:
        if self._frozen is None:
            self._look_at = 0.0
            self._frozen = self._last_to_tell()

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        if self._is_final and self._config.state in CLEANED_STATES:
            raise ConfigError(
                f"{self.connector_id}: a stream tells what became of objects when they were read, so none is ever "
                f"{self._config.state!r} there. Leave the option 'state' out, or read it as a batch."
            )
        filters, last = self._config.filters, self._last_to_tell() if self._frozen is None else self._frozen
        first = max(start["manifest"] + 1, filters.first)
        first = self._skip_forgotten(first) if first <= last else first
        if filters.last is not None:
            last = min(last, filters.last)
        if limit.max_files is not None:
            last = min(last, first + limit.max_files - 1)
        if last < first:
            return start
        # Everything that a replay needs, also where "2 hours ago" means another time by then.
        times = {"since_ms": filters.since_ms, "until_ms": filters.until_ms}
        return {"manifest": last, "first": first, **{name: ms for name, ms in times.items() if ms is not None}}

    def splits(self, start: Offset, end: Offset) -> Sequence[HistorySplit]:
        filters = replace(self._config.filters, since_ms=end.get("since_ms"), until_ms=end.get("until_ms"))
        numbers = range(max(start["manifest"] + 1, end.get("first", 1)), end["manifest"] + 1)
        return [
            HistorySplit(numbers[begin : begin + _EPOCHS_PER_SPLIT], filters, self._is_final)
            for begin in range(0, len(numbers), _EPOCHS_PER_SPLIT)
        ]

    def read(self, split: HistorySplit) -> Iterator[StreamRecord]:
        history = History(self._config.location, with_cleaning=not split.is_final)
        return (StreamRecord(batch) for batch in history.batches_of(split.numbers, split.filters))

    def close(self) -> None:
        self.__dict__.pop("_history", None)

    @property
    def _is_final(self) -> bool:
        return self._config.delivery == "exactly-once"

    @cached_property
    def _history(self) -> History:
        return History(self._config.location)

    def _last_to_tell(self) -> int:
        began = time.monotonic()
        if began >= self._look_at:
            if not self._last:
                self._history.check()
                self._last = self._history.numbers()[-1]
            while self._history.has(self._last + 1):
                self._last += 1
            # Spark asks every few milliseconds while there is nothing.
            ended = time.monotonic()
            self._look_at = ended + min(9 * (ended - began), _LONGEST_REST_SECONDS)
        return self._last - 1 if self._is_final else self._last

    def _skip_forgotten(self, first: int) -> int:
        """The first epoch from there on whose manifest is still kept."""
        if self._history.has(first):
            return first
        kept = next((number for number in self._history.numbers() if number >= first), first)
        log.warning("%s: epochs %d to %d are not kept any more; left out", self.connector_id, first, kept - 1)
        return kept
