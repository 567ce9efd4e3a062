"""Avro schemas: what they are in Arrow, and how the records behind them are described to the two readers."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa

from volley_core import DecodeError

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
    ("string", "uuid"): pa.string(),
    ("fixed", "uuid"): pa.string(),
}
_MOST_DIGITS = 76
_UUID_BYTES = 16


@dataclass(slots=True, eq=False)
class Node:
    """One type in a schema. A recursive type is a node below itself."""

    kind: str
    logical: str | None = None
    """A logical type that is valid where it stands; others are ignored, as Avro asks for."""
    names: list[str] = field(default_factory=list)
    """Of a record's fields."""
    parts: list[Node] = field(default_factory=list)
    """The types of a record's fields, a union's members, an array's items, or a map's values."""
    symbols: list[str] = field(default_factory=list)
    size: int = 0
    precision: int = 0
    scale: int = 0
    source: list[dict[str, Any]] = field(default_factory=list)
    """A record's fields as they are written in the schema."""

    @property
    def members(self) -> list[Node]:
        """A union's types but null."""
        return [part for part in self.parts if part.kind != "null"]

    @property
    def promoted(self) -> pa.DataType | None:
        """What a union of numbers is read as."""
        kinds = sorted(part.kind for part in self.members if part.logical is None)
        promoted = {"int long": pa.int64(), "double float": pa.float64()}
        return promoted.get(" ".join(kinds))


def parse(schema: Any) -> Node:
    """The type of a file's records. Raises DecodeError if the schema is none, or not one of records."""
    try:
        node = _Parser().node(schema, "")
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise DecodeError(f"not valid Avro: the schema is none ({type(error).__name__}: {error})") from error
    if node.kind != "record":
        raise DecodeError("the Avro file holds single values, not records")
    return node


class _Parser:
    """Remembers the types that have names."""

    def __init__(self) -> None:
        self._named: dict[str, Node] = {}

    def node(self, schema: Any, namespace: str) -> Node:
        if isinstance(schema, str):
            return Node(schema) if schema in _PRIMITIVES else self._known(schema, namespace)
        if isinstance(schema, list):
            return Node("union", parts=[self.node(member, namespace) for member in schema])
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.node(kind, namespace)
        if kind in _PRIMITIVES:
            return _with_logical(Node(kind), schema)
        if kind == "array":
            return Node("array", parts=[self.node(schema["items"], namespace)])
        if kind == "map":
            return Node("map", parts=[self.node(schema["values"], namespace)])
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(schema, kind, namespace)
        return self._known(kind, namespace)

    def _define(self, schema: dict[str, Any], kind: str, namespace: str) -> Node:
        name, namespace = _full_name(schema, namespace)
        node = self._named[name] = Node("record" if kind == "error" else kind)
        if kind == "fixed":
            node.size = int(schema["size"])
            return _with_logical(node, schema)
        if kind == "enum":
            node.symbols = list(schema["symbols"])
            return node
        node.source = list(schema["fields"])
        node.names = [one["name"] for one in node.source]
        node.parts = [self.node(one["type"], namespace) for one in node.source]
        return node

    def _known(self, name: str, namespace: str) -> Node:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            raise ValueError(f"it has no type named {name!r}")
        return found


