"""A SplitSource out of any queue, blob reader and decoder.

A store's package passes its NotificationSource and BlobReader to the constructor and adds nothing else. The planning
methods run on the driver; `read` runs in a task and touches neither the queue nor the state.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import pyarrow as pa

from volley_connectors import hooks
from volley_connectors.blob.bookkeeping import Bookkeeper, Rules
from volley_connectors.blob.cleaning import Cleaner, check_cleaning
from volley_connectors.blob.config import BlobSourceConfig
from volley_connectors.blob.deliveries import Deliveries, NoQueue
from volley_connectors.blob.discovery import Discovery, Marks
from volley_connectors.blob.formats import Formats
from volley_connectors.blob.inbox import Inbox
from volley_connectors.blob.layout import Layout
from volley_connectors.blob.ledger import Ledger
from volley_connectors.blob.lister import Lister
from volley_connectors.blob.manifests import Entry, ManifestLog
from volley_connectors.blob.planner import EpochPlanner
from volley_connectors.blob.reading import SplitReading
from volley_connectors.blob.reports import Reports
from volley_connectors.blob.reprocessing import Past, Reprocessing, Survey, survey
from volley_connectors.blob.schemas import Sampler, SchemaLog
from volley_connectors.blob.selection import Selection
from volley_connectors.blob.splits import BlobSplit, Portion, pack
from volley_connectors.blob.triage import Triage
from volley_connectors.state import StateStore
from volley_core import (
    BlobReader,
    BlobRef,
    BlobRemover,
    ConfigError,
    CuttingDecoder,
    DataError,
    NotificationSource,
    Offset,
    ReadLimit,
    StreamRecord,
)

log = logging.getLogger(__name__)

_MADE_ON_USE = (
    "_planner",
    "_cleaner",
    "_marks",
    "_manifests",
    "_state",
    "_scratch",
    "_formats",
    "_layout",
    "_reading",
    "_schemas",
    "_schema",
)


class BlobSource:
    """Objects of a blob store as rows, each object once."""

    GUARANTEE: ClassVar[str] = (
        "Exactly-once with a state_location: every object is in one epoch, and a replayed epoch reads the same objects."
    )

    def __init__(
        self, config: BlobSourceConfig, queue: NotificationSource | None, reader: BlobReader, prefix: str
    ) -> None:
        """`prefix`: what every uri of this source begins with; the rest is what `path_glob` and `ignored` judge."""
        self._config = config
        self._queue = queue
        self._reader = reader
        self._prefix = prefix
        self._reported = 0
        self._is_frozen = False
        check_cleaning(self.connector_id, config, reader, prefix)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _MADE_ON_USE}

    @property
    def connector_id(self) -> str:
        return f"blobs:{self._prefix}"

    def check(self) -> None:
        """Raise ConfigError if the store cannot be used as configured. Called on the driver before anything is read."""

    def schema(self) -> pa.Schema:
        return self._schema

    def initial_offset(self) -> Offset:
        return {"manifest": 0}

    def freeze(self) -> None:
        self._is_frozen = True
        self._planner.freeze()

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        number = start["manifest"]
        end = self._planner.next_manifest(number, limit)
        self._report(number)
        if self._cleaner is not None:
            self._cleaner.committed(number, is_last_call=self._is_frozen and end == number)
        return {"manifest": end}

    def splits(self, start: Offset, end: Offset) -> Sequence[BlobSplit]:
        numbers = range(start["manifest"] + 1, end["manifest"] + 1)
        return [split for number in numbers for split in self._splits(number)]

    def read(self, split: BlobSplit) -> Iterator[StreamRecord]:
        return self._reading.records(split)

    def close(self) -> None:
        if (cleaner := self.__dict__.get("_cleaner")) is not None:
            cleaner.close()
        if "_planner" in self.__dict__:
            self._planner.close()
        if self._queue is not None:
            self._queue.close()
        # A reader of a remote store has connections; one of local files has nothing to close.
        close_reader = getattr(self._reader, "close", None)
        if close_reader is not None:
            close_reader()
        if "_scratch" in self.__dict__:
            self._scratch.cleanup()
        for name in _MADE_ON_USE:
            self.__dict__.pop(name, None)

    def survey(self, show: Callable[[int, int], None]) -> Survey:
        """What reprocessing with these options would read, and how much of it is gone by now."""
        return survey(Past(self._config), Selection(self._config, self._prefix).wants, self._reader, show)

    def _splits(self, number: int) -> Iterator[BlobSplit]:
        portions = [portion for entry in self._planned(number) for portion in self._portions(entry)]
        packs = pack(portions, self._config.target_split_bytes)
        return (BlobSplit(found, self.schema(), number, index) for index, found in enumerate(packs))

    def _portions(self, entry: Entry) -> Iterator[Portion]:
        """An object whole or, if it is big and its format permits, in pieces."""
        whole, target = Portion(entry.blob, entry.message_id), self._config.target_split_bytes
        # Rows of a piece cannot be counted from the object's beginning.
        if entry.blob.size <= target or self._config.include_metadata:
            return iter([whole])
        try:
            decoder = self._formats.of(entry.blob.uri)
            if not isinstance(decoder, CuttingDecoder):
                return iter([whole])
            with self._reader.open(entry.blob) as file:
                pieces = decoder.cut(file, target)
        except DataError:
            # Its reading follows the options about such objects.
            return iter([whole])
        if len(pieces) < 2:
            return iter([whole])
        return (replace(whole, piece=piece, weight=target, pieces=len(pieces)) for piece in pieces)

    def _planned(self, number: int) -> list[Entry]:
        if not self._must_remember and not self._manifests.has(number):
            # Nothing of that epoch was acknowledged: its objects will be announced again.
            log.warning("%s: the plan of epoch %d was lost with its driver; read anew", self.connector_id, number)
            return []
        return self._manifests.read(number)

    def _report(self, number: int) -> None:
        """Tell what of a committed epoch could not be read. Its tasks may have run anywhere; this is the driver."""
        if self._config.state_location is None or number <= self._reported:
            return
        self._reported = number
        for report in Reports(self._state).read(number):
            if report.bad or report.state != "read":
                count, reason = report.bad or 1, report.error
                hooks.fire("bad_records", connector_id=self.connector_id, origin=report.uri, count=count, reason=reason)

    @property
    def _must_remember(self) -> bool:
        return self._config.delivery == "exactly-once"

    @cached_property
    def _planner(self) -> EpochPlanner:
        self.check()
        # Refused before anything is planned, if it cannot work.
        _ = self._cleaner
        config, mode = self._config, self._discovery_mode
        queue = self._queue if self._queue is not None and mode != "listing" else NoQueue()
        deliveries = Deliveries(queue, config.visibility_seconds)
        triage = Triage(
            Selection(config, self._prefix),
            self._reader,
            lambda: planner.ledger,
            config.delay_seconds,
            leave_foreign=config.foreign_events == "leave",
            threads=config.fetch_concurrency,
        )
        discovery = self._reprocessing(triage) or Discovery(
            None if mode == "listing" else Inbox(queue, deliveries, config.fetch_concurrency),
            self._lister(triage),
            {"notifications": None, "listing": 0.0, "both": config.backfill_interval}[mode],
            self._marks,
        )
        reprocesses = config.reprocess_state_location is not None
        # An object whose reading is put off is not too old for that.
        max_age_ms = int((config.max_file_age + config.delay_seconds) * 1000)
        bookkeeper = Bookkeeper(
            self._state,
            # Several versions of one object were read if the other query did not leave them out.
            Ledger(config.allow_overwrites or reprocesses, max_age_ms),
            Rules(max_age_ms, int(config.manifest_retention * 1000)),
            # What is read again is of any age.
            lambda: not reprocesses and (not self._with_existing or self._marks.existing_are_planned),
        )
        planner = EpochPlanner(discovery, deliveries, triage, self._manifests, bookkeeper, self._must_remember)
        return planner

    @cached_property
    def _cleaner(self) -> Cleaner | None:
        if self._config.clean_source == "off":
            return None
        if not self._must_remember or self._config.state_location is None:
            raise ConfigError(
                f"{self.connector_id}: clean_source = {self._config.clean_source} needs delivery = exactly-once and a "
                "state_location: without its memory the source would not know what it may take away. Give it one, or "
                "set clean_source to 'off'."
            )
        assert isinstance(self._reader, BlobRemover)
        return Cleaner(self.connector_id, self._config, self._reader, self._prefix)

    def _reprocessing(self, triage: Triage) -> Reprocessing | None:
        if self._config.reprocess_state_location is None:
            return None
        # A batch read has one epoch for everything.
        keep_apart = self._config.state_location is not None
        news = partial(triage.news, with_young=True)
        return Reprocessing(Past(self._config), news, keep_apart=keep_apart)

    def _lister(self, triage: Triage) -> Lister | None:
        is_once = self._discovery_mode == "notifications"
        has_memory = self._config.state_location is not None
        if is_once and not self._with_existing:
            return None

        # Without a memory, as in a batch read, there is no first start.
        since_ms = self._marks.begun_ms if has_memory and not self._with_existing else 0

        def news(blobs: list[BlobRef]) -> list[BlobRef]:
            return triage.news(blobs, since_ms=since_ms, with_young=is_once)

        return Lister(self._reader, self._prefix, news, self._with_existing)

    @property
    def _with_existing(self) -> bool:
        """Whether to read what was there before the first start."""
        given, has_memory = self._config.include_existing_files, self._config.state_location is not None
        return given if given is not None else self._discovery_mode != "notifications" or has_memory

    @property
    def _discovery_mode(self) -> str:
        if self._config.reprocess_state_location is not None:
            return "listing"
        return self._config.discovery or ("listing" if self._queue is None else "notifications")

    @cached_property
    def _marks(self) -> Marks:
        return Marks(self._state)

    @cached_property
    def _manifests(self) -> ManifestLog:
        return ManifestLog(self._state)

    @cached_property
    def _state(self) -> StateStore:
        if self._config.state_location is not None:
            return StateStore(self._config.state_location)
        if self._must_remember:
            raise ConfigError(
                f"{self.connector_id}: option 'state_location' is required: a folder of this query's own, beside its "
                "checkpoint, where the source remembers which objects it has read. Without one, set "
                "delivery='at-least-once'."
            )
        return StateStore(self._scratch.name)

    @cached_property
    def _scratch(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="volley-state-", ignore_cleanup_errors=True)

    @cached_property
    def _formats(self) -> Formats:
        return Formats(self._config.format, self._config.format_options)

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self._config, self._prefix)

    @cached_property
    def _reading(self) -> SplitReading:
        reports = Reports(self._state) if self._config.state_location is not None else None
        return SplitReading(
            self.connector_id, self._config, self._reader, self._formats, self._layout, reports, self._schemas
        )

    @cached_property
    def _schemas(self) -> SchemaLog | None:
        location = self._config.schema_location or self._config.state_location
        # Not refused by the config itself: a pipeline fills its state_location in later.
        if location is None and self._must_remember and self._config.schema_evolution == "add_new_columns":
            raise ConfigError(
                f"{self.connector_id}: schema_evolution = add_new_columns needs 'schema_location' or 'state_location': "
                "where to remember the columns."
            )
        return None if location is None else SchemaLog(StateStore(location))

    @cached_property
    def _schema(self) -> pa.Schema:
        """What the user gave, else what the first objects look like; and what turned up since."""
        self._reading.check()
        schema = self._config.schema
        if schema is None:
            schema = (self._schemas and self._schemas.last()) or self._infer_schema()
        if self._schemas is not None and (
            self._config.schema is None or self._config.schema_evolution == "add_new_columns"
        ):
            schema = self._schemas.add_columns(schema, pa.schema([]))
        return self._layout.complete(schema)

    def _infer_schema(self) -> pa.Schema:
        self.check()
        wants = Selection(self._config, self._prefix).wants
        sampler = Sampler(self.connector_id, self._config, self._layout, self._reader, self._formats)
        return sampler.infer(blob for blob in self._reader.list(self._prefix) if wants(blob.uri))
