"""What the built-in decoders do with files that are compressed, broken, odd, or not quite in the schema."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from volley_connectors.decoders import timestamps
from volley_connectors.decoders.avro import AvroDecoder, AvroDecoderConfig
from volley_connectors.decoders.csv import CsvDecoder, CsvDecoderConfig
from volley_connectors.decoders.json_lines import JsonLinesDecoder, JsonLinesDecoderConfig
from volley_connectors.decoders.parquet import ParquetDecoder, ParquetDecoderConfig
from volley_connectors.registry import build
from volley_core import BadRecord, BadRecords, ConfigError, DecodeError
from volley_core.schema import parse_schema

JSON = JsonLinesDecoder(JsonLinesDecoderConfig())
CSV = CsvDecoder(CsvDecoderConfig())
PARQUET = ParquetDecoder(ParquetDecoderConfig())
AVRO = AvroDecoder(AvroDecoderConfig())


def decode(decoder: Any, data: bytes, ddl: str) -> list[dict[str, Any]]:
    schema = parse_schema(ddl)
    batches = list(decoder.decode(io.BytesIO(data), schema))
    assert all(batch.schema.equals(schema) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def framed_snappy(data: bytes) -> bytes:
    """The format's own description, done once more: chunks of at most 64 KiB, the second of each pair uncompressed."""
    parts = [b"\xff\x06\x00\x00sNaPpY", b"\xfe\x03\x00\x00pad"]
    for number, start in enumerate(range(0, len(data), 1000)):
        chunk = data[start : start + 1000]
        crc = google_crc32c.value(chunk)
        masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        body = masked.to_bytes(4, "little")
        body += chunk if number % 2 else pa.compress(chunk, codec="snappy", asbytes=True)
        parts.append(bytes([number % 2]) + len(body).to_bytes(3, "little") + body)
    return b"".join(parts)


COMPRESSED = {
    "xz": lzma.compress,
    "snappy": framed_snappy,
    "gzip": gzip.compress,
    "two gzip members": lambda data: gzip.compress(data[:8]) + gzip.compress(data[8:]),
    "bz2": bz2.compress,
    "zstd": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "lz4": lambda data: pa.compress(data, codec="lz4", asbytes=True),
}


@pytest.mark.parametrize("codec", COMPRESSED)
def test_compressed_text_is_recognised_by_its_first_bytes(codec: str) -> None:
    assert decode(JSON, COMPRESSED[codec](b'{"a":1}\n{"a":2}\n'), "a int") == [{"a": 1}, {"a": 2}]
    assert decode(CSV, COMPRESSED[codec](b"a,b\n1,2\n3,4\n"), "a int") == [{"a": 1}, {"a": 3}]


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("missing", [1, 6, 200])
def test_a_compressed_file_that_ends_too_early_is_refused(codec: str, missing: int) -> None:
    data = COMPRESSED[codec](b"".join(b'{"a":%d}\n' % (n * 7919 % 1000) for n in range(1000)))[:-missing]
    with pytest.raises(DecodeError):
        decode(JSON, data, "a int")


