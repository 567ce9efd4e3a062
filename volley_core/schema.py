"""Schemas as people write them: Spark's DDL ("id bigint, tags array<string>") to Arrow and back, without Spark."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_NAMES = {kind: name for name, kind in reversed(_PRIMITIVES.items())} | {
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.int16(): "smallint",
    pa.int8(): "tinyint",
    pa.float32(): "float",
    pa.large_string(): "string",
    pa.large_binary(): "binary",
}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\w+|[<>(),:])")


def parse_schema(value: Any) -> Any:
    """A schema from DDL text; an Arrow schema is given back as it is. Wrong text raises ValueError."""
    return _Ddl(value).schema() if isinstance(value, str) else value


def format_schema(schema: pa.Schema) -> str:
    """The DDL of a schema. Raises ValueError for a type that Spark does not have."""
    return ", ".join(_format_field(field, " ") for field in schema)


def _format_field(field: pa.Field, separator: str) -> str:
    name = field.name if re.fullmatch(r"[A-Za-z_]\w*", field.name) else "`" + field.name.replace("`", "``") + "`"
    return f"{name}{separator}{_format_type(field.type)}{'' if field.nullable else ' not null'}"


def _format_type(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(_format_field(kind.field(i), ': ') for i in range(kind.num_fields))}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_format_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_format_type(kind.key_type)}, {_format_type(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if kind not in _NAMES:
        raise ValueError(f"Arrow type {kind} has no counterpart in Spark")
    return _NAMES[kind]


class _Ddl:
    """A recursive-descent reader of one DDL text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"unexpected {text[at:].strip()[:10]!r} in schema {text!r}")
            self._tokens.append(match.group(1))
            at = match.end()

    def schema(self) -> pa.Schema:
        if not self._tokens:
            raise ValueError("the schema is empty; write for example 'id bigint, name string'")
        return pa.schema(self._fields(end=None))

    def _fields(self, end: str | None) -> list[pa.Field]:
        fields = [self._field()]
        while self._peek() == ",":
            self._next()
            fields.append(self._field())
        if self._peek() != end:
            raise ValueError(f"expected ',' or {end or 'the end'} but found {self._peek()!r} in schema {self._text!r}")
        names = [field.name for field in fields]
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            raise ValueError(f"column {sorted(doubled)[0]!r} appears twice in schema {self._text!r}")
        return fields

    def _field(self) -> pa.Field:
        name = self._next()
        if name[0] in "<>(),:'":
            raise ValueError(f"expected a column's name but found {name!r} in schema {self._text!r}")
        name = name[1:-1].replace("``", "`") if name.startswith("`") else name
        if self._peek() == ":":
            self._next()
        kind = self._type()
        nullable = True
        if (self._peek() or "").lower() == "not":
            self._next()
            self._expect("null")
            nullable = False
        if (self._peek() or "").lower() == "comment":
            self._next()
            self._next()
        return pa.field(name, kind, nullable)

    def _type(self) -> pa.DataType:
        name = self._next().lower()
        if name == "array":
            self._expect("<")
            kind = pa.list_(pa.field("element", self._type()))
            self._expect(">")
            return kind
        if name == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            kind = pa.map_(key, self._type())
            self._expect(">")
            return kind
        if name == "struct":
            self._expect("<")
            fields = [] if self._peek() == ">" else self._fields(end=">")
            self._expect(">")
            return pa.struct(fields)
        if name in ("decimal", "dec", "numeric"):
            return self._decimal()
        if name in ("varchar", "char"):
            self._expect("(")
            self._next()
            self._expect(")")
            return pa.string()
        if name not in _PRIMITIVES:
            raise ValueError(f"unknown type {name!r} in schema {self._text!r}")
        return _PRIMITIVES[name]

    def _decimal(self) -> pa.DataType:
        if self._peek() != "(":
            return pa.decimal128(10, 0)
        self._next()
        precision, scale = self._next(), "0"
        if self._peek() == ",":
            self._next()
            scale = self._next()
        self._expect(")")
        if not (
            precision.isdecimal() and scale.isdecimal() and 1 <= int(precision) <= 38 and int(scale) <= int(precision)
        ):
            raise ValueError(
                f"decimal({precision}, {scale}) is no type in schema {self._text!r}: the precision is 1 to 38, "
                "and the scale at most the precision"
            )
        return pa.decimal128(int(precision), int(scale))

    def _peek(self) -> str | None:
        return self._tokens[0] if self._tokens else None

    def _next(self) -> str:
        if not self._tokens:
            raise ValueError(f"schema {self._text!r} ends too early")
        return self._tokens.pop(0)

    def _expect(self, token: str) -> None:
        found = self._next()
        if found.lower() != token:
            raise ValueError(f"expected {token!r} but found {found!r} in schema {self._text!r}")


ArrowSchema = Annotated[
    pa.Schema,
    BeforeValidator(parse_schema),
    PlainSerializer(format_schema, return_type=str),
    WithJsonSchema({"type": "string", "format": "Spark DDL"}),
]
"""A field that takes a schema as DDL text or as an Arrow schema."""
