"""Reads one split in a task: opens its objects, decodes them, and follows the options about bad input."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa

from volley_connectors.blob.config import BlobSourceConfig
from volley_connectors.blob.dead_letters import DeadLetters
from volley_connectors.blob.formats import Formats
from volley_connectors.blob.layout import RESCUED, Layout, ObjectColumns
from volley_connectors.blob.prefetch import Prefetch
from volley_connectors.blob.reports import BlobReport, Reports
from volley_connectors.blob.schemas import Sampler, SchemaLog
from volley_connectors.blob.splits import BlobSplit, Portion
from volley_core import (
    BadRecord,
    BadRecords,
    BlobChangedError,
    BlobNotFoundError,
    BlobReader,
    ConfigError,
    CuttingDecoder,
    DataError,
    DecodeError,
    SchemaChangedError,
    StreamRecord,
    TolerantDecoder,
)
from volley_core.bad_records import CORRUPT_RECORD

log = logging.getLogger(__name__)

_LARGEST_LETTER_BYTES = 16 * 1024 * 1024
_LOOKED_AT_ROWS = 1000
"""How many rows with extras are searched for the names of new columns, per batch."""


@dataclass(frozen=True)
class SplitReading:
    """Everything that a task needs."""

    connector_id: str
    config: BlobSourceConfig
    reader: BlobReader
    formats: Formats
    layout: Layout
    reports: Reports | None
    schemas: SchemaLog | None

    def check(self) -> None:
        """Raise ConfigError if the format cannot do what the options ask for."""
        decoder = self.formats.any()
        if self.tolerates and decoder is not None and not isinstance(decoder, TolerantDecoder):
            raise ConfigError(
                f"{self.connector_id}: format {self.config.format!r} cannot tell bad records from good ones. Leave "
                "'on_bad_record' at 'fail', and 'rescued_data' and schema_evolution=rescue out; see 'on_corrupt_file'."
            )

    def records(self, split: BlobSplit) -> Iterator[StreamRecord]:
        letters = self._dead_letters(split)
        found: list[BlobReport] = []
        with (
            Prefetch(self.reader, [portion.blob for portion in split.portions]) as files,
            closing(letters) if letters is not None else nullcontext(),
        ):
            for index, portion in enumerate(split.portions):
                reading = _PortionReading(self, portion, split.schema, letters, partial(files.open, index))
                yield from reading.records()
                found.append(reading.report)
            if letters is not None:
                letters.write()
        if self.reports is not None:
            self.reports.write(split.manifest, split.index, found)

    @property
    def tolerates(self) -> bool:
        """Whether a bad record is more than the end of its object."""
        return self.config.on_bad_record != "fail" or self.layout.rescued is not None

    @property
    def watches_columns(self) -> bool:
        """Whether columns that the schema lacks end the query."""
        return self.config.schema_evolution in ("fail", "add_new_columns")

    def _dead_letters(self, split: BlobSplit) -> DeadLetters | None:
        if self.config.dead_letter_path is None:
            return None
        memory = self.config.state_location or ""
        return DeadLetters(self.config.dead_letter_path, self.connector_id, memory, split)


class _PortionReading:
    """One object, or one piece of it."""

    def __init__(
        self,
        task: SplitReading,
        portion: Portion,
        schema: pa.Schema,
        letters: DeadLetters | None,
        open_file: Callable[[], BinaryIO],
    ) -> None:
        self._task = task
        self._open_file = open_file
        self._portion = portion
        self._blob = portion.blob
        self._schema = schema
        self._letters = letters
        self.report = BlobReport(portion.blob.uri, portion.blob.version, pieces=portion.pieces)

    def records(self) -> Iterator[StreamRecord]:
        try:
            columns = self._task.layout.of(self._portion, self._schema)
            with self._open_file() as file:
                for batch in self._batches(file, columns):
                    if batch.num_rows:
                        self.report = replace(self.report, rows=self.report.rows + batch.num_rows)
                        yield StreamRecord(columns.complete(batch), self._blob.event_time_ms)
        except (BlobNotFoundError, BlobChangedError) as error:
            self._forgive(error, "missing", "on_missing_file", self._task.config.on_missing_file)
        except DataError as error:
            self._forgive(error, "corrupt", "on_corrupt_file", self._task.config.on_corrupt_file)

    def _batches(self, file: BinaryIO, columns: ObjectColumns) -> Iterable[pa.RecordBatch]:
        decoder, piece = self._task.formats.of(self._blob.uri), self._portion.piece
        if piece is not None:
            assert isinstance(decoder, CuttingDecoder)
            decoder = decoder.within(piece)
        if isinstance(decoder, TolerantDecoder) and (self._task.tolerates or self._task.watches_columns):
            return self._tolerantly(decoder, file, columns.decoded)
        if self._task.watches_columns:
            new = [field for field in decoder.infer_schema(file) if field.name not in self._schema.names]
            self._refuse_new({field.name for field in new})
        return decoder.decode(file, columns.decoded)

    def _tolerantly(self, decoder: TolerantDecoder, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        asked = schema
        if self._task.watches_columns and RESCUED not in schema.names:
            # Only looked at: the rows that come out do not have it.
            asked = schema.append(pa.field(RESCUED, pa.string()))
        rescue = self._task.config.on_bad_record == "rescue"
        bad = BadRecords(self._bad_record, RESCUED if RESCUED in asked.names else None, rescue)
        for batch in decoder.decode_tolerantly(file, asked, bad):
            if self._task.watches_columns:
                self._refuse_new(self._new_columns(batch.column(RESCUED)))
            yield batch if asked is schema else batch.select(schema.names)

    def _bad_record(self, record: BadRecord) -> None:
        choice = self._task.config.on_bad_record
        if choice == "fail":
            raise DecodeError(_told(record))
        if choice == "dead_letter":
            assert self._letters is not None
            self._letters.add(self._portion, record)
        error = self.report.error or _told(record)
        self.report = replace(self.report, bad=self.report.bad + 1, error=error)

    def _forgive(self, error: DataError, state: str, option: str, choice: str) -> None:
        if choice == "fail":
            raise type(error)(
                f"{self._task.connector_id}: object {self._blob.uri} (version {self._blob.version or 'unknown'}) "
                f"cannot be read as {self._task.config.format!r}: {error}. The query will stop here until the object "
                f"is as it was, or option {option!r} is set to 'skip'{self._other_way(state)}."
            ) from error
        log.warning("%s: skipped the rest of object %s: %s", self._task.connector_id, self._blob.uri, error)
        if choice == "dead_letter":
            assert self._letters is not None
            self._letters.add_object(self._portion, str(error), self._raw())
        self.report = replace(self.report, state=state, error=str(error))

    def _other_way(self, state: str) -> str:
        if state == "corrupt" and isinstance(self._task.formats.any(), TolerantDecoder):
            return ", or 'on_bad_record' to 'drop', 'rescue' or 'dead_letter'"
        return ""

    def _raw(self) -> bytes | None:
        """The object's bytes, where they fit into a row."""
        if self._blob.size > _LARGEST_LETTER_BYTES:
            return None
        try:
            with self._task.reader.open(self._blob) as file:
                return file.read(_LARGEST_LETTER_BYTES)
        except DataError:
            return None

    def _new_columns(self, extras: pa.Array) -> set[str]:
        if extras.null_count == len(extras):
            return set()
        texts = extras.drop_null().slice(0, _LOOKED_AT_ROWS).to_pylist()
        found: set[str] = set().union(*map(_keys, texts))
        return found - {CORRUPT_RECORD, *self._schema.names}

    def _refuse_new(self, names: set[str]) -> None:
        if not names:
            return
        shown = ", ".join(sorted(names))
        what = f"{self._task.connector_id}: object {self._blob.uri} has columns that the schema lacks: {shown}"
        if self._task.schemas is None or self._task.config.schema_evolution == "fail":
            raise ConfigError(
                f"{what}. Add them to the option 'schema', or set schema_evolution to 'rescue', 'add_new_columns' or "
                "'none'; then restart the query."
            )
        sampler = Sampler(
            self._task.connector_id, self._task.config, self._task.layout, self._task.reader, self._task.formats
        )
        found = sampler.apply_hints(sampler.of_object(self._blob))
        added = pa.schema([field for field in found if field.name in names])
        known = pa.schema([field for field in self._schema if field.name not in self._task.layout.added.names])
        self._task.schemas.add_columns(known, added)
        raise SchemaChangedError(f"{what}. They are remembered now: restart the query, and its rows will have them.")


def _told(record: BadRecord) -> str:
    return record.error if record.error.startswith("row ") else f"row {record.row}: {record.error}"


def _keys(text: str) -> set[str]:
    value: Any = json.loads(text)
    return set(value)