@pytest.mark.parametrize("codec", ["gzip", "two gzip members", "xz", "snappy", "bz2"])
def test_a_flipped_bit_in_a_compressed_file_is_found(codec: str) -> None:
    data = bytearray(COMPRESSED[codec](b"".join(b'{"a":%d}\n' % (n * 7919 % 1000) for n in range(1000))))
    data[len(data) // 2] ^= 0x10
    with pytest.raises(DecodeError):
        decode(JSON, bytes(data), "a int")


def test_gzip_members_may_be_padded_but_not_followed_by_something_else() -> None:
    member = gzip.compress(b'{"a":1}\n')
    assert decode(JSON, member + bytes(300_000) + member, "a int") == [{"a": 1}] * 2
    with pytest.raises(DecodeError):
        decode(JSON, member + b"garbage", "a int")


def test_without_isal_gzip_is_read_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    assert decode(JSON, COMPRESSED["two gzip members"](b'{"a":1}\n{"a":2}\n'), "a int") == [{"a": 1}, {"a": 2}]
    with pytest.raises(DecodeError):
        decode(JSON, gzip.compress(b'{"a":1}\n')[:-1], "a int")


def test_framed_snappy_without_checksums_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(ConfigError, match=r"pip install 'volley-connectors\[file-formats\]'"):
        decode(JSON, COMPRESSED["snappy"](b'{"a":1}\n'), "a int")


def test_a_text_that_begins_like_bzip2_is_still_text() -> None:
    assert decode(CSV, b"BZh9\n1\n", "BZh9 int") == [{"BZh9": 1}]


def test_an_error_of_the_store_is_not_called_corruption() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        list(JSON.decode(Broken(b"x"), pa.schema([("a", pa.int32())])))


@pytest.mark.parametrize(
    ("line", "ddl", "value"),
    [
        (b'{"a":"2024-02-29"}', "a date", date(2024, 2, 29)),
        (b'{"a":"2024-01-01T12:00:00.5+02:00"}', "a timestamp", datetime(2024, 1, 1, 10, 0, 0, 500000, UTC)),
        (b'{"a":"2024-01-01 12:00:00"}', "a timestamp", datetime(2024, 1, 1, 12, tzinfo=UTC)),
        (b'{"a":"2024-01-01T12:00:00.123456789Z"}', "a timestamp", datetime(2024, 1, 1, 12, 0, 0, 123456, UTC)),
        (b'{"a":"2024-01-01T12:00:00"}', "a timestamp_ntz", datetime(2024, 1, 1, 12)),
        (b'{"a":123456789012345678901234567.89}', "a decimal(38,2)", Decimal("123456789012345678901234567.89")),
        (b'{"a":"0.10"}', "a decimal(9,2)", Decimal("0.10")),
        (b'{"a":1e2}', "a decimal(9,2)", Decimal("100.00")),
        (b'{"a":7.0}', "a int", 7),
        (b'[{"a":7}]', "a int", 7),
        (b'{"a":"2024-1-1T12:00"}', "a date", date(2024, 1, 1)),
        (b'{"a":"2024-01-01 12:00:00 Europe/Vienna"}', "a timestamp", datetime(2024, 1, 1, 11, tzinfo=UTC)),
        (rb'{"a":"x\ud83d"}', "a string", "x?"),
        (b'{"a":"-INF"}', "a double", float("-inf")),
        (b'{"a":12.50}', "a string", "12.50"),
        (b'{"a":true}', "a string", "true"),
        (b'{"a":{"x":[1.0,null,"\xc3\xbc"]}}', "a string", '{"x":[1.0,null,"\u00fc"]}'),
        (b'{"a":"aGk="}', "a binary", b"hi"),
        (b'{"a":{"x":1}}', "a map<string, int>", [("x", 1)]),
        (
            b'{"a":{"b":{"c":"2024-01-01"}}}',
            "a struct<b: struct<c: date, d: int>>",
            {"b": {"c": date(2024, 1, 1), "d": None}},
        ),
        (b'{"a":1,"a":2}', "a int", 2),
        (b'{"b":{"a":9}}', "a int", None),
        (b"{}", "a int", None),
        (b"null", "a int", None),
    ],
)
def test_json_value(line: bytes, ddl: str, value: Any) -> None:
    assert decode(JSON, line, ddl) == [{"a": value}]


@pytest.mark.parametrize(
    ("data", "ddl", "message"),
    [
        (b'{"a":1}\n\n{"a":"x"}\n', "a int", "row 2, column 'a': 'x'"),
        (b'{"a":300}', "a tinyint", "row 1, column 'a': '300'"),
        (b'{"a":1.5}', "a bigint", "row 1, column 'a': '1.5'"),
        (b'{"a":0.001}', "a decimal(9,2)", "row 1, column 'a': '0.001'"),
        (b'{"a":"2024-02-30"}', "a date", "row 1, column 'a': '2024-02-30'"),
        (b'{"a":"soon"}', "a timestamp", "row 1, column 'a': 'soon'"),
        (b'{"a":"2024-01-01T00:00:00Z"}', "a timestamp_ntz", "row 1, column 'a'"),
        (b'{"a":true}', "a decimal(9,2)", "row 1, column 'a'"),
        (b'{"a":"?"}', "a binary", "row 1, column 'a'"),
        (b'{"a":[1]}', "a struct<b: int>", "not an object"),
        (b'{"a":1}\n{"b":1}', "a int not null", "row 2: column 'a' is null but declared not null"),
        (b'{"a":1', "a int", "row 1 is not JSON"),
        (b'{"a":1}\n{"a":2', "a int", "row 2 is not JSON"),
        (b'[{"a":1},2]', "a int", "row 1 is not a JSON object"),
        (b'{"a":"\xff"}', "a string", "row 1 is not UTF-8"),
        ('{"a":1}'.encode("utf-16"), "a int", "not UTF-8"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "a string", "row 1 is not JSON"),
    ],
)
def test_json_error_names_the_row(data: bytes, ddl: str, message: str) -> None:
    with pytest.raises(DecodeError, match=message.replace("[", r"\[")):
        decode(JSON, data, ddl)


def test_a_first_line_of_null_does_not_crash_the_process() -> None:
    """pyarrow's own parser dies of it, so this runs in a process of its own."""
    program = (
        "import io, pyarrow as pa\n"
        "from volley_connectors.decoders.json_lines import *\n"
        "decoder = JsonLinesDecoder(JsonLinesDecoderConfig())\n"
        "print(len(list(decoder.decode(io.BytesIO(b'null\\nnull\\n'), pa.schema([('a', pa.int64())])))[0]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr


def test_json_rows_are_counted_across_blocks() -> None:
    decoder = JsonLinesDecoder(JsonLinesDecoderConfig(block_bytes=1024))
    lines = [json.dumps({"a": n}) for n in range(1000)] + ['{"a":"bad"}']
    with pytest.raises(DecodeError, match="row 1001,"):
        decode(decoder, "\n".join(lines).encode(), "a int")


def test_a_json_line_longer_than_a_block_is_read() -> None:
    decoder = JsonLinesDecoder(JsonLinesDecoderConfig(block_bytes=1024))
    text = "x" * 10_000
    data = b"\n".join([b'{"a":"short"}', json.dumps({"a": text}).encode(), b'{"a":"last"}'])
    assert [row["a"] for row in decode(decoder, data, "a string")] == ["short", text, "last"]


def test_json_with_mark_carriage_returns_and_blank_lines() -> None:
    assert decode(JSON, b'\xef\xbb\xbf{"a":1}\r\n\r\n  \n{"a":2}{"a":3}', "a int") == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_json_inference_follows_the_whole_file() -> None:
    decoder = JsonLinesDecoder(JsonLinesDecoderConfig(block_bytes=1024))
    lines = ['{"n":1,"t":"2024-01-01T00:00:00Z","z":null}'] * 100 + ['{"n":1.5,"late":[{"x":true}]}']
    schema = decoder.infer_schema(io.BytesIO("\n".join(lines).encode()))
    assert schema.equals(parse_schema("n double, t string, z string, late array<struct<x: boolean>>"))


def test_inference_of_mixed_types_asks_for_a_schema_or_fails_clearly() -> None:
    with pytest.raises(DecodeError, match="JSON lines"):
        JSON.infer_schema(io.BytesIO(b'{"a":1}\n{"a":"x"}\n'))


def test_csv_options() -> None:
    decoder = CsvDecoder(
        CsvDecoderConfig(delimiter=";", quote="'", null_values=["", "NULL"], encoding="latin-1", multiline=True)
    )
    data = "id;text\n1;'ü;\nsecond line'\nNULL;NULL\n".encode("latin-1")
    assert decode(decoder, data, "text string, id int") == [
        {"text": "ü;\nsecond line", "id": 1},
        {"text": None, "id": None},
    ]


def test_csv_without_header_takes_columns_in_order() -> None:
    decoder = CsvDecoder(CsvDecoderConfig(header=False))
    assert decode(decoder, b"1,x,extra\n2,y,extra\n", "a int, b string") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert decode(decoder, b"1\n", "a int, b string") == [{"a": 1, "b": None}]
    assert decoder.infer_schema(io.BytesIO(b"1,x\n")).equals(parse_schema("_c0 bigint, _c1 string"))


def test_csv_timestamps_with_and_without_zone_in_one_column() -> None:
    rows = decode(CSV, b"t\n2024-01-01T00:00:00Z\n2024-01-01 02:00:00\n2024-01-01T00:00:00.5+01:00\n", "t timestamp")
    assert [row["t"].isoformat() for row in rows] == [
        "2024-01-01T00:00:00+00:00",
        "2024-01-01T02:00:00+00:00",
        "2023-12-31T23:00:00.500000+00:00",
    ]


def test_csv_timestamps_of_many_spellings_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timestamps, "parse_timestamp", None)
    data = b"t\n2024-01-01T00:00:00.1234567Z\n2024-01-01 02:00:00.5\n\n2024-01-01T00:00:00+01:00\n2024-01-01\n"
    assert [row["t"].isoformat()[:26] for row in decode(CSV, data, "t timestamp")] == [
        "2024-01-01T00:00:00.123456",
        "2024-01-01T02:00:00.500000",
        "2023-12-31T23:00:00+00:00",
        "2024-01-01T00:00:00+00:00",
    ]


def test_a_csv_header_behind_many_comments_is_no_row_in_any_piece() -> None:
    decoder = CsvDecoder(CsvDecoderConfig(comment="#"))
    for mark in (b"", b"\xef\xbb\xbf"):
        data = mark + b"# a comment\n" * 50 + b"a,b\n" + b"".join(b"%d,x\n" % n for n in range(50))
        for size in (10, 100, 300, 599, 600, 603, 604, 607):
            pieces = decoder.cut(io.BytesIO(data), size)
            rows = [row for piece in pieces for row in decode(decoder.within(piece), data, "b string, a int")]
            assert rows == [{"b": "x", "a": n} for n in range(50)]


def test_a_piece_of_a_csv_in_another_encoding_is_transcoded() -> None:
    decoder = CsvDecoder(CsvDecoderConfig(encoding="utf-16"))
    data = "a,b\n1,ü\n".encode("utf-16")
    (piece,) = decoder.cut(io.BytesIO(data), 4)
    assert decode(decoder.within(piece), data, "b string") == [{"b": "ü"}]


def test_case_and_blanks_of_a_csv_header_do_not_count_where_no_name_fits_better() -> None:
    assert decode(CSV, b" ID ,a,A\n1,2,3\n", "id int, a int, A int") == [{"id": 1, "a": 2, "A": 3}]


@pytest.mark.parametrize("multiline", [False, True])
def test_a_quote_that_is_never_closed_swallows_no_line(multiline: bool) -> None:
    decoder = CsvDecoder(CsvDecoderConfig(multiline=multiline))
    with pytest.raises(DecodeError, match="never closed|line end"):
        decode(decoder, b'a,b\n1,x\n2,"y\n3,z\n', "a int, b string")
    assert decode(decoder, b'a,b\n1,5" pipe\n2,x\n', "a int, b string")[0]["b"] == '5" pipe'


@pytest.mark.parametrize(
    ("data", "ddl", "rows"),
    [
        (b"a,b,c\n1,x,y\nbad,x,y\n", "a int, b string", [(1, "x", '{"c":"y"}'), (None, "x", '{"c":"y","a":"bad"}')]),
        (b"a,b\n1,x,more\n2,z\n", "a int, b string", [(1, "x", '{"_c2":"more"}'), (2, "z", None)]),
        (b"a,b\n1\n2,z\n", "a int, b string", [(1, None, None), (2, "z", None)]),
        (b'a,b\n1,"x\n2,z\n', "a int, b string", [(None, None, '{"_corrupt_record":"1,\\"x"}'), (2, "z", None)]),
        (b"a,b\n300,\xff\n", "a tinyint, b string", [(None, None, '{"_corrupt_record":"300,\ufffd"}')]),
        (b"a\n12345678\n1\n", "a decimal(9,2)", [(None, '{"a":"12345678"}'), (Decimal("1.00"), None)]),
    ],
)
def test_csv_rescue(data: bytes, ddl: str, rows: list[Any]) -> None:
    bad: list[BadRecord] = []
    schema = parse_schema(ddl + ", more string")
    how = BadRecords(bad.append, extras="more", rescue=True)
    found = [row for batch in CSV.decode_tolerantly(io.BytesIO(data), schema, how) for row in batch.to_pylist()]
    assert [tuple(row.values()) for row in found] == rows
    assert len(bad) == 1


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b'[{"a":1},\n {"a":\n2}]\n', [1, 2]),
        (b'{"a":\n7}', [7]),
        (b" [ ] ", []),
        (b"", []),
        (b'[{"a":"x\\ny"}, {"a":null}]', None),
        (b'[{"a":1},]', None),
        (b'[{"a":1}', None),
        (b'[{"a":1}] {"a":2}', None),
        (b"[1]", None),
    ],
)
def test_a_json_document(data: bytes, rows: list[int] | None) -> None:
    decoder = JsonLinesDecoder(JsonLinesDecoderConfig(multiline=True, block_bytes=1024))
    if rows is None:
        with pytest.raises(DecodeError):
            decode(decoder, data, "a int")
    else:
        assert [row["a"] for row in decode(decoder, data, "a int")] == rows


