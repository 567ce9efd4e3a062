"""Nulls at any depth: where a schema allows none, and what Arrow's casts need to leave them alone."""

from __future__ import annotations

import pyarrow as pa


def is_strict(kind: pa.DataType) -> bool:
    """Whether a type has parts that must not be null."""
    if pa.types.is_map(kind):
        return not kind.item_field.nullable or is_strict(kind.item_type) or is_strict(kind.key_type)
    children = [kind.field(i) for i in range(kind.num_fields)]
    return any(not child.nullable or is_strict(child.type) for child in children)


def relaxed(kind: pa.DataType) -> pa.DataType:
    """The type with parts that may all be null. To any other Arrow refuses to cast what has nulls below nulls."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(kind.field(i).name, relaxed(kind.field(i).type)) for i in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(relaxed(kind.key_type), pa.field("value", relaxed(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, relaxed(kind.value_type)))
    return kind


def forbidden_nulls(array: pa.Array, field: pa.Field) -> int:
    """How many nulls stand where `field` has none."""
    if not field.nullable and array.null_count:
        return int(array.null_count)
    kind = field.type
    if not is_strict(kind):
        return 0
    if pa.types.is_struct(kind):
        # Below a null there is nothing to be declared.
        present = array.filter(array.is_valid()) if array.null_count else array
        return sum(forbidden_nulls(present.field(i), kind.field(i)) for i in range(kind.num_fields))
    if pa.types.is_map(kind):
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return forbidden_nulls(array.items.slice(first, last - first), kind.item_field)
    return forbidden_nulls(array.flatten(), kind.value_field)


def restricted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values as the strict type that they were relaxed from. Checks nothing."""
    if array.type.equals(kind):
        return array
    if array.offset:
        array = pa.concat_arrays([array, array.slice(0, 0)])
    if pa.types.is_struct(kind):
        buffers = array.buffers()[:1]
        children = [restricted(array.field(i), kind.field(i).type) for i in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        buffers = array.buffers()[:2]
        keys, items = restricted(array.keys, kind.key_type), restricted(array.items, kind.item_type)
        children = [pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])]
    else:
        buffers = array.buffers()[:2]
        children = [restricted(array.values, kind.value_type)]
    return pa.Array.from_buffers(kind, len(array), buffers, children=children)
