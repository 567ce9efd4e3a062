"""Brings decoded batches into exactly the schema that was asked for."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from volley_core import DecodeError

_WIDENED = {
    pa.null(): pa.string(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with the columns of `schema`: missing ones are null, extra ones left out, others cast."""
    if batch.schema.equals(schema):
        return batch.replace_schema_metadata(schema.metadata)
    if not len(schema):
        return batch.select([])
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    array = pa.nulls(batch.num_rows, field.type) if index < 0 else batch.column(index)
    if not array.type.equals(field.type):
        array = _cast(array, field)
    if not field.nullable and array.null_count:
        raise DecodeError(f"column {field.name!r} is declared not null, but {array.null_count} of its values are null")
    return array


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        # Files with nanoseconds are common, and Spark keeps microseconds. No other loss is allowed.
        return array.cast(options=pc.CastOptions(target_type=field.type, allow_time_truncate=True))
    except pa.ArrowException as error:
        raise DecodeError(f"column {field.name!r} holds {array.type}, not {field.type}: {error}") from error


def plain(schema: pa.Schema) -> pa.Schema:
    """An inferred schema in types that Spark has, every column nullable: the next file may lack what this one holds."""
    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(child.name, _plain_type(child.type)) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if _is_any_list(kind):
        return pa.list_(pa.field("element", _plain_type(kind.value_type)))
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    return _WIDENED.get(kind, kind)


def _is_any_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
