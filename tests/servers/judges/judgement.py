"""What a judge found in a table."""

from __future__ import annotations

import base64
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

# A column of the top level, one of = < <= > >= and a value; or a column and "is null" or "is not null".
Where = tuple[str, str, object] | tuple[str, str]


@dataclass(frozen=True)
class Judgement:
    """A table as the judge sees it. With a `where`, rows and files are those that it leaves."""

    rows: list[dict[str, Any]]
    files: list[str]
    """The data files that were read."""
    skipped: int
    """How many more the table has, which partitions or statistics ruled out."""
    version: int
    """Delta's, or the id of Iceberg's snapshot; -1 is the table without any."""
    schema: dict[str, Any]
    """In the JSON of the format."""
    partition_columns: list[str]
    """Iceberg's transforms as text: `day(time)`."""
    properties: dict[str, str]
    transactions: dict[str, int] = field(default_factory=dict)
    """Delta's: by application, the version of its newest one."""
    snapshots: list[dict[str, str]] = field(default_factory=list)
    """Iceberg's summaries, the newest first, of this snapshot and its ancestors."""

    def multiset(self) -> Counter[str]:
        return multiset(self.rows)


def multiset(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    """Rows to compare, those of a judge or of Arrow's `to_pylist`: in any order, and a NaN is a NaN."""
    return Counter(repr(_plain(row)) for row in rows)


def judgement(lines: list[str]) -> Judgement:
    """What the answer of a judge says, line by line."""
    rows: list[dict[str, Any]] = []
    files: list[str] = []
    table: dict[str, Any] = {}
    for line in lines:
        kind, value = json.loads(line, object_hook=_value)
        if kind == "row":
            rows.append(value)
        elif kind == "file":
            files.append(value)
        elif kind == "table":
            table = value
        else:
            raise JudgementError(value)
    schema, skipped = json.loads(table.pop("schema")), table.pop("all_files") - len(files)
    return Judgement(rows=rows, files=files, skipped=skipped, schema=schema, **table)


class JudgementError(Exception):
    """The judge could not read the table. The message is its own, with the trace."""


_VALUES: dict[str, Callable[[Any], Any]] = {
    "binary": base64.b64decode,
    "date": date.fromisoformat,
    "decimal": Decimal,
    "float": float,
    "map": dict,
    "struct": dict,
    "time": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "uuid": uuid.UUID,
}


def _value(tagged: dict[str, Any]) -> Any:
    """The value of an object, which names its type: `{"decimal": "1.50"}`."""
    ((kind, content),) = tagged.items()
    return _VALUES[kind](content)


def condition(where: Where | None) -> list[object] | None:
    """As the judges read it."""
    return where and [*where[:2], *map(_literal, where[2:])]


def _literal(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat()
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    return value if isinstance(value, bool | int | str) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted(((name, _plain(item)) for name, item in value.items()), key=repr)
    # Arrow gives maps as lists of pairs.
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return sorted(((key, _plain(item)) for key, item in value), key=repr)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC)
    return value
