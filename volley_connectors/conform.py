"""Gives batches exactly the schema that the next stage declared: types, nullability and order of columns."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from volley_core import ConfigError, DecodeError
from volley_core.config import did_you_mean

_Plan = list[Callable[[pa.RecordBatch], pa.Array]]


class Conform:
    """Casts batches to one schema. A batch that has it passes untouched; how to cast is worked out once per schema."""

    def __init__(self, schema: pa.Schema, origin: str) -> None:
        self._schema = schema
        self._origin = origin
        self._seen: pa.Schema | None = None
        self._plan: _Plan | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema is not self._seen and not batch.schema.equals(self._seen or pa.schema([])):
            self._seen = batch.schema
            self._plan = None if batch.schema.equals(self._schema) else self._find_plan(batch.schema)
        if self._plan is None:
            return batch
        try:
            arrays = [column(batch) for column in self._plan]
        except pa.ArrowException as error:
            raise DecodeError(f"{self._origin}: rows do not fit the declared schema: {error}.") from error
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _find_plan(self, given: pa.Schema) -> _Plan:
        return [self._column(field, given) for field in self._schema]

    def _column(self, field: pa.Field, given: pa.Schema) -> Callable[[pa.RecordBatch], pa.Array]:
        index = given.get_field_index(field.name)
        if index < 0:
            missing = f"{self._origin}: column {field.name!r} is declared but not in the data"
            raise ConfigError(f"{missing}. {did_you_mean(field.name, given.names)}")
        cast = not given.field(index).type.equals(field.type)

        def column(batch: pa.RecordBatch) -> pa.Array:
            array = batch.column(index)
            if cast:
                array = array.cast(field.type)
            if not field.nullable and array.null_count:
                raise DecodeError(
                    f"{self._origin}: column {field.name!r} is declared not null but {array.null_count} of "
                    f"{len(array)} values are null. Declare it nullable or mend the data."
                )
            return array

        return column


def check_schema(declared: pa.Schema, given: pa.Schema, origin: str) -> None:
    """Refuse a declared schema that the source's own cannot be cast to, before any row flows."""
    for field in declared:
        index = given.get_field_index(field.name)
        if index < 0:
            raise ConfigError(
                f"{origin}: column {field.name!r} is declared but the source has none of that name. "
                f"{did_you_mean(field.name, given.names)}"
            )
        have = given.field(index).type
        try:
            pa.array([], have).cast(field.type)
        except pa.ArrowException:
            raise ConfigError(
                f"{origin}: column {field.name!r} is declared as {field.type} but the source gives {have}, "
                "which cannot be cast. Change the declared schema."
            ) from None
