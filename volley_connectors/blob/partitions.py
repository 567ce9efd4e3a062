"""Hive partition columns: `year=2024/country=de/part-0.json` says two columns' values in its path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from urllib.parse import unquote

import pyarrow as pa

_NULL = "__HIVE_DEFAULT_PARTITION__"


def path_values(path: str) -> dict[str, str | None]:
    """What the folders of a path say, by column."""
    pairs = (folder.partition("=") for folder in path.split("/")[:-1])
    return {unquote(name): None if value == _NULL else unquote(value) for name, equals, value in pairs if equals}


def infer_columns(paths: Iterable[Mapping[str, str | None]]) -> pa.Schema:
    """The partition columns of some paths' values, each with the narrowest type that takes all of its values."""
    found: dict[str, list[str]] = {}
    for values in paths:
        for name, value in values.items():
            found.setdefault(name, []).extend([] if value is None else [value])
    return pa.schema([pa.field(name, _narrowest(values)) for name, values in found.items()])


def _narrowest(values: list[str]) -> pa.DataType:
    if values and all(_is_whole(value) for value in values):
        return pa.int32() if all(-(2**31) <= int(value) < 2**31 for value in values) else pa.int64()
    return pa.date32() if values and all(map(_is_date, values)) else pa.string()


def _is_whole(value: str) -> bool:
    digits = value.removeprefix("-")
    # "007" stays a text: its zeros mean something.
    return digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0") and len(digits) < 19


def _is_date(value: str) -> bool:
    try:
        return date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False
