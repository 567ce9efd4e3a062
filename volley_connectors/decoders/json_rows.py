"""JSON row by row, in plain Python: for types and spellings that Arrow's parser refuses, and to name what is wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from volley_connectors.decoders.timestamps import parse_timestamp
from volley_core import DecodeError

_SHOWN = 80
_NOT_NUMBERS = {"NaN", "Infinity", "-Infinity"}
_MISFIT = (ValueError, TypeError, ArithmeticError, pa.ArrowException)


class _Number(str):
    """A number as it was written: no digit is lost on the way to a decimal, nor its spelling to a text."""

    __slots__ = ()


_JSON = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)
_Converter = Callable[[Any], Any]


def parse_rows(block: bytes, schema: pa.Schema, rows_before: int) -> pa.RecordBatch:
    """The rows of whole lines. Raises DecodeError with the number of the row, counted from 1 through the whole file."""
    rows = list(_objects(block, rows_before))
    if not len(schema):
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    columns = [_column([row.get(field.name) for row in rows], field, rows_before) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _objects(block: bytes, number: int) -> Iterator[dict[str, Any]]:
    for line in block.split(b"\n"):
        text = _decode(line, number + 1)
        at = _skip_space(text, 0)
        while at < len(text):
            number += 1
            try:
                value, at = _JSON.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                raise DecodeError(f"row {number} is not JSON ({error}): {text[:_SHOWN]!r}") from error
            if value is not None and not isinstance(value, dict):
                raise DecodeError(f"row {number} is not a JSON object: {text[:_SHOWN]!r}")
            yield value or {}
            at = _skip_space(text, at)


def _decode(line: bytes, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"row {number} is not UTF-8: {line[:_SHOWN]!r}") from error


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r":
        at += 1
    return at


def _column(values: list[Any], field: pa.Field, rows_before: int) -> pa.Array:
    convert = _nullable(field.type)
    try:
        array = pa.array([convert(value) for value in values], field.type)
        if field.nullable or not array.null_count:
            return array
    except _MISFIT:
        pass
    # One value at a time finds the row that does not fit.
    for number, value in enumerate(values, rows_before + 1):
        _check(value, convert, field, number)
    raise DecodeError(f"column {field.name!r} does not fit type {field.type}")


def _check(value: Any, convert: _Converter, field: pa.Field, number: int) -> None:
    if value is None and not field.nullable:
        raise DecodeError(f"row {number}: column {field.name!r} is null but declared not null")
    try:
        pa.scalar(convert(value), field.type)
    except _MISFIT as error:
        shown = str(value)[:_SHOWN]
        raise DecodeError(
            f"row {number}, column {field.name!r}: {shown!r} is not of type {field.type} ({error})"
        ) from error


def _converter(kind: pa.DataType) -> _Converter:
    if pa.types.is_struct(kind):
        return _struct_converter(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_converter(_nullable(kind.value_type))
    if pa.types.is_map(kind):
        return _map_converter(_converter(kind.key_type), _nullable(kind.item_type))
    if pa.types.is_timestamp(kind):
        return lambda value: parse_timestamp(_text(value), kind)
    for matches, convert in _PLAIN:
        if matches(kind):
            return convert
    raise DecodeError(f"JSON cannot be read as type {kind}")


def _nullable(kind: pa.DataType) -> _Converter:
    convert = _converter(kind)
    return lambda value: None if value is None else convert(value)


def _struct_converter(kind: pa.DataType) -> _Converter:
    children = [(child.name, _nullable(child.type)) for child in kind]

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return {name: inner(value.get(name)) for name, inner in children}

    return convert


def _list_converter(inner: _Converter) -> _Converter:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError("not an array")
        return [inner(item) for item in value]

    return convert


def _map_converter(key: _Converter, item: _Converter) -> _Converter:
    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return [(key(name), item(entry)) for name, entry in value.items()]

    return convert


def _text(value: Any) -> str:
    if isinstance(value, _Number) or not isinstance(value, str):
        raise ValueError("not a text")
    return value


def _string(value: Any) -> str:
    """Any value has a text: Spark gives numbers and objects as they are written."""
    return str(value) if isinstance(value, str) else _dump(value)


def _dump(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> str:
    if not isinstance(value, _Number):
        raise ValueError("not a number")
    return value


def _integer(value: Any) -> int:
    number = Decimal(_number(value))
    if not number.is_finite() or number != number.to_integral_value():
        raise ValueError("not a whole number")
    return int(number)


def _float(value: Any) -> float:
    return float(value if value in _NOT_NUMBERS else _number(value))


def _decimal(value: Any) -> Decimal:
    try:
        return Decimal(value)
    except (InvalidOperation, TypeError):
        raise ValueError("not a decimal number") from None


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("not true or false")
    return value


_PLAIN: list[tuple[Callable[[pa.DataType], bool], _Converter]] = [
    (pa.types.is_string, _string),
    (pa.types.is_large_string, _string),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_date, lambda value: date.fromisoformat(_text(value))),
    (pa.types.is_binary, lambda value: base64.b64decode(_text(value), validate=True)),
    (pa.types.is_null, lambda value: None),
]
