"""Brings decoded batches into exactly the schema that was asked for."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from volley_connectors.decoders.nullability import forbidden_nulls, is_strict, relaxed, restricted
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
    return pa.RecordBatch.from_arrays([fit_column(batch, field) for field in schema], schema=schema)


def fit_column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """One column as `field` declares it. Raises DecodeError if a value does not fit; none is ever cut or rounded."""
    index = batch.schema.get_field_index(field.name)
    array = pa.nulls(batch.num_rows, field.type) if index < 0 else batch.column(index)
    if not array.type.equals(field.type):
        array = _cast(array, field)
    nulls = forbidden_nulls(array, field)
    if nulls:
        raise DecodeError(f"column {field.name!r} is declared not null, but {nulls} of its values are null")
    return restricted(array, field.type)


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    if array.null_count == len(array):
        return pa.nulls(len(array), field.type)
    _refuse_reinterpretation(array.type, field)
    try:
        return _cast_values(array, relaxed(field.type) if is_strict(field.type) else field.type)
    except pa.ArrowException as error:
        raise DecodeError(f"column {field.name!r} holds {array.type}, not {field.type}: {error}") from error


def _cast_values(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_integer(array.type) and pa.types.is_decimal(kind):
        # Arrow asks for room for the largest integer, whatever the values are.
        array = array.cast(pa.decimal256(76, max(kind.scale, 0)))
    # Files with nanoseconds are common, and Spark keeps microseconds. No other loss is allowed.
    found = array.cast(options=pc.CastOptions(target_type=kind, allow_time_truncate=True))
    if pa.types.is_floating(kind) and pa.types.is_floating(array.type):
        lost = pc.and_(pc.is_finite(array), pc.invert(pc.is_finite(found)))
        if pc.any(lost).as_py():
            raise pa.ArrowInvalid("a number is too large")
    has_time = pa.types.is_date(kind) and pa.types.is_timestamp(array.type)
    if has_time and pc.any(pc.not_equal(found.cast(array.type), array)).as_py():
        raise pa.ArrowInvalid("a time of day would be lost")
    return found


def _refuse_reinterpretation(have: pa.DataType, field: pa.Field) -> None:
    """Arrow would take a number for a count since 1970 in whatever unit is asked for, and a truth value for 0 or 1."""
    want, number = field.type, pa.types.is_primitive
    kinds = {_sort(have), _sort(want)}
    if number(have) and number(want) and len(kinds) > 1 and None not in kinds:
        raise DecodeError(f"column {field.name!r} holds {have}, not {want}")


def _sort(kind: pa.DataType) -> str | None:
    if pa.types.is_boolean(kind):
        return "truth"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return "time of day"
    return "moment" if pa.types.is_temporal(kind) else None


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