def test_csv_decimals_keep_every_digit() -> None:
    assert decode(CSV, b"d\n12345678901234567890.12\n", "d decimal(38,2)") == [
        {"d": Decimal("12345678901234567890.12")}
    ]


def test_a_quoted_empty_value_is_null_as_with_spark() -> None:
    assert decode(CSV, b'a,b\n"1",""\n', "a int, b int") == [{"a": 1, "b": None}]


@pytest.mark.parametrize(
    ("data", "ddl", "message"),
    [
        (b"a,b\n1\n", "a int", "Expected 2 columns, got 1"),
        (b"a,b\n1,2,3\n", "a int", "Expected 2 columns, got 3"),
        (b"a\nx\n", "a int", "invalid value 'x'"),
        (b"a\nsoon\n", "a timestamp", "column 'a'"),
        (b"a\n\xff\n", "a string", "UTF8"),
        (b"a\n1\n", "a array<int>", "column 'a': CSV cannot hold"),
        (b"b\n1\n", "a int not null", "column 'a' is declared not null"),
    ],
)
def test_csv_error_says_what_is_wrong(data: bytes, ddl: str, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode(CSV, data, ddl)


@pytest.mark.parametrize("data", [b"", b"\n", b"a\n", b"a"])
def test_csv_without_rows_gives_no_rows(data: bytes) -> None:
    assert decode(CSV, data, "a int") == []


def test_an_unknown_encoding_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="no such encoding"):
        decode(CsvDecoder(CsvDecoderConfig(encoding="latin-99")), b"a\n1\n", "a int")


def parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def test_parquet_is_cast_to_the_schema() -> None:
    table = pa.table(
        {
            "narrow": pa.array([1, None], pa.int16()),
            "nanos": pa.array([1_500, None], pa.timestamp("ns")),
            "words": pa.array(["x", None]).dictionary_encode(),
            "more": pa.array([{"x": 1, "gone": 2}, None]),
        }
    )
    rows = decode(
        PARQUET, parquet(table), "words string, narrow bigint, nanos timestamp_ntz, more struct<x: bigint, y: string>"
    )
    moment = datetime(1970, 1, 1, 0, 0, 0, 1)
    assert rows[0] == {"words": "x", "narrow": 1, "nanos": moment, "more": {"x": 1, "y": None}}
    assert rows[1] == {"words": None, "narrow": None, "nanos": None, "more": None}


def test_parquet_rows_are_counted_even_if_no_column_is_wanted() -> None:
    assert decode(PARQUET, parquet(pa.table({"a": [1, 2, 3]})), "z string") == [{"z": None}] * 3


@pytest.mark.parametrize("cut", [0, 3, 20, -1])
def test_a_damaged_parquet_file_is_refused(cut: int) -> None:
    with pytest.raises(DecodeError, match="Parquet"):
        decode(PARQUET, parquet(pa.table({"a": [1, 2, 3]}))[:cut], "a int")


