"""Whether a table can take a query's rows without harm.

delta-rs writes add actions into any table: what the table's owner asks of writers beyond that is checked here, against
the same snapshot that the commit is based on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from volley_core import ConfigError, SinkError
from volley_core.schema import format_schema
from volley_delta.part import DataFile

if TYPE_CHECKING:
    from deltalake import DeltaTable

_HARMLESS = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "deletionVectors",
        # Named by every table of an old protocol; those that are used are found in the columns.
        "checkConstraints",
        "columnMapping",
        "generatedColumns",
        "identityColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
_BY_KEY = {
    "delta.columnMapping": "column mapping",
    "delta.generationExpression": "a generated column",
    "delta.identity": "an identity column",
    "delta.invariants": "an invariant",
    "CURRENT_DEFAULT": "a column default",
}


def check_table(table: DeltaTable, schema: pa.Schema, partition_by: Sequence[str], where: str) -> None:
    """Raise ConfigError if rows of this schema, so partitioned, cannot be added to the table."""
    refused = sorted(set(_refused(table)))
    if refused:
        raise ConfigError(
            f"{where} uses {', '.join(refused)}, which Volley cannot honour: rows would be wrong or unreadable. "
            "Write to a table without, or turn it off in this one."
        )
    there = list(table.metadata().partition_columns)
    if there != list(partition_by):
        raise ConfigError(
            f"{where} is partitioned otherwise.\n  table: {', '.join(there) or 'not at all'}\n"
            f"  query: {', '.join(partition_by) or 'not at all'}\nSet the option 'partition_by' to the table's columns."
        )
    held = held_schema(table)
    problems = list(_misfits(held, schema))
    if problems:
        raise ConfigError(
            f"{where} has another schema: {'; '.join(problems)}.\n  table: {format_schema(held)}\n"
            f"  query: {format_schema(schema)}\nCast or rename the query's columns, or add new ones to the table "
            "with merge_schema=true."
        )


def check_replaceable(table: DeltaTable, where: str) -> None:
    """Raise ConfigError if the table's rows may not be replaced."""
    if str(table.metadata().configuration.get("delta.appendOnly", "false")).lower() == "true":
        raise ConfigError(f"{where} is append-only (delta.appendOnly), and this query replaces its rows. Use append.")
    if "deletionVectors" in (table.protocol().writer_features or ()):
        raise ConfigError(f"{where} has deletion vectors, and this query replaces its rows, which needs them off.")


def check_nulls(table: DeltaTable, files: Iterable[DataFile], where: str) -> None:
    """Raise SinkError if a column that is NOT NULL in the table is null in a row."""
    strict = {field.name for field in table.schema().fields if not field.nullable}
    for file in files:
        wrong = sorted(strict & set(file.null_columns))
        if wrong:
            raise SinkError(f"{where} has NOT NULL columns for which this epoch has nulls: {', '.join(wrong)}.")


def held_schema(table: DeltaTable) -> pa.Schema:
    """The table's schema in the types in which Volley writes."""
    return pa.schema(table.schema().to_arrow())


def missing_columns(table: DeltaTable, schema: pa.Schema) -> list[str]:
    """The query's columns that the table lacks."""
    there = {field.name.lower() for field in table.schema().fields}
    return [name for name in schema.names if name.lower() not in there]


def _refused(table: DeltaTable) -> Iterator[str]:
    protocol, configuration = table.protocol(), table.metadata().configuration
    for feature in {*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _HARMLESS:
        yield f"the table feature {feature!r}"
    if str(configuration.get("delta.columnMapping.mode", "none")).lower() != "none":
        yield "column mapping (delta.columnMapping.mode)"
    for key in configuration:
        if key.startswith("delta.constraints."):
            yield f"the CHECK constraint {key.removeprefix('delta.constraints.')!r}"
    yield from _refused_in(json.loads(table.schema().to_json()), "")


def _refused_in(kind: Any, path: str) -> Iterator[str]:
    """What the columns' metadata asks for, and NOT NULL where nobody counts nulls: inside of a column."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        name = f"{path}{field['name']}"
        for key in field.get("metadata", ()):
            for start, what in _BY_KEY.items():
                if key.startswith(start):
                    yield f"{what} ({name!r})"
        if path and not field["nullable"]:
            yield f"NOT NULL inside of a column ({name!r})"
        yield from _refused_in(field["type"], f"{name}.")
    if kind.get("containsNull") is False or kind.get("valueContainsNull") is False:
        yield f"NOT NULL inside of a column ({path.rstrip('.')!r})"
    for part in ("elementType", "keyType", "valueType"):
        yield from _refused_in(kind.get(part), path)


def _misfits(held: pa.Schema, schema: pa.Schema) -> Iterator[str]:
    for field in schema:
        if field.name not in held.names:
            same = [name for name in held.names if name.lower() == field.name.lower()]
            yield f"column {field.name!r} is {same[0]!r} in the table" if same else f"column {field.name!r} is new"
        elif not _same(held.field(field.name).type, field.type):
            yield f"column {field.name!r} is {held.field(field.name).type} in the table, {field.type} in the query"
    for field in held:
        if not field.nullable and field.name not in schema.names:
            yield f"column {field.name!r} is NOT NULL, and the query lacks it"


def _same(held: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of both are stored alike: list and map fields may be named otherwise."""
    types = pa.types
    if types.is_struct(held) and types.is_struct(kind):
        names = [field.name for field in held.fields] == [field.name for field in kind.fields]
        return names and all(_same(held.field(i).type, kind.field(i).type) for i in range(held.num_fields))
    if types.is_list(held) and types.is_list(kind):
        return _same(held.value_type, kind.value_type)
    if types.is_map(held) and types.is_map(kind):
        return _same(held.key_type, kind.key_type) and _same(held.item_type, kind.item_type)
    return bool(held.equals(kind))
