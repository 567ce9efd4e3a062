"""JSON row by row, in plain Python: for types and spellings that Arrow's parser refuses, and to name what is wrong."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from volley_connectors.decoders.timestamps import parse_date, parse_timestamp
from volley_core import DecodeError
from volley_core.bad_records import CORRUPT_RECORD

_SHOWN = 80
_EPOCHS = {"none": 0, "seconds": 1_000_000, "milliseconds": 1000, "microseconds": 1}
_NOT_NUMBERS = {"NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF"}
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MISFIT = (ValueError, TypeError, ArithmeticError, pa.ArrowException)


class _Number(str):
    """A number as it was written: no digit is lost on the way to a decimal, nor its spelling to a text."""

    __slots__ = ()


_JSON = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)
_Converter = Callable[[Any], Any]


class RowParser:
    """Lines as rows of one schema, value by value."""

    def __init__(self, schema: pa.Schema, extras: str | None = None, epoch_timestamps: str = "none") -> None:
        """`extras`: a text column of the schema that takes, as JSON, what a row holds and the schema lacks."""
        self._schema = schema
        self._extras = extras
        self._columns = [(field, _nullable(field.type, epoch_timestamps)) for field in schema]
        self._known = set(schema.names)

    def parse(self, block: bytes, rows_before: int) -> pa.RecordBatch:
        """The rows of whole lines. Raises DecodeError with the number of the row, counted from 1 through the file."""
        rows = list(_objects(block, rows_before))
        if not self._columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        arrays = [
            pa.array([self._others(row) for row in rows], pa.string())
            if field.name == self._extras
            else _column([row.get(field.name) for row in rows], field, convert, rows_before)
            for field, convert in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def rescue(self, line: bytes) -> pa.RecordBatch | None:
        """A bad line as rows: what does not fit stands among the extras. None if a null is not allowed in its place."""
        try:
            rows = [self._rescued(row) for row in _objects(line, 0)]
        except DecodeError:
            rows = [{self._extras: _dump({CORRUPT_RECORD: line.strip().decode(errors="replace")})}]
        batch = pa.RecordBatch.from_pylist(rows, schema=self._schema)
        fits = all(field.nullable or not batch.column(field.name).null_count for field in self._schema)
        return batch if fits else None

    def _rescued(self, row: dict[str, Any]) -> dict[str | None, Any]:
        values: dict[str | None, Any] = {}
        others = {key: value for key, value in row.items() if key not in self._known}
        for field, convert in self._columns:
            value = row.get(field.name)
            try:
                values[field.name] = pa.scalar(convert(value), field.type).as_py()
            except _MISFIT:
                others[field.name] = value
        values[self._extras] = _dump(others) if others else None
        return values

    def _others(self, row: dict[str, Any]) -> str | None:
        others = {key: value for key, value in row.items() if key not in self._known}
        return _dump(others) if others else None


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
            if _SURROGATE.search(text):
                value = _encodable(value)
            # As Spark does, an array of objects is taken for its objects.
            found = value if isinstance(value, list) else [{} if value is None else value]
            if not all(isinstance(one, dict) for one in found):
                raise DecodeError(f"row {number} is not a JSON object: {text[:_SHOWN]!r}")
            yield from found
            number += len(found) - 1
            at = _skip_space(text, at)


def _encodable(value: Any) -> Any:
    """A value whose texts have an encoding: half a pair of surrogates has none, and becomes a question mark."""
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, str) and not isinstance(value, _Number):
        return value.encode(errors="replace").decode()
    return value


def _decode(line: bytes, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"row {number} is not UTF-8: {line[:_SHOWN]!r}") from error


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r":
        at += 1
    return at


def _column(values: list[Any], field: pa.Field, convert: _Converter, rows_before: int) -> pa.Array:
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


def _converter(kind: pa.DataType, epoch: str) -> _Converter:
    if pa.types.is_struct(kind):
        return _struct_converter(kind, epoch)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_converter(_nullable(kind.value_type, epoch))
    if pa.types.is_map(kind):
        return _map_converter(_converter(kind.key_type, epoch), _nullable(kind.item_type, epoch))
    if pa.types.is_timestamp(kind):
        return _timestamp_converter(kind, epoch)
    for matches, convert in _PLAIN:
        if matches(kind):
            return convert
    raise DecodeError(f"JSON cannot be read as type {kind}")


def _timestamp_converter(kind: pa.DataType, epoch: str) -> _Converter:
    factor = _EPOCHS[epoch]

    def convert(value: Any) -> Any:
        if factor and isinstance(value, _Number):
            # Microseconds since 1970 are what both kinds of timestamp count.
            return int(Decimal(value) * factor)
        return parse_timestamp(_text(value), kind)

    return convert


def _nullable(kind: pa.DataType, epoch: str) -> _Converter:
    convert = _converter(kind, epoch)
    return lambda value: None if value is None else convert(value)


def _struct_converter(kind: pa.DataType, epoch: str) -> _Converter:
    children = [(child.name, _nullable(child.type, epoch)) for child in kind]

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
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
        raise ValueError("not a decimal number")
    return Decimal(value)


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
    (pa.types.is_date, lambda value: parse_date(_text(value))),
    (pa.types.is_binary, lambda value: base64.b64decode(_text(value), validate=True)),
    (pa.types.is_null, lambda value: None),
]
