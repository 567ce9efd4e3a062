"""Reads Avro records one by one, by fastavro: for types that the native reader lacks, and to resolve schemas."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from volley_connectors.decoders.avro_container import Block
from volley_connectors.decoders.avro_native import END, enclose, enclosed
from volley_connectors.decoders.avro_schema import Node, arrow_type
from volley_core import ConfigError, DecodeError

_Converter = Callable[[Any], Any]
# What fastavro raises for bytes that are not as the schema says, or that end too early.
_BROKEN = (ValueError, EOFError, LookupError, TypeError, ArithmeticError, RecursionError, MemoryError, struct.error)


class RowReader:
    """Gives rows as Arrow batches of the columns that are wanted, in the types of `arrow_type`."""

    def __init__(self, record: Node, wanted: Sequence[str], written: Any, asked: Any = None) -> None:
        """`written`, `asked`: the schema of the rows as fastavro is to read it, and as it is to resolve it."""
        try:
            import fastavro
            from fastavro.read import SchemaResolutionError
            from fastavro.schema import SchemaParseException
        except ImportError as error:
            raise ConfigError(
                "Format 'avro' needs the package fastavro. Run: pip install 'volley-connectors[file-formats]'"
            ) from error
        try:
            self._written = fastavro.parse_schema(enclosed(written))
            self._asked = None if asked is None else fastavro.parse_schema(enclosed(asked))
        except (ValueError, LookupError, TypeError, SchemaParseException) as error:
            raise DecodeError(f"not valid Avro: the schema is none ({error})") from error
        self._read = fastavro.schemaless_reader
        self._broken = (*_BROKEN, SchemaResolutionError)
        parts = zip(record.names, record.parts, strict=True)
        self._columns = [(name, arrow_type(part), _nullable(part)) for name, part in parts if name in wanted]

    def read(self, blocks: Sequence[Block]) -> pa.RecordBatch:
        file = io.BytesIO(b"".join(enclose(blocks)))
        try:
            # The name of a union's member tells which one a value is.
            found = self._read(
                file, self._written, self._asked, return_record_name=True, return_record_name_override=True
            )
        except self._broken as error:
            raise DecodeError(f"not valid Avro: {type(error).__name__}: {error}") from error
        rows = found["rows"]
        if found["end"] != END or len(rows) != sum(count for count, _ in blocks):
            raise DecodeError("not valid Avro: a block holds more or less than its records")
        if not self._columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        try:
            arrays = [pa.array([convert(row[name]) for row in rows], kind) for name, kind, convert in self._columns]
        except _BROKEN as error:
            raise DecodeError(f"not valid Avro: a value is not of its own type: {error}") from error
        return pa.RecordBatch.from_arrays(arrays, [name for name, _, _ in self._columns])


def _nullable(node: Node) -> _Converter:
    convert = _converter(node)
    return lambda value: None if value is None else convert(value)


def _converter(node: Node) -> _Converter:
    """What turns fastavro's value into one that Arrow takes."""
    if node.logical == "decimal":
        return lambda value: Decimal(f"{int.from_bytes(value, 'big', signed=True)}E-{node.scale}")
    if node.logical == "uuid" and node.kind == "fixed":
        return lambda value: str(UUID(bytes=value))
    if node.kind == "record":
        parts = [(name, _nullable(part)) for name, part in zip(node.names, node.parts, strict=True)]
        return lambda value: {name: convert(value[name]) for name, convert in parts}
    if node.kind == "array":
        item = _nullable(node.parts[0])
        return lambda value: [item(one) for one in value]
    if node.kind == "map":
        entry = _nullable(node.parts[0])
        return lambda value: [(key, entry(one)) for key, one in value.items()]
    if node.kind == "union" and node.members:
        return _union_converter(node)
    return lambda value: value


def _union_converter(node: Node) -> _Converter:
    if len(node.members) == 1:
        return _nullable(node.members[0])
    if node.promoted is not None:
        return lambda value: value
    members = [_nullable(member) for member in node.members]

    def convert(value: tuple[str, dict[str, Any]]) -> dict[str, Any]:
        number = int(value[0].rpartition("_")[2])
        return {f"member{number}": members[number](value[1]["value"])}

    return convert
