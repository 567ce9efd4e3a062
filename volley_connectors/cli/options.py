"""A connector's options as people read them, made from the JSON Schema of its config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from volley_core import ConnectorConfig, SinkConfig, SourceConfig
from volley_core.annotations import is_secret

_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
    "array": "list",
}
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))
_DURATIONS = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))


@dataclass(frozen=True, slots=True)
class OptionRow:
    name: str
    type: str
    default: str
    required: bool
    secret: bool
    description: str
    shared: bool
    """Every source, or every sink, takes it."""


def describe(config: type[ConnectorConfig]) -> list[OptionRow]:
    """One row per option: the required ones first, those that every connector takes last."""
    schema = config.model_json_schema()
    shared = {*SourceConfig.model_fields, *SinkConfig.model_fields}
    rows = []
    for name, field in config.model_fields.items():
        prop = schema["properties"][name]
        parts = _parts(prop, schema.get("$defs", {}))
        row = OptionRow(
            name=name,
            type=" or ".join(dict.fromkeys(_type_words(part) for part in parts)),
            default="" if field.is_required() else _default_words(prop.get("default"), parts),
            required=field.is_required(),
            secret=is_secret(field),
            description=field.description or "",
            shared=name in shared,
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (not row.required, row.shared))


def _parts(prop: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What an option may be, without null: that an option can be left out is said by its default."""
    if "$ref" in prop:
        return _parts(definitions[prop["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in prop:
        return [part for option in prop["anyOf"] for part in _parts(option, definitions)]
    return [] if prop.get("type") == "null" else [prop]


def _type_words(part: Mapping[str, Any]) -> str:
    if "enum" in part:
        return " | ".join(str(value) for value in part["enum"])
    if "const" in part:
        return str(part["const"])
    if part.get("unit") == "bytes":
        return "size, as '128 MB'"
    if part.get("unit") == "seconds":
        return "duration, as '10 minutes'"
    if part.get("format") == "password":
        return "secret"
    if part.get("format") == "Spark DDL":
        return "schema, as 'id bigint'"
    if part.get("type") == "array" and part.get("items", {}).get("type") in _WORDS:
        return f"list of {_WORDS[part['items']['type']]}"
    return _WORDS.get(part.get("type", ""), "any value")


def _default_words(default: Any, parts: list[Mapping[str, Any]]) -> str:
    if default is None or default in ("", {}, []):
        return ""
    units = {part.get("unit") for part in parts}
    if "bytes" in units:
        return _measured(default, _SIZES)
    if "seconds" in units:
        return _measured(default, _DURATIONS)
    return default if isinstance(default, str) else json.dumps(default)


def _measured(value: float, units: tuple[tuple[int, str], ...]) -> str:
    """In the largest unit that gives a whole number; a fraction in the smallest."""
    for factor, unit in units:
        if value >= factor and value % factor == 0:
            count = int(value // factor)
            return f"{count} {unit.removesuffix('s') if count == 1 else unit}"
    return f"{value:g} {units[-1][1]}"
