"""Formats that hold columns: Parquet, ORC and Arrow in exactly the schema that is asked for, and in pieces."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import io
import json
import lzma
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from volley_connectors.decoders.arrow import ArrowDecoder, ArrowDecoderConfig
from volley_connectors.decoders.json_values import rows_as_json
from volley_connectors.decoders.orc import OrcDecoder, OrcDecoderConfig
from volley_connectors.decoders.parquet import ParquetDecoder, ParquetDecoderConfig
from volley_core import BadRecord, BadRecords, DecodeError

PARQUET = ParquetDecoder(ParquetDecoderConfig())
ORC = OrcDecoder(OrcDecoderConfig())
ARROW = ArrowDecoder(ArrowDecoderConfig())
UTC = pa.timestamp("us", tz="UTC")


def parquet(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def stream(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=10)
    return file.getvalue()


def decode(decoder: Any, data: bytes, schema: pa.Schema) -> pa.Table:
    batches = list(decoder.decode(io.BytesIO(data), schema))
    assert all(batch.schema.equals(schema) for batch in batches)
    return pa.Table.from_batches(batches, schema)


def tolerate(
    decoder: Any, data: bytes, schema: pa.Schema, extras: str | None = None, rescue: bool = False
) -> tuple[list[Any], list[BadRecord]]:
    found: list[BadRecord] = []
    batches = list(decoder.decode_tolerantly(io.BytesIO(data), schema, BadRecords(found.append, extras, rescue)))
    return pa.Table.from_batches(batches, schema).to_pylist(), found


def one(array: pa.Array, kind: pa.DataType, nullable: bool = True) -> list[Any]:
    """A column as a Parquet or, where Parquet has no such type, Arrow file gives it."""
    table, schema = pa.table({"a": array}), pa.schema([pa.field("a", kind, nullable)])
    try:
        data, decoder = parquet(table), PARQUET
    except pa.ArrowException:
        data, decoder = stream(table), ARROW
    return decode(decoder, data, schema).column("a").to_pylist()


MOMENT = dt.datetime(2024, 2, 3, 4, 5, 6, 789)
NOT_NULL = pa.struct([pa.field("x", pa.int32(), False)])
FITS: list[tuple[pa.Array, pa.DataType, list[Any]]] = [
    (pa.array([1, None], pa.uint8()), pa.int16(), [1, None]),
    (pa.array([2**32 - 1], pa.uint32()), pa.int64(), [2**32 - 1]),
    (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), [Decimal(2**64 - 1)]),
    (pa.array([7], pa.int64()), pa.decimal128(3, 2), [Decimal("7.00")]),
    (pa.array([7], pa.int32()), pa.float64(), [7.0]),
    (pa.array([Decimal("0.1")], pa.decimal128(3, 1)), pa.decimal128(38, 18), [Decimal("0.1")]),
    (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), pa.decimal128(4, 1), [Decimal("1.5")]),
    (pa.array(["1.10"], pa.string()), pa.decimal128(5, 2), [Decimal("1.10")]),
    (pa.array(["x"], pa.large_string()), pa.string(), ["x"]),
    (pa.array([b"x"], pa.large_binary()), pa.binary(), [b"x"]),
    (pa.array([b"xyz"], pa.binary(3)), pa.binary(), [b"xyz"]),
    (pa.array(["x", None, "x"]).dictionary_encode(), pa.string(), ["x", None, "x"]),
    (pa.array([[1, None]], pa.large_list(pa.int32())), pa.list_(pa.int64()), [[1, None]]),
    (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), pa.list_(pa.int32()), [[1, 2]]),
    (pa.array([MOMENT], pa.timestamp("ns")), pa.timestamp("us"), [MOMENT]),
    (pa.array([1_234], pa.timestamp("ns")), pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
    (pa.array([MOMENT], pa.timestamp("ms", "Europe/Vienna")), UTC, [MOMENT.replace(microsecond=0, tzinfo=dt.UTC)]),
    (pa.array([dt.date(2024, 1, 2)], pa.date64()), pa.date32(), [dt.date(2024, 1, 2)]),
    (pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("us")), pa.date32(), [dt.date(2024, 1, 2)]),
    (pa.array([{"x": 1}, None]), NOT_NULL, [{"x": 1}, None]),
    (pa.array([[{"x": 1}, None], None]), pa.list_(NOT_NULL), [[{"x": 1}, None], None]),
    (
        pa.array([[("k", {"x": 1}), ("l", None)]], pa.map_(pa.string(), pa.struct([("x", pa.int32())]))),
        pa.map_(pa.string(), NOT_NULL),
        [[("k", {"x": 1}), ("l", None)]],
    ),
    (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), pa.map_(pa.string(), pa.int64()), [[("k", 1)]]),
    (pa.array([None, None], pa.null()), pa.list_(pa.int32()), [None, None]),
    (pa.RunEndEncodedArray.from_arrays([2, 3], [5, None]), pa.int64(), [5, 5, None]),
    (pa.array(["x"], pa.string_view()), pa.string(), ["x"]),
]


@pytest.mark.parametrize(("array", "kind", "values"), FITS, ids=[f"{a.type} as {k}" for a, k, _ in FITS])
def test_a_column_comes_out_as_the_type_that_is_asked_for(
    array: pa.Array, kind: pa.DataType, values: list[Any]
) -> None:
    assert one(array, kind) == values


MISFITS: list[tuple[pa.Array, pa.DataType]] = [
    (pa.array([2**31], pa.int64()), pa.int32()),
    (pa.array([-1], pa.int32()), pa.uint32()),
    (pa.array([1000], pa.int32()), pa.decimal128(5, 2)),
    (pa.array([Decimal("1.55")], pa.decimal128(5, 2)), pa.decimal128(4, 1)),
    (pa.array([Decimal("100.0")], pa.decimal128(5, 1)), pa.decimal128(3, 1)),
    (pa.array([2**53 + 1], pa.int64()), pa.float64()),
    (pa.array([1.5], pa.float64()), pa.int32()),
    (pa.array([1e300], pa.float64()), pa.float32()),
    (pa.array(["one"], pa.string()), pa.int32()),
    (pa.array([b"\xff"], pa.binary()), pa.string()),
    (pa.array([MOMENT], pa.timestamp("us")), pa.date32()),
    # Counts of nobody knows what.
    (pa.array([1_700_000_000], pa.int64()), UTC),
    (pa.array([MOMENT], pa.timestamp("us")), pa.int64()),
    (pa.array([True]), pa.int32()),
    (pa.array([[1]]), pa.int32()),
    (pa.array([{"x": 1}]), pa.string()),
    (pa.array([{"x": None}], pa.struct([("x", pa.int32())])), NOT_NULL),
    (pa.array([[1, None]]), pa.list_(pa.field("element", pa.int64(), False))),
    (
        pa.array([[("k", None)]], pa.map_(pa.string(), pa.int32())),
        pa.map_(pa.string(), pa.field("value", pa.int32(), False)),
    ),
]


@pytest.mark.parametrize(("array", "kind"), MISFITS, ids=[f"{a.type} as {k}" for a, k in MISFITS])
def test_a_value_that_does_not_fit_is_a_bad_record(array: pa.Array, kind: pa.DataType) -> None:
    schema = pa.schema([("a", kind), ("id", pa.int32()), ("_rescued_data", pa.string())])
    # Between two that fit, which are null.
    column = pa.concat_arrays([pa.nulls(1, array.type), array, pa.nulls(1, array.type)])
    data = stream(pa.table({"a": column, "id": [0, 1, 2]}))
    with pytest.raises(DecodeError, match="row 2: column 'a'"):
        decode(ARROW, data, schema)
    rows, found = tolerate(ARROW, data, schema)
    assert [row["id"] for row in rows] == [0, 2]
    assert [record.row for record in found] == [2]
    assert json.loads(found[0].raw)["id"] == 1
    rows, _ = tolerate(ARROW, data, schema, "_rescued_data", rescue=True)
    assert [(row["a"], row["id"]) for row in rows] == [(None, 0), (None, 1), (None, 2)]
    assert list(json.loads(rows[1]["_rescued_data"])) == ["a"]


def test_misfits_of_many_columns_and_batches_are_all_found() -> None:
    count, wrong = 1000, {0, 9, 10, 499, 500, 999}
    large = dict.fromkeys(wrong, 2**40)
    table = pa.table(
        {
            "a": [large.get(row, row) for row in range(count)],
            "b": [None if row % 100 == 7 else row for row in range(count)],
            "c": [large.get(row - 1, 0) for row in range(count)],
        }
    )
    schema = pa.schema([("a", pa.int32()), pa.field("b", pa.int64(), False), ("c", pa.int32())])
    bad = sorted(wrong | {row for row in range(count) if row % 100 == 7 or row - 1 in wrong})
    for decoder, data in ((PARQUET, parquet(table, row_group_size=300)), (ARROW, stream(table))):
        rows, found = tolerate(decoder, data, schema)
        assert [record.row - 1 for record in found] == bad
        assert [row["b"] for row in rows] == [row for row in range(count) if row not in bad]


def test_a_rescued_record_without_a_value_that_must_be_is_told_but_no_row() -> None:
    schema = pa.schema([pa.field("id", pa.int32(), False), ("extras", pa.string())])
    rows, found = tolerate(PARQUET, parquet(pa.table({"id": [1, 2**40]})), schema, "extras", rescue=True)
    assert rows == [{"id": 1, "extras": None}]
    assert [record.row for record in found] == [2]


def test_extras_are_json_of_what_the_schema_lacks() -> None:
    table = pa.table(
        {
            "id": [1, 2],
            "price": pa.array([Decimal("1.10"), None], pa.decimal128(5, 2)),
            "at": pa.array([MOMENT, None], UTC),
            "pairs": pa.array([[("k", [1.5])], None], pa.map_(pa.string(), pa.list_(pa.float64()))),
            "extras": ["own", "own"],
        }
    )
    schema = pa.schema([("extras", pa.string()), ("id", pa.int64())])
    (first, second), _ = tolerate(PARQUET, parquet(table), schema, "extras")
    assert json.loads(first["extras"]) == {"price": "1.10", "at": "2024-02-03 04:05:06.000789Z", "pairs": {"k": [1.5]}}
    assert second == {"extras": None, "id": 2}


def test_any_value_can_be_shown_as_json() -> None:
    table = pa.table(
        {
            "late": pa.array([2**62], pa.timestamp("us", "UTC")),
            "nanos": pa.array([1], pa.timestamp("ns")),
            "raw": [b"\xff"],
            "floats": [[math.nan, math.inf, -math.inf, 1.5]],
            "word": pa.array(["ü"]).dictionary_encode(),
            "span": [pa.MonthDayNano([1, 2, 3])],
            "empty": pa.array([{}], pa.struct([])),
            "nothing": pa.nulls(1),
        }
    )
    (text,) = rows_as_json(table.to_batches()[0])
    row = json.loads(text)
    assert (row["nanos"], row["raw"]) == ("1970-01-01 00:00:00.000000001", "/w==")
    assert (row["floats"], row["word"]) == (["NaN", "Infinity", "-Infinity", 1.5], "ü")
    assert (row["empty"], row["nothing"]) == ({}, None)


def test_int96_keeps_moments_that_nanoseconds_cannot() -> None:
    moments = [dt.datetime(1600, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1), dt.datetime(9999, 12, 31), None]
    data = parquet(pa.table({"a": pa.array(moments, pa.timestamp("us"))}), use_deprecated_int96_timestamps=True)
    assert decode(PARQUET, data, pa.schema([("a", pa.timestamp("us"))])).column("a").to_pylist() == moments


def test_a_parquet_object_is_cut_between_row_groups_of_about_the_size() -> None:
    table = pa.table({"id": list(range(100_000))})
    data = parquet(table, row_group_size=5_000, compression="none", use_dictionary=False)
    assert PARQUET.cut(io.BytesIO(data), 40_000 * 4) == [(first, first + 4) for first in range(0, 20, 4)]
    assert PARQUET.cut(io.BytesIO(data), 1) == [(group, group + 1) for group in range(20)]
    assert PARQUET.cut(io.BytesIO(data), 10**9) == [(0, 20)]


@pytest.mark.parametrize("decoder", [PARQUET, ORC, ARROW])
def test_cutting_what_is_not_in_the_format_is_a_decode_error(decoder: Any) -> None:
    with pytest.raises(DecodeError):
        decoder.cut(io.BytesIO(b"ARROW1\0\0 and nothing more"), 10)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_arrow_is_read_as_file_and_as_stream_with_compressed_buffers(compression: str | None) -> None:
    table = pa.table({"id": list(range(1000)), "word": pa.array(["x", "y"] * 500).dictionary_encode()})
    schema = pa.schema([("word", pa.string()), ("id", pa.int64())])
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    for data in (file.getvalue(), stream(table, compression=compression)):
        assert decode(ARROW, data, schema).to_pylist() == table.select(["word", "id"]).to_pylist()
        assert ARROW.infer_schema(io.BytesIO(data)).equals(pa.schema([("id", pa.int64()), ("word", pa.string())]))


def test_an_arrow_stream_may_be_compressed_whole() -> None:
    table = pa.table({"id": [1, 2, 3]})
    compressed = (gzip.compress(stream(table)), lzma.compress(stream(table)), bz2.compress(stream(table)))
    assert all(decode(ARROW, data, table.schema).equals(table) for data in compressed)


def _orc(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    orc.write_table(table, file, **options)
    return file.getvalue()


def test_orc_rows_are_counted_even_if_no_column_is_wanted() -> None:
    data = _orc(pa.table({"a": [1, 2, 3]}))
    assert decode(ORC, data, pa.schema([("z", pa.string())])).to_pylist() == [{"z": None}] * 3


def test_orc_numbers_are_timestamps_without_a_zone_if_that_is_asked_for() -> None:
    """So Spark writes them."""
    data = _orc(pa.table({"at": pa.array([1, None], pa.int64())}))
    rows = decode(ORC, data, pa.schema([("at", pa.timestamp("us"))])).to_pylist()
    assert rows == [{"at": dt.datetime(1970, 1, 1, 0, 0, 0, 1)}, {"at": None}]


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_orc_is_read_whatever_its_compression(compression: str) -> None:
    table = pa.table({"id": list(range(1000)), "price": pa.array([Decimal("1.10")] * 1000, pa.decimal128(10, 2))})
    assert decode(ORC, _orc(table, compression=compression), table.schema).equals(table)


FILES = {
    "parquet": (PARQUET, parquet(pa.table({"id": list(range(200))}), row_group_size=50)),
    "orc": (ORC, _orc(pa.table({"id": list(range(200))}))),
    "arrow stream": (ARROW, stream(pa.table({"id": list(range(200))}))),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_ends_too_early_is_refused_or_whole(name: str) -> None:
    """An Arrow stream that ends between two batches is a whole one: its end need not be marked."""
    decoder, data = FILES[name]
    schema = pa.schema([("id", pa.int64())])
    for size in range(len(data)):
        try:
            rows = decode(decoder, data[:size], schema).num_rows
        except DecodeError:
            continue
        assert name == "arrow stream"
        assert rows % 10 == 0


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_byte_raises_no_foreign_error(name: str) -> None:
    decoder, data = FILES[name]
    schema, refused = pa.schema([("id", pa.int64())]), 0
    for byte in range(0, len(data), 3):
        flipped = data[:byte] + bytes([data[byte] ^ 0x55]) + data[byte + 1 :]
        try:
            decode(decoder, flipped, schema)
        except DecodeError:
            refused += 1
    assert refused