def _full_name(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    """A definition's full name, and the namespace of the names within it."""
    before, dot, last = schema["name"].rpartition(".")
    within = before if dot else schema.get("namespace", namespace)
    return (f"{within}.{last}" if within else last), within


def _with_logical(node: Node, schema: dict[str, Any]) -> Node:
    logical = schema.get("logicalType")
    if logical == "decimal" and node.kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision", 0), schema.get("scale", 0)
        whole = isinstance(precision, int) and isinstance(scale, int)
        if whole and 0 <= scale <= precision <= _MOST_DIGITS and precision > 0:
            node.logical, node.precision, node.scale = logical, precision, scale
    elif (node.kind, logical) in _LOGICAL and (node.kind != "fixed" or node.size == _UUID_BYTES):
        node.logical = logical
    return node


def arrow_type(node: Node, path: tuple[Node, ...] = ()) -> pa.DataType:
    """Raises DecodeError for a type that holds itself: Arrow has none such."""
    if node in path:
        raise DecodeError("an Avro type that holds itself has no Arrow type; leave its column out of the schema")
    path = (*path, node)
    if node.logical == "decimal":
        # Arrow's smaller type where it suffices.
        make = pa.decimal128 if node.precision <= 38 else pa.decimal256
        return make(node.precision, node.scale)
    if node.logical is not None:
        return _LOGICAL[node.kind, node.logical]
    if node.kind == "union":
        return _union_type(node, path)
    if node.kind == "record":
        children = zip(node.names, node.parts, strict=True)
        return pa.struct([pa.field(name, arrow_type(part, path)) for name, part in children])
    if node.kind == "array":
        return pa.list_(pa.field("element", arrow_type(node.parts[0], path)))
    if node.kind == "map":
        return pa.map_(pa.string(), arrow_type(node.parts[0], path))
    return {"enum": pa.string(), "fixed": pa.binary()}.get(node.kind) or _PRIMITIVES[node.kind]


def _union_type(node: Node, path: tuple[Node, ...]) -> pa.DataType:
    """As Spark has it: one type beside null is that type, numbers are the wider one, others a struct of all."""
    members = node.members
    if len(members) < 2:
        return arrow_type(members[0], path) if members else pa.null()
    return node.promoted or pa.struct(
        [pa.field(f"member{index}", arrow_type(member, path)) for index, member in enumerate(members)]
    )


def native_schema(record: Node) -> Any:
    """The records for the native reader, with what it would misread put more simply; None if it cannot read them."""
    try:
        return _Description(native=True).of(record)
    except _NotNativeError:
        return None


def row_schema(record: Node) -> Any:
    """The records for fastavro: without logical types, and with each member of a true union in a record of its own.

    A record of one field is written as that field alone, and its name tells which member a value is.
    """
    return _Description(native=False).of(record)


class _NotNativeError(Exception):
    pass


class _Description:
    """Describes the same bytes anew. Every type that has a name gets a new one: readers stumble over odd ones."""

    def __init__(self, native: bool) -> None:
        self._native = native
        self._named: dict[int, str] = {}
        self._unfinished: set[int] = set()
        self._unions = 0

    def of(self, node: Node) -> Any:
        if self._native:
            self._refuse_not_native(node)
        if node.kind in ("record", "enum", "fixed"):
            return self._definition(node)
        if node.kind == "array":
            return {"type": "array", "items": self.of(node.parts[0])}
        if node.kind == "map":
            return {"type": "map", "values": self.of(node.parts[0])}
        if node.kind == "union":
            return self._union(node)
        logical = self._logical(node)
        return {"type": node.kind, **logical} if logical else node.kind

    def _definition(self, node: Node) -> Any:
        if id(node) in self._named:
            return self._named[id(node)]
        name = self._named[id(node)] = f"t{len(self._named)}"
        if node.kind == "enum":
            return {"type": "enum", "name": name, "symbols": node.symbols}
        if node.kind == "fixed":
            return {"type": "fixed", "name": name, "size": node.size, **self._logical(node)}
        self._unfinished.add(id(node))
        fields = [{"name": key, "type": self.of(part)} for key, part in zip(node.names, node.parts, strict=True)]
        self._unfinished.discard(id(node))
        return {"type": "record", "name": name, "fields": fields}

    def _union(self, node: Node) -> list[Any]:
        if len(node.members) < 2 or node.promoted is not None:
            return [self.of(part) for part in node.parts]
        numbers = count()
        return ["null" if part.kind == "null" else self._member(node, part, next(numbers)) for part in node.parts]

    def _member(self, union: Node, part: Node, number: int) -> dict[str, Any]:
        fields = [{"name": "value", "type": self.of(part)}]
        # Two unions may hold the same members; the number after the last `_` tells which one a value is.
        self._unions += 1
        return {"type": "record", "name": f"u{self._unions}_{number}", "fields": fields}

    def _logical(self, node: Node) -> dict[str, Any]:
        if not self._native or node.logical in (None, "uuid"):
            return {}
        if node.logical == "decimal":
            return {"logicalType": "decimal", "precision": node.precision, "scale": node.scale}
        return {"logicalType": node.logical}

    def _refuse_not_native(self, node: Node) -> None:
        kinds = [part.kind for part in node.parts]
        refused = (
            id(node) in self._unfinished
            or (node.kind == "union" and (len(kinds) != 2 or kinds.count("null") != 1))
            or (node.kind != "union" and "null" in kinds)
            or (node.kind == "record" and not kinds)
            or (node.kind == "fixed" and (node.size == 0 or node.logical == "uuid"))
        )
        if refused:
            raise _NotNativeError


def resolvable(schema: Any) -> Any:
    """A schema as it is, names, aliases and defaults included, but without logical types: values come as written."""
    if isinstance(schema, list):
        return [resolvable(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: value for key, value in schema.items() if key != "logicalType"}
    for key in ("type", "items", "values", "fields"):
        if key in found:
            found[key] = resolvable(found[key])
    return found
