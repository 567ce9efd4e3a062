"""Arrow values as JSON: how a record of a binary format is shown, and what the column of extras holds."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pyarrow as pa


def rows_as_json(batch: pa.RecordBatch) -> list[str]:
    """Each row as one object."""
    if not batch.num_columns:
        return ["{}"] * batch.num_rows
    columns = [values(column) for column in batch.columns]
    return [dump(dict(zip(batch.schema.names, row, strict=True))) for row in zip(*columns, strict=True)]


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)


def values(array: pa.Array) -> list[Any]:
    """What JSON can hold of each value: decimals, times and numbers that are none as text, bytes in base64."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return values(array.dictionary_decode())
    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        rows: Any = zip(*map(values, array.flatten()), strict=True) if names else [()] * len(array)
        valid = array.is_valid().to_pylist()
        return [dict(zip(names, row, strict=True)) if there else None for row, there in zip(rows, valid, strict=True)]
    if pa.types.is_map(kind):
        return [_entries(scalar) for scalar in array]
    if pa.types.is_nested(kind) and not pa.types.is_union(kind):
        return [values(scalar.values) if scalar.is_valid else None for scalar in array]
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        # As text in Arrow: Python has no moments after the year 9999.
        return list(array.cast(pa.string()).to_pylist())
    return [_plain(value) for value in array.to_pylist()]


def _entries(scalar: Any) -> dict[str, Any] | None:
    if not scalar.is_valid:
        return None
    return {str(entry["key"]): entry["value"] for entry in values(pa.array(scalar.values))}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
