"""The built-in decoders against the contract of `Decoder`."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from volley_connectors.decoders.arrow import ArrowDecoder, ArrowDecoderConfig
from volley_connectors.decoders.avro import AvroDecoder, AvroDecoderConfig
from volley_connectors.decoders.csv import CsvDecoder, CsvDecoderConfig
from volley_connectors.decoders.json_lines import JsonLinesDecoder, JsonLinesDecoderConfig
from volley_connectors.decoders.orc import OrcDecoder, OrcDecoderConfig
from volley_connectors.decoders.parquet import ParquetDecoder, ParquetDecoderConfig
from volley_connectors.decoders.text import TextDecoder, TextDecoderConfig
from volley_core import BadRecords
from volley_core.conformance import CuttingDecoderSuite, DecoderSuite, TolerantDecoderSuite

# Every text consists of lines, and each may be a bad record; but this is compressed, and then ends.
BROKEN_GZIP = gzip.compress(b"text" * 100)[:-12]


class TestJsonLines(DecoderSuite, TolerantDecoderSuite, CuttingDecoderSuite):
    not_in_the_format = BROKEN_GZIP
    broken_record = b'{"id": 7, "name\n'

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


class TestCsv(DecoderSuite, TolerantDecoderSuite, CuttingDecoderSuite):
    not_in_the_format = BROKEN_GZIP
    broken_record = b"7,too,many,values\n"
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

    def test_a_rescued_record_that_cannot_be_read_is_a_row_of_nulls(self, make_decoder: Callable[[], Any]) -> None:
        """Of a CSV record with too many values the first ones can be read, as Spark does."""
        schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("more", pa.string())])
        bad = BadRecords(lambda record: None, "more", rescue=True)
        batches = make_decoder().decode_tolerantly(io.BytesIO(b"id,name\n" + self.broken_record), schema, bad)
        assert [row for batch in batches for row in batch.to_pylist()] == [
            {"id": 7, "name": "too", "more": '{"_c2":"many","_c3":"values"}'}
        ]


def _csv(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


class TestParquet(DecoderSuite, TolerantDecoderSuite, CuttingDecoderSuite):
    @pytest.fixture
    def make_decoder(self) -> Callable[[], ParquetDecoder]:
        return lambda: ParquetDecoder(ParquetDecoderConfig())

    def encode(self, table: pa.Table) -> bytes:
        file = io.BytesIO()
        pq.write_table(table, file, row_group_size=20_000)
        return file.getvalue()


class TestOrc(DecoderSuite, TolerantDecoderSuite, CuttingDecoderSuite):
    refuses = {"times": "Arrow reads ORC's timestamps as nanoseconds, which begin in 1677 and end in 2262"}
    # A stripe must fit into memory, and this file has no more than one.
    streams = False

    @pytest.fixture
    def make_decoder(self) -> Callable[[], OrcDecoder]:
        return lambda: OrcDecoder(OrcDecoderConfig())

    def encode(self, table: pa.Table) -> bytes:
        file = io.BytesIO()
        orc.write_table(table, file, stripe_size=100_000, batch_size=1000)
        return file.getvalue()


class ArrowSuite(DecoderSuite, TolerantDecoderSuite):
    @pytest.fixture
    def make_decoder(self) -> Callable[[], ArrowDecoder]:
        return lambda: ArrowDecoder(ArrowDecoderConfig())


class TestArrowFile(ArrowSuite, CuttingDecoderSuite):
    def encode(self, table: pa.Table) -> bytes:
        file = io.BytesIO()
        with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table, max_chunksize=max(1, table.num_rows // 10))
        return file.getvalue()


class TestArrowStream(ArrowSuite):
    def encode(self, table: pa.Table) -> bytes:
        file = io.BytesIO()
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=10_000)
        return file.getvalue()


class TestText(CuttingDecoderSuite):
    @pytest.fixture
    def make_decoder(self) -> Callable[[], TextDecoder]:
        return lambda: TextDecoder(TextDecoderConfig(block_bytes="64 KiB"))

    def encode(self, table: pa.Table) -> bytes:
        return "".join(f"{value}\n" for value in table.column("value").to_pylist()).encode()

    def table(self, count: int) -> pa.Table:
        return pa.table({"value": [f"line {number}" for number in range(count)]})


class TestAvro(DecoderSuite, TolerantDecoderSuite, CuttingDecoderSuite):
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
