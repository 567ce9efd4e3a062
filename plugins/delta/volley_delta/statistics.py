"""Statistics of a file for the table's log, by which readers skip files; taken from the Parquet footer."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

INDEXED_LEAVES = 32
"""Delta's default of dataSkippingNumIndexedCols."""
_TEXT_LENGTH = 32
_LAST_CHARACTER = "\U0010ffff"


class Leaf(NamedTuple):
    """One column of the Parquet file."""

    path: str
    """As Parquet spells it."""
    names: tuple[str, ...] | None
    """As the log does; None inside a list or map, of which the log keeps no statistics."""
    kind: pa.DataType


def leaves(schema: pa.Schema) -> list[Leaf]:
    """The file's columns in Parquet's order."""
    return [leaf for field in schema for leaf in _leaves(field.type, field.name, (field.name,))]


def measured(schema: pa.Schema) -> list[str]:
    """The columns that get statistics in the footer.

    Floats do not: Parquet leaves NaN out of min and max, Spark sorts it above everything, and rows would be lost.
    """
    found = leaves(schema)
    floats = {leaf.path for leaf in found if pa.types.is_floating(leaf.kind)}
    return [leaf.path for leaf in found if leaf.path not in floats]


def statistics(footer: pq.FileMetaData, schema: pa.Schema, null_counts: Mapping[str, int]) -> str:
    """The `stats` of an add action. `null_counts` are those of the columns of the top level."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for number, leaf in enumerate(leaves(schema)[:INDEXED_LEAVES]):
        if leaf.names is None:
            continue
        if len(leaf.names) == 1:
            # The footer does not count those of floats.
            _put(nulls, leaf.names, null_counts[leaf.names[0]])
        columns = [group.column(number).statistics for group in groups]
        if any(column is None or not column.has_null_count for column in columns):
            continue
        if len(leaf.names) > 1:
            _put(nulls, leaf.names, sum(column.null_count for column in columns))
        bounds = _bounds([column for column in columns if column.num_values], leaf.kind)
        if bounds is not None:
            _put(low, leaf.names, _lower(bounds[0]))
            _put(high, leaf.names, _upper(bounds[1]))
    return _json({"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def _leaves(kind: pa.DataType, path: str, names: tuple[str, ...] | None) -> Iterator[Leaf]:
    if pa.types.is_struct(kind):
        for field in kind.fields:
            yield from _leaves(field.type, f"{path}.{field.name}", names and (*names, field.name))
    elif pa.types.is_list(kind):
        yield from _leaves(kind.value_type, f"{path}.list.element", None)
    elif pa.types.is_map(kind):
        yield from _leaves(kind.key_type, f"{path}.key_value.key", None)
        yield from _leaves(kind.item_type, f"{path}.key_value.value", None)
    else:
        yield Leaf(path, names, kind)


def _bounds(columns: list[Any], kind: pa.DataType) -> tuple[Any, Any] | None:
    if pa.types.is_boolean(kind) or pa.types.is_binary(kind) or not columns:
        return None
    # Parquet leaves out bounds that are too long.
    if not all(column.has_min_max for column in columns):
        return None
    try:
        return min(column.min for column in columns), max(column.max for column in columns)
    except (ValueError, OverflowError):
        # Spark has days and moments that Python has not.
        return None


def _lower(value: Any) -> Any:
    return value[:_TEXT_LENGTH] if isinstance(value, str) else _spelled(value)


def _upper(value: Any) -> Any:
    if not isinstance(value, str):
        return _spelled(value)
    if len(value) <= _TEXT_LENGTH:
        return value
    # A bound may lie above the rows, never among them.
    return None if value[_TEXT_LENGTH] == _LAST_CHARACTER else value[:_TEXT_LENGTH] + _LAST_CHARACTER


def _spelled(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text if value.tzinfo is None else f"{text}Z"
    return value.isoformat() if isinstance(value, dt.date) else value


def _put(tree: dict[str, Any], names: tuple[str, ...], value: Any) -> None:
    if value is None:
        return
    for name in names[:-1]:
        tree = tree.setdefault(name, {})
    tree[names[-1]] = value


def _json(value: Any) -> str:
    """JSON in which decimals are numbers with all their digits, which json.dumps cannot write."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False)