def test_inferred_schemas_hold_only_types_that_spark_has() -> None:
    table = pa.table(
        {
            "u": pa.array([1], pa.uint64()),
            "l": pa.array([["x"]], pa.large_list(pa.large_string())),
            "t": pa.array([1], pa.timestamp("ns", tz="Europe/Vienna")),
            "c": pa.array([1], pa.time64("us")),
            "f": pa.array([b"ab"], pa.binary(2)),
        }
    )
    schema = PARQUET.infer_schema(io.BytesIO(parquet(table)))
    assert schema.equals(parse_schema("u decimal(20, 0), l array<string>, t timestamp, c string, f binary"))
    assert next(iter(PARQUET.decode(io.BytesIO(parquet(table)), schema))).num_rows == 1


def avro(schema: Any, rows: list[Any], codec: str = "null") -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, schema, rows, codec=codec)
    return file.getvalue()


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def test_avro_types() -> None:
    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [{"name": "u", "type": {"type": "string", "logicalType": "uuid"}}],
    }
    schema = record(
        ("first", inner),
        ("again", ["null", "Inner"]),
        ("pairs", {"type": "map", "values": "Inner"}),
        ("colour", {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}),
        ("four", {"type": "fixed", "name": "Four", "size": 4}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
        ("number", ["float", "double"]),
        ("moment", {"type": "long", "logicalType": "timestamp-millis"}),
    )
    one, two = UUID(int=1), UUID(int=2)
    row = {
        "first": {"u": one},
        "again": {"u": two},
        "pairs": {"k": {"u": one}},
        "colour": "BLUE",
        "four": b"abcd",
        "price": Decimal("1.10"),
        "number": 5.0,
        "moment": datetime(2024, 1, 1, tzinfo=UTC),
    }
    data = avro(schema, [row, row], "deflate")
    found = AVRO.infer_schema(io.BytesIO(data))
    assert found.equals(
        parse_schema(
            "first struct<u: string>, again struct<u: string>, pairs map<string, struct<u: string>>, colour string, "
            "four binary, price decimal(10, 2), number double, moment timestamp"
        )
    )
    (batch,) = AVRO.decode(io.BytesIO(data), found)
    assert batch.to_pylist()[1] == row | {
        "first": {"u": str(one)},
        "again": {"u": str(two)},
        "pairs": [("k", {"u": str(one)})],
    }


def test_avro_reads_only_what_is_asked_for_and_widens() -> None:
    data = avro(record(("a", "int"), ("b", "string")), [{"a": 1, "b": "x"}])
    assert decode(AVRO, data, "c string, a bigint") == [{"c": None, "a": 1}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "Avro"),
        (b"no avro at all", "Avro"),
        (avro(record(("a", "int")), [{"a": n} for n in range(100)])[:-5], "Avro"),
        (avro("int", [1, 2]), "not records"),
        (avro(record(("a", ["string", "int"])), [{"a": 1}]), "member0"),
        (
            avro(record(("a", ["null", "Row"])), [{"a": None}]),
            "holds itself",
        ),
    ],
    ids=["empty", "garbage", "cut", "single values", "union", "recursive"],
)
def test_avro_that_cannot_be_read_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode(AVRO, data, "a int")


@pytest.mark.parametrize(("package", "kind"), [("datafusion", "int"), ("fastavro", ["int", "string"])])
def test_avro_without_a_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch, package: str, kind: Any) -> None:
    data = avro(record(("a", kind)), [{"a": 1}])
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"{package}.*pip install 'volley-connectors\[file-formats\]'"):
        decode(AVRO, data, "a int")


@pytest.mark.parametrize("name", ["json", "csv", "parquet", "avro", "orc", "arrow"])
def test_decoders_are_found_by_name(name: str) -> None:
    assert build("decoders", name, {}).infer_schema is not None


def test_decoder_options_come_as_text() -> None:
    decoder = build("decoders", "csv", {"delimiter": "|", "nullValues": "-,none", "header": "false"})
    assert decode(decoder, b"1|-\n", "a int, b string") == [{"a": 1, "b": None}]
