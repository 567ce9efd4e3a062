"""Formats that give columns: batches brought into the schema that is asked for, row by row where a value does not fit.

A batch is cast at once. Only of one that is refused, each column at fault is halved until its bad values stand alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from volley_connectors.decoders.columns import fit, fit_column
from volley_connectors.decoders.json_values import dump, rows_as_json, values
from volley_core import BadRecord, BadRecords, DecodeError


class Fitting:
    """Brings the batches of one object, or of one piece, into one schema."""

    def __init__(self, schema: pa.Schema, bad: BadRecords) -> None:
        self._schema = schema
        self._known = pa.schema([field for field in schema if field.name != bad.extras])
        self._bad = bad
        self._rows = 0

    def wanted(self, present: Iterable[str]) -> list[str]:
        """Which of the columns that the object has must be read."""
        return [name for name in present if self._bad.extras is not None or name in self._known.names]

    def batches(self, found: Iterable[pa.RecordBatch], most_rows: int) -> Iterator[pa.RecordBatch]:
        for large in found:
            for first in range(0, large.num_rows, most_rows):
                batch = self._fit(large.slice(first, most_rows))
                if batch.num_rows:
                    yield batch

    def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        extras = self._extras(batch)
        try:
            fitted = self._complete(fit(batch, self._known), extras)
        except DecodeError:
            fitted = self._fit_rows(batch, extras)
        self._rows += batch.num_rows
        return fitted

    def _fit_rows(self, batch: pa.RecordBatch, extras: list[dict[str, object]]) -> pa.RecordBatch:
        misfits = {field.name: set(_misfits(batch, field, 0, batch.num_rows)) for field in self._known}
        rows = sorted(set().union(*misfits.values()))
        shown = rows_as_json(batch.take(pa.array(rows, pa.int64())))
        for row, text in zip(rows, shown, strict=True):
            field = next(field for field in self._known if row in misfits[field.name])
            self._bad.add(BadRecord(text.encode(), self._fault(batch, field, row), self._rows + row + 1))
        dropped = set(rows)
        if self._bad.rescue:
            batch = self._rescue(batch, misfits, extras)
            # A null is not allowed in the place of such a value.
            dropped = set().union(*(misfits[field.name] for field in self._known if not field.nullable))
        kept = [row for row in range(batch.num_rows) if row not in dropped]
        fitted = fit(batch.take(pa.array(kept, pa.int64())), self._known)
        return self._complete(fitted, [extras[row] for row in kept] if extras else [])

    def _rescue(
        self, batch: pa.RecordBatch, misfits: dict[str, set[int]], extras: list[dict[str, object]]
    ) -> pa.RecordBatch:
        """The batch with nulls for what does not fit, which goes to the extras instead."""
        for field in self._known:
            index, rows = batch.schema.get_field_index(field.name), sorted(misfits[field.name])
            if index < 0 or not rows or not field.nullable:
                continue
            column = batch.column(index)
            if not extras:
                extras.extend({} for _ in range(batch.num_rows))
            for row, value in zip(rows, values(column.take(pa.array(rows, pa.int64()))), strict=True):
                extras[row][field.name] = value
            fits = pa.array([row not in misfits[field.name] for row in range(batch.num_rows)])
            empty = pa.nulls(batch.num_rows, column.type)
            batch = batch.set_column(index, field.name, pc.if_else(fits, column, empty))
        return batch

    def _fault(self, batch: pa.RecordBatch, field: pa.Field, row: int) -> str:
        try:
            fit_column(batch.slice(row, 1), field)
        except DecodeError as error:
            return f"row {self._rows + row + 1}: {error}"
        raise AssertionError("a value fits alone, but not among others")

    def _extras(self, batch: pa.RecordBatch) -> list[dict[str, object]]:
        """For each row what the schema lacks; nothing at all if there is no such column."""
        if self._bad.extras is None:
            return []
        others = [
            (name, values(batch.column(index)))
            for index, name in enumerate(batch.schema.names)
            if name not in self._schema.names and batch.column(index).null_count < batch.num_rows
        ]
        if not others:
            return []
        return [
            {name: column[row] for name, column in others if column[row] is not None} for row in range(batch.num_rows)
        ]

    def _complete(self, batch: pa.RecordBatch, extras: list[dict[str, object]]) -> pa.RecordBatch:
        """Fitted columns with that of the extras in its place."""
        if self._bad.extras is None:
            return batch
        index = self._schema.get_field_index(self._bad.extras)
        texts = [dump(row) if row else None for row in extras] or [None] * batch.num_rows
        arrays = list(batch.columns)
        arrays.insert(index, pa.array(texts, self._schema.field(index).type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _misfits(batch: pa.RecordBatch, field: pa.Field, first: int, count: int) -> Iterator[int]:
    """The rows whose value does not fit one column."""
    try:
        fit_column(batch.slice(first, count), field)
    except DecodeError:
        if count == 1:
            yield first
            return
        yield from _misfits(batch, field, first, count // 2)
        yield from _misfits(batch, field, first + count // 2, count - count // 2)
