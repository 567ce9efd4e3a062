"""Apache Avro object container files, by fastavro."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import ModuleType
from typing import Any, BinaryIO

import pyarrow as pa
from pydantic import Field

from volley_connectors.decoders.columns import fit, plain
from volley_connectors.decoders.streams import decoding, decompressed
from volley_core import ConfigError, ConnectorConfig, DecodeError

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}
_NUMBERS = ("int", "long", "float", "double")
_Converter = Callable[[Any], Any]


class AvroDecoderConfig(ConnectorConfig):
    """Options of the format `avro`."""

    EXAMPLE = {"batch_rows": 5000}

    batch_rows: int = Field(10_000, gt=0, description="Most rows in one Arrow batch.")


class AvroDecoder:
    """Avro object container files, with logical types, read with the schema that the file carries."""

    Config = AvroDecoderConfig

    def __init__(self, config: AvroDecoderConfig) -> None:
        self._config = config

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        with _decoding():
            types = _Types()
            return plain(pa.schema([pa.field(name, types.arrow(kind)) for name, kind in _columns(_open(file))]))

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with _decoding():
            reader = _open(file)
            types = _Types()
            # Every column is walked through, for a later one may refer to a type that an earlier one defines.
            columns = [(name, types.arrow(kind), types.converter(kind)) for name, kind in _columns(reader)]
            wanted = [column for column in columns if column[0] in schema.names]
            records = iter(reader)
            while rows := list(islice(records, self._config.batch_rows)):
                yield fit(_batch(rows, wanted), schema)


def _batch(rows: list[dict[str, Any]], columns: list[tuple[str, pa.DataType, _Converter | None]]) -> pa.RecordBatch:
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    arrays = [
        pa.array([row[name] if convert is None else convert(row[name]) for row in rows], kind)
        for name, kind, convert in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _, _ in columns])


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError as error:
        raise ConfigError(
            "Format 'avro' needs the package fastavro. Run: pip install 'volley-connectors[file-formats]'"
        ) from error
    module: ModuleType = fastavro
    return module


def _open(file: BinaryIO) -> Any:
    return _fastavro().reader(decompressed(file))


@contextmanager
def _decoding() -> Iterator[None]:
    # What fastavro raises for bytes that are no Avro, or that end too early.
    foreign = (
        ValueError,
        EOFError,
        IndexError,
        KeyError,
        TypeError,
        ArithmeticError,
        RecursionError,
        zlib.error,
        struct.error,
    )
    with decoding("Avro"):
        try:
            yield
        except pa.ArrowException:
            raise
        except foreign as error:
            raise DecodeError(f"not valid Avro: {type(error).__name__}: {error}") from error


def _columns(reader: Any) -> list[tuple[str, Any]]:
    schema = reader.writer_schema
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise DecodeError("the Avro file holds single values, not records")
    return [(field["name"], field["type"]) for field in schema["fields"]]


class _Types:
    """Avro types as Arrow types, and what their values need on the way. Remembers the types that have names."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def arrow(self, avro: Any) -> pa.DataType:
        avro = self._resolve(avro)
        if isinstance(avro, list):
            return self._union(avro)
        if isinstance(avro, str):
            return _PRIMITIVES[avro]
        kind, logical = avro["type"], avro.get("logicalType")
        if logical == "decimal":
            return pa.decimal128(avro["precision"], avro.get("scale", 0))
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        if kind in ("record", "error"):
            return pa.struct([pa.field(field["name"], self.arrow(field["type"])) for field in avro["fields"]])
        if kind == "array":
            return pa.list_(pa.field("element", self.arrow(avro["items"])))
        if kind == "map":
            return pa.map_(pa.string(), self.arrow(avro["values"]))
        return self.arrow(kind) if isinstance(kind, dict | list) else _PRIMITIVES[kind]

    def converter(self, avro: Any) -> _Converter | None:
        """What turns fastavro's value into one that Arrow takes; None where it is one already."""
        avro = self._resolve(avro)
        if isinstance(avro, list):
            members = [member for member in avro if member != "null"]
            return self._nullable(members[0]) if len(members) == 1 else None
        if isinstance(avro, str):
            return None
        if avro.get("logicalType") == "uuid":
            return str
        if avro["type"] == "map":
            inner = self.converter(avro["values"]) or _same
            return lambda value: [(key, inner(item)) for key, item in value.items()]
        if avro["type"] == "array":
            item = self.converter(avro["items"])
            return None if item is None else lambda value: [item(one) for one in value]
        if avro["type"] in ("record", "error"):
            return self._record(avro)
        return None

    def _record(self, avro: dict[str, Any]) -> _Converter | None:
        parts = [(field["name"], self.converter(field["type"])) for field in avro["fields"]]
        if all(convert is None for _, convert in parts):
            return None
        return lambda value: {name: (convert or _same)(value[name]) for name, convert in parts}

    def _nullable(self, avro: Any) -> _Converter | None:
        convert = self.converter(avro)
        return None if convert is None else lambda value: None if value is None else convert(value)

    def _union(self, members: list[Any]) -> pa.DataType:
        kinds = [member for member in members if member != "null"]
        if len(kinds) == 1:
            return self.arrow(kinds[0])
        if kinds and all(kind in _NUMBERS for kind in kinds):
            return pa.int64() if set(kinds) <= {"int", "long"} else pa.float64()
        if not kinds:
            return pa.null()
        raise DecodeError(f"an Avro union of {kinds} has no Arrow type: only null with one type, and numbers, are read")

    def _resolve(self, avro: Any) -> Any:
        """The definition behind a name; definitions are remembered on the way."""
        if isinstance(avro, dict) and "name" in avro:
            if self._named.get(avro["name"], avro) is not avro:
                return self._named[avro["name"]]
            self._named[avro["name"]] = avro
        return self._named.get(avro, avro) if isinstance(avro, str) else avro


def _same(value: Any) -> Any:
    return value
