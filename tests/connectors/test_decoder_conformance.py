"""The built-in decoders against the contract of `Decoder`."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from volley_connectors.decoders.avro import AvroDecoder, AvroDecoderConfig
from volley_connectors.decoders.csv import CsvDecoder, CsvDecoderConfig
from volley_connectors.decoders.json_lines import JsonLinesDecoder, JsonLinesDecoderConfig
from volley_connectors.decoders.parquet import ParquetDecoder, ParquetDecoderConfig
from volley_core.conformance import DecoderSuite


class TestJsonLines(DecoderSuite):
    @pytest.fixture
    def make_decoder(self) -> Callable[[], JsonLinesDecoder]:
        return lambda: JsonLinesDecoder(JsonLinesDecoderConfig())

    def encode(self, table: pa.Table) -> bytes:
        rows = ({name: _json(row[name], table.field(name).type) for name in row} for row in table.to_pylist())
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _json(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return dict(value) if pa.types.is_map(kind) else value


class TestCsv(DecoderSuite):
    garbage = b'a,b\n1,2\n1,2,3\n"' * 50
    refuses = {
        "nulls": "CSV has no nested values",
        "some_nulls": "CSV has no nested values",
        "no_rows": "CSV has no nested values",
        "nested": "CSV has no nested values",
        "maps": "CSV has no nested values",
        "unicode": "in CSV an empty text is null",
        "long_text": "in CSV an empty text is null",
        "binary": "CSV holds text",
    }

    @pytest.fixture
    def make_decoder(self) -> Callable[[], CsvDecoder]:
        return lambda: CsvDecoder(CsvDecoderConfig(block_bytes="64 KiB"))

    def encode(self, table: pa.Table) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.schema.names)
        for row in table.to_pylist():
            writer.writerow(["" if value is None else _csv(value) for value in row.values()])
        return text.getvalue().encode()


def _csv(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


class TestParquet(DecoderSuite):
    @pytest.fixture
    def make_decoder(self) -> Callable[[], ParquetDecoder]:
        return lambda: ParquetDecoder(ParquetDecoderConfig())

    def encode(self, table: pa.Table) -> bytes:
        file = io.BytesIO()
        pq.write_table(table, file, row_group_size=20_000)
        return file.getvalue()


class TestAvro(DecoderSuite):
    refuses = {"odd_names": "Avro names are identifiers"}

    @pytest.fixture
    def make_decoder(self) -> Callable[[], AvroDecoder]:
        return lambda: AvroDecoder(AvroDecoderConfig(block_bytes="64 KiB"))

    def encode(self, table: pa.Table) -> bytes:
        fields = [{"name": field.name, "type": ["null", _avro(field.type, field.name)]} for field in table.schema]
        schema = {"type": "record", "name": "Row", "fields": fields}
        file = io.BytesIO()
        rows = [{name: _avro_value(row[name], table.field(name).type) for name in row} for row in table.to_pylist()]
        fastavro.writer(file, schema, rows, codec="deflate")
        return file.getvalue()


def _avro(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_struct(kind):
        fields = [{"name": f.name, "type": ["null", _avro(f.type, f"{name}_{f.name}")]} for f in kind]
        return {"type": "record", "name": f"R_{name}", "fields": fields}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro(kind.value_type, f"{name}_item")]}
    if pa.types.is_map(kind):
        return {"type": "map", "values": ["null", _avro(kind.item_type, f"{name}_value")]}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    return _AVRO[kind]


def _avro_value(value: Any, kind: pa.DataType) -> Any:
    return dict(value) if value is not None and pa.types.is_map(kind) else value


_AVRO = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
}
