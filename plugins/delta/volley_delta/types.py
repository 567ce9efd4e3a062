"""Which Arrow columns a Delta table can hold so that every reader gets the same values back, and as what."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from volley_core import ConfigError

_SAME = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
)
_PARTITION_TYPES = (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.date32())
# What Delta without column mapping forbids, as Spark does.
_FORBIDDEN = frozenset(" ,;{}()\n\t=")


def stored_schema(schema: pa.Schema, partition_by: Sequence[str], where: str) -> pa.Schema:
    """The schema that rows have in the table. Raises ConfigError that names each column which it cannot hold."""
    problems = [*_names(schema), *_partitions(schema, partition_by)]
    fields = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, stored_type(field.type)))
        except ValueError as error:
            problems.append(f"column {field.name!r}: {error}")
    if problems:
        raise ConfigError(f"{where} cannot take this query's rows: {'; '.join(problems)}.")
    return pa.schema(fields)


def stored_type(kind: pa.DataType) -> pa.DataType:
    """The type in which values are stored. Raises ValueError with what to do for one that a reader would misread."""
    types = pa.types
    if kind in _SAME or types.is_decimal128(kind):
        return kind
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_timestamp(kind) and kind.unit != "ns":
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if types.is_struct(kind):
        if not kind.num_fields:
            raise ValueError("a struct without fields cannot be stored; drop it")
        return pa.struct([pa.field(field.name, stored_type(field.type)) for field in kind.fields])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", stored_type(kind.value_type)))
    if types.is_map(kind):
        return pa.map_(stored_type(kind.key_type), stored_type(kind.item_type))
    raise ValueError(f"Delta has no type for Arrow's {kind}; cast it in the query")


def _names(schema: pa.Schema) -> list[str]:
    problems = []
    if not len(schema):
        problems.append("it has no columns")
    folded = [name.lower() for name in schema.names]
    for name in schema.names:
        if not name or _FORBIDDEN & set(name):
            problems.append(f"column {name!r}: a Delta column's name holds none of ' ,;{{}}()=', tab or line end")
        if folded.count(name.lower()) > 1:
            problems.append(f"column {name!r}: another one's name differs at most by case")
    return problems


def _partitions(schema: pa.Schema, partition_by: Sequence[str]) -> list[str]:
    problems = []
    for name in partition_by:
        if name not in schema.names:
            problems.append(f"partition_by names {name!r}, which is no column of the query")
        elif schema.field(name).type not in (*_PARTITION_TYPES, pa.large_string(), pa.string_view()):
            kind = schema.field(name).type
            problems.append(f"partition column {name!r} is {kind}; partition by strings, integers, booleans or dates")
    if len(set(partition_by)) < len(partition_by):
        problems.append("partition_by names a column twice")
    if len(schema) and set(schema.names) <= set(partition_by):
        problems.append("partition_by names every column; one must stay in the files")
    return problems
