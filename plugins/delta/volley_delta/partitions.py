"""Rows by partition, and how a partition is spelled: in the log and in the paths, as Spark does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

Values: TypeAlias = tuple[str | None, ...]
"""A partition's values as the log has them, in the order of the partition columns."""

_NULL = "__HIVE_DEFAULT_PARTITION__"
# The characters that Spark's ExternalCatalogUtils.escapePathName escapes.
_ESCAPED = frozenset(chr(code) for code in range(1, 0x20)) | frozenset("\"#%'*/:=?\\\x7f{[]^")


def by_partition(rows: pa.Table, partition_by: Sequence[str]) -> Iterator[tuple[Values, pa.Table]]:
    """The rows of each partition in their order, without the partition columns."""
    if not partition_by:
        yield (), rows
        return
    # By position, for a column may have any name.
    keys = [str(number) for number in range(len(partition_by))]
    numbered = pa.table([*(rows[name] for name in partition_by), pa.array(range(len(rows)))], [*keys, "row"])
    grouped = numbered.group_by(keys, use_threads=False).aggregate([("row", "list")])
    values = zip(*(grouped[key].to_pylist() for key in keys), strict=True)
    inside = rows.drop_columns(list(partition_by))
    for group, indices in zip(values, grouped["row_list"], strict=True):
        yield tuple(_spelled(value) for value in group), inside.take(indices.values)


def folder(partition_by: Sequence[str], values: Values) -> str:
    """The directory of a partition's files, relative to the table: '' or 'day=2024-01-31/'."""
    return "".join(
        f"{_escaped(name)}={_NULL if value is None else _escaped(value)}/"
        for name, value in zip(partition_by, values, strict=True)
    )


def _spelled(value: Any) -> str | None:
    # Delta's log has no way to tell an empty string from null.
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _escaped(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)
