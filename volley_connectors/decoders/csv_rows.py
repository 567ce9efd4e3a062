"""Blocks of CSV records as batches of one schema."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc

from volley_connectors.decoders import lines
from volley_connectors.decoders.columns import fit
from volley_connectors.decoders.csv_blocks import CsvDialect
from volley_connectors.decoders.timestamps import parse_dates, parse_timestamps
from volley_core import BadRecord, BadRecords, DecodeError
from volley_core.bad_records import CORRUPT_RECORD

_TRUE = ["true", "True", "TRUE"]
_FALSE = ["false", "False", "FALSE"]
_ROW = re.compile(r"Row #\d+: |In CSV column #\d+: ")


class CsvParser:
    """Parses blocks for one file."""

    def __init__(
        self, schema: pa.Schema, bad: BadRecords, names: list[str], dialect: CsvDialect, null_values: list[str]
    ) -> None:
        self._schema = schema
        self._bad = bad
        self._names = names
        self._dialect = dialect
        self._null_values = null_values
        self._asked = pa.schema([field for field in schema if field.name != bad.extras])
        self._others = [name for name in names if name not in schema.names] if bad.extras else []
        self._count = lines.RowCounter()

    def batches(self, block: bytes) -> Iterator[pa.RecordBatch]:
        """A block's rows, in one batch."""
        try:
            parts = [self._parse_checked(block, self._count.rows)]
            self._count.rows += parts[0].num_rows
        except DecodeError:
            records = self._dialect.records(block)
            parts = list(lines.parse_tolerantly(records, self._parse_checked, self._bad_record, self._count))
        if parts and (rows := parts[0] if len(parts) == 1 else pa.concat_batches(parts)).num_rows:
            yield rows

    def _check(self, rows: int, block: bytes) -> None:
        """Raise DecodeError if a quote that was never closed has made one row of several lines."""
        last = 0 if self._dialect.multiline else block.rfind(b"\n", 0, len(block) - 1) + 1
        if self._dialect.is_open(block[last:]):
            raise DecodeError("not valid CSV: a quote is never closed")
        if not self._dialect.multiline and rows < _line_ends(block) and rows < len(self._dialect.records(block)):
            raise DecodeError("not valid CSV: a value holds a line end, which only 'multiline' allows")

    def _parse_checked(self, records: bytes, rows_before: int) -> pa.RecordBatch:
        batch = self._parse(records, rows_before)
        self._check(batch.num_rows, records)
        return batch

    def _parse(self, block: bytes, rows_before: int) -> pa.RecordBatch:
        read = self._read(block, self._asked, self._others)
        if self._bad.extras is None:
            return fit(read, self._schema)
        others = [_dump(row) for row in read.select(self._others).to_pylist()] if self._others else None
        extras = pa.array(others or [None] * read.num_rows, pa.string())
        return fit(read.select(self._asked.names).append_column(self._bad.extras, extras), self._schema)

    def _read(self, block: bytes, schema: pa.Schema, texts: list[str]) -> pa.RecordBatch:
        """Columns of `schema`, and others as texts."""
        types = {field.name: _read_as(field.type) for field in schema} | dict.fromkeys(texts, pa.string())
        columns = [*schema.names, *texts]
        try:
            table = pc.read_csv(
                io.BytesIO(block),
                pc.ReadOptions(use_threads=False, column_names=self._names, block_size=len(block) + 1),
                self._dialect.parse_options(),
                pc.ConvertOptions(
                    null_values=self._null_values,
                    true_values=_TRUE,
                    false_values=_FALSE,
                    strings_can_be_null=True,
                    column_types=types,
                    # None asked for would be all of them.
                    include_columns=columns or self._names[:1],
                    include_missing_columns=True,
                ),
            )
        except pa.ArrowInvalid as error:
            raise DecodeError(f"not valid CSV: {_ROW.sub('', str(error))}") from error
        (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        return _finished(batch, schema) if columns else batch.select([])

    def _bad_record(self, record: bytes, row: int, error: DecodeError) -> pa.RecordBatch | None:
        self._bad.add(BadRecord(record.rstrip(b"\r\n"), f"row {row}: {error}", row))
        return self._rescue(record) if self._bad.rescue else None

    def _rescue(self, record: bytes) -> pa.RecordBatch | None:
        """A bad record as a row: what does not fit stands among the extras. None if a null is not allowed there."""
        values: dict[str, Any] = {}
        try:
            texts = self._dialect.values(record)
            self._check(1, record)
        except (DecodeError, UnicodeError):
            others: dict[str, Any] = {CORRUPT_RECORD: record.rstrip(b"\r\n").decode(errors="replace")}
        else:
            named = dict(zip(self._names, texts, strict=False))
            others = {name: named[name] for name in self._others if named.get(name) not in (None, *self._null_values)}
            others |= {f"_c{at}": text for at, text in enumerate(texts) if at >= len(self._names)}
            for field in self._asked:
                if field.name in named:
                    try:
                        values[field.name] = self._value(named[field.name], field)
                    except DecodeError:
                        others[field.name] = named[field.name]
        assert self._bad.extras is not None
        values[self._bad.extras] = None if not others else json.dumps(others, ensure_ascii=False, separators=(",", ":"))
        batch = pa.RecordBatch.from_pylist([values], schema=self._schema)
        return (
            batch if all(field.nullable or not batch.column(field.name).null_count for field in self._schema) else None
        )

    def _value(self, text: str, field: pa.Field) -> Any:
        one = pa.schema([field])
        parser = CsvParser(one, BadRecords(lines.refuse), [field.name], self._dialect, self._null_values)
        return fit(parser._read(self._dialect.record([text]), one, []), one).column(0)[0].as_py()


def _dump(row: dict[str, str | None]) -> str | None:
    found = {name: value for name, value in row.items() if value is not None}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")) if found else None


def _line_ends(block: bytes) -> int:
    ends = block.count(b"\n")
    if b"\r" in block:
        ends += block.count(b"\r") - block.count(b"\r\n")
    return ends + (not block.endswith((b"\n", b"\r")))


def _read_as(kind: pa.DataType) -> pa.DataType:
    # Arrow's own parser wants a zone in every timestamp of a column, or in none, and knows one spelling of a date.
    return pa.string() if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else kind


def _finished(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns in the types that Arrow's CSV parser cannot be trusted with."""
    for index, field in enumerate(schema):
        array = batch.column(index)
        try:
            if pa.types.is_timestamp(field.type):
                batch = batch.set_column(index, field, parse_timestamps(array, field.type))
            elif pa.types.is_date(field.type):
                batch = batch.set_column(index, field, parse_dates(array).cast(field.type))
            elif pa.types.is_decimal(field.type):
                # It does not look whether the digits are too many.
                array.validate(full=True)
        except ValueError as error:
            raise DecodeError(f"column {field.name!r}: {error}") from error
    return batch
