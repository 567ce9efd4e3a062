"""Avro against fastavro, which writes the files and judges the rows."""

from __future__ import annotations

import datetime as dt
import io
import json
import random
import uuid
from decimal import Decimal
from itertools import pairwise
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from volley_connectors.decoders.avro import AvroDecoder, AvroDecoderConfig
from volley_connectors.decoders.avro_container import varint
from volley_connectors.decoders.avro_schema import native_schema, parse
from volley_core import BadRecord, BadRecords, ConfigError, DecodeError
from volley_core.schema import parse_schema

AVRO = AvroDecoder(AvroDecoderConfig(block_bytes="16 KiB"))
CODECS = ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"]


def write(schema: Any, rows: list[Any], codec: str = "null", sync_interval: int = 16_000) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, schema, rows, codec=codec, sync_interval=sync_interval)
    return file.getvalue()


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def table(data: bytes, schema: pa.Schema | None = None, decoder: AvroDecoder = AVRO) -> pa.Table:
    schema = schema or decoder.infer_schema(io.BytesIO(data))
    batches = list(decoder.decode(io.BytesIO(data), schema))
    assert all(batch.schema.equals(schema) for batch in batches)
    return pa.Table.from_batches(batches, schema)


def is_native(schema: Any) -> bool:
    return native_schema(parse(schema)) is not None


class Generator:
    """Random schemas, and values for them; and what such a value is in Arrow."""

    def __init__(self, seed: int, native: bool) -> None:
        self.random = random.Random(seed)
        self.native = native
        self.names = 0

    def record(self, depth: int = 3) -> dict[str, Any]:
        count = self.random.randint(1, 5)
        return self.named("record", fields=[{"name": f"f{i}", "type": self.kind(depth - 1)} for i in range(count)])

    def named(self, kind: str, **more: Any) -> dict[str, Any]:
        self.names += 1
        return {"type": kind, "name": f"N{self.names}", **more}

    def kind(self, depth: int) -> Any:
        plain = ["boolean", "int", "long", "float", "double", "bytes", "string"]
        makers = [lambda: self.random.choice(plain), self.logical, self.small_named]
        if depth > 0:
            makers += [
                lambda: self.record(depth),
                lambda: {"type": "array", "items": self.kind(depth - 1)},
                lambda: {"type": "map", "values": self.kind(depth - 1)},
                lambda: self.nullable(depth),
            ]
            makers += [] if self.native else [self.union, lambda: "null"]
        return self.random.choice(makers)()

    def nullable(self, depth: int) -> Any:
        inner = self.kind(depth - 1)
        while isinstance(inner, list) or inner == "null":
            inner = self.kind(depth - 1)
        return self.random.choice([["null", inner], [inner, "null"]])

    def union(self) -> Any:
        others = {"type": "array", "items": "double"}
        numbers = [["int", "long"], ["null", "long", "int"], ["double", "float"]]
        return self.random.choice([*numbers, ["string", "null", "long", "boolean"], ["bytes", others], ["null"]])

    def small_named(self) -> Any:
        if self.random.random() < 0.5:
            return self.named("enum", symbols=["RED", "GREEN", "BLUE"])
        return self.named("fixed", size=self.random.randint(1, 9))

    def logical(self) -> Any:
        precision = self.random.randint(1, 38)
        decimal = {"logicalType": "decimal", "precision": precision, "scale": self.random.randint(0, precision)}
        kinds = [{"type": base, "logicalType": name} for base, name in LOGICAL]
        kinds += [{"type": "bytes", **decimal}, self.named("fixed", size=17, **decimal)]
        kinds += [self.named("fixed", size=12, logicalType="duration")]
        return self.random.choice(kinds)

    def value(self, kind: Any) -> Any:
        pick = self.random
        if isinstance(kind, list):
            # What fastavro would write as another member than the one meant.
            return 0.5 if "double" in kind else self.value(pick.choice(kind))
        name = kind if isinstance(kind, str) else kind["type"]
        logical = None if isinstance(kind, str) else kind.get("logicalType")
        if logical == "decimal":
            digits = pick.randrange(10 ** kind["precision"]) * pick.choice([1, -1])
            return Decimal(f"{digits}E-{kind['scale']}")
        if logical in VALUES:
            return VALUES[logical](pick)
        if name == "record":
            return {field["name"]: self.value(field["type"]) for field in kind["fields"]}
        if name == "array":
            return [self.value(kind["items"]) for _ in range(pick.randint(0, 3))]
        if name == "map":
            return {f"key {i} ü": self.value(kind["values"]) for i in range(pick.randint(0, 3))}
        if name == "enum":
            return pick.choice(kind["symbols"])
        return pick.randbytes(kind["size"]) if name == "fixed" else PLAIN[name](pick)


LOGICAL = [
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "timestamp-nanos"),
    ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"),
    ("long", "local-timestamp-nanos"),
    ("string", "uuid"),
    ("int", "unheard-of"),
]


def _moment(pick: random.Random) -> dt.datetime:
    return dt.datetime(1, 1, 2) + dt.timedelta(microseconds=pick.randrange(9998 * 365 * 86_400_000_000))


def _time(pick: random.Random) -> dt.time:
    return dt.time(pick.randrange(24), pick.randrange(60), pick.randrange(60), pick.randrange(1_000_000))


VALUES: dict[str, Any] = {
    "date": lambda pick: _moment(pick).date(),
    "time-millis": _time,
    "time-micros": _time,
    "timestamp-millis": lambda pick: _moment(pick).replace(tzinfo=dt.UTC),
    "timestamp-micros": lambda pick: _moment(pick).replace(tzinfo=dt.UTC),
    "timestamp-nanos": lambda pick: pick.randrange(-(2**62), 2**62),
    "local-timestamp-millis": _moment,
    "local-timestamp-micros": _moment,
    "local-timestamp-nanos": lambda pick: pick.randrange(-(2**62), 2**62),
    "uuid": lambda pick: uuid.UUID(int=pick.getrandbits(128)),
}
PLAIN: dict[str, Any] = {
    "null": lambda pick: None,
    "boolean": lambda pick: pick.random() < 0.5,
    "int": lambda pick: pick.choice([0, -1, 2**31 - 1, -(2**31), pick.randrange(1000)]),
    "long": lambda pick: pick.choice([0, -1, 2**63 - 1, -(2**63), pick.randrange(10**12)]),
    "float": lambda pick: pick.choice([0.5, -1.25, float("inf"), 2.0**100]),
    "double": lambda pick: pick.choice([pick.random(), float("-inf"), 1e300]),
    "bytes": lambda pick: pick.randbytes(pick.randrange(20)),
    "string": lambda pick: pick.choice(["", "ü 👩", "text\0", "x" * 300]),
}


def expected(kind: Any, value: Any) -> Any:
    """What fastavro read, as the decoder is to give it."""
    if isinstance(kind, list):
        return _expected_member(kind, value)
    name = kind if isinstance(kind, str) else kind["type"]
    logical = None if isinstance(kind, str) else kind.get("logicalType")
    if logical in ("time-millis", "time-micros"):
        return value.isoformat("milliseconds" if logical == "time-millis" else "microseconds")
    if logical in ("timestamp-nanos", "local-timestamp-nanos"):
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(value / Decimal(1000)))
        return moment.replace(tzinfo=dt.UTC) if logical == "timestamp-nanos" else moment
    if logical == "uuid":
        return str(value)
    if name == "record":
        return {field["name"]: expected(field["type"], value[field["name"]]) for field in kind["fields"]}
    if name == "array":
        return [expected(kind["items"], item) for item in value]
    if name == "map":
        return [(key, expected(kind["values"], item)) for key, item in value.items()]
    return value


def _expected_member(kind: list[Any], value: Any) -> Any:
    members = [member for member in kind if member != "null"]
    if value is None or not members:
        return None
    if len(members) == 1:
        return expected(members[0], value)
    if set(map(str, members)) in ({"int", "long"}, {"double", "float"}):
        return value
    fits = {"string": str, "long": int, "boolean": bool, "bytes": bytes}
    wanted = [
        type(value) is fits.get(member, list) if isinstance(member, str) else type(value) is list for member in members
    ]
    return {f"member{i}": value if there else None for i, there in enumerate(wanted)}


@pytest.mark.parametrize("seed", range(60))
def test_generated_rows_are_what_fastavro_reads(seed: int) -> None:
    generator = Generator(seed, native=seed % 2 == 0)
    schema = generator.record()
    rows = [generator.value(schema) for _ in range(generator.random.choice([0, 1, 50, 400]))]
    data = write(schema, rows, CODECS[seed % len(CODECS)], sync_interval=generator.random.choice([1, 500, 16_000]))
    judged = [expected(schema, row) for row in fastavro.reader(io.BytesIO(data))]
    assert table(data).to_pylist() == judged
    # So that both readers are really tried.
    assert is_native(schema) or seed % 2


def test_both_readers_read_every_codec() -> None:
    for codec in CODECS:
        for kind in ("string", ["string", "int"]):
            schema = record(("id", "long"), ("text", kind))
            data = write(schema, [{"id": i, "text": f"text {i}"} for i in range(3000)], codec)
            assert table(data).column("id").to_pylist() == list(range(3000))
            assert is_native(schema) == (kind == "string")


def test_a_type_that_is_defined_once_may_be_used_again() -> None:
    inner = {"type": "record", "name": "Point", "namespace": "a.b", "fields": [{"name": "x", "type": "int"}]}
    schema = record(("p", inner), ("q", ["null", "a.b.Point"]), ("r", {"type": "array", "items": "a.b.Point"}))
    row = {"p": {"x": 1}, "q": {"x": 2}, "r": [{"x": 3}]}
    assert table(write(schema, [row])).to_pylist() == [row]


def test_names_are_found_in_the_namespace_around_them() -> None:
    inner = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
    outer = {
        "type": "record",
        "name": "x.y.Row",
        "fields": [{"name": "a", "type": inner}, {"name": "b", "type": "Colour"}],
    }
    assert table(write(outer, [{"a": "RED", "b": "RED"}])).to_pylist() == [{"a": "RED", "b": "RED"}]


def test_a_uuid_of_bytes_is_text() -> None:
    value = uuid.UUID(int=7)
    kind = {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}
    data = write(record(("id", {"type": "fixed", "name": "Id", "size": 16})), [{"id": value.bytes}])
    assert table(with_schema(data, record(("id", kind)))).to_pylist() == [{"id": str(value)}]


def test_a_type_that_holds_itself_does_not_hinder_the_other_columns() -> None:
    data = write(record(("a", "int"), ("next", ["null", "Row"])), [{"a": 1, "next": {"a": 2, "next": None}}])
    assert table(data, parse_schema("a int")).to_pylist() == [{"a": 1}]
    with pytest.raises(DecodeError, match="holds itself"):
        AVRO.infer_schema(io.BytesIO(data))


def test_rows_of_nothing_are_counted() -> None:
    data = write({"type": "record", "name": "Row", "fields": []}, [{}] * 5)
    assert table(data, parse_schema("a int")).to_pylist() == [{"a": None}] * 5


def test_values_are_fitted_into_the_schema_that_is_asked_for() -> None:
    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [{"name": "x", "type": "int"}, {"name": "gone", "type": "int"}],
    }
    data = write(
        record(("i", "int"), ("f", "float"), ("r", inner), ("t", {"type": "long", "logicalType": "timestamp-millis"})),
        [{"i": 5, "f": 0.5, "r": {"x": 1, "gone": 2}, "t": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}],
    )
    schema = parse_schema("t timestamp, i decimal(10, 2), f double, r struct<y: string, x: bigint>, z string")
    assert table(data, schema).to_pylist() == [
        {
            "t": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            "i": Decimal("5.00"),
            "f": 0.5,
            "r": {"y": None, "x": 1},
            "z": None,
        }
    ]


# Files that are not as they were written.


def with_schema(data: bytes, schema: Any) -> bytes:
    """The same blocks below another schema."""
    marker = data[-16:]
    blocks = data[data.index(marker) + 16 :]
    return header(schema, marker) + blocks


def header(schema: Any, marker: bytes) -> bytes:
    text = json.dumps(schema).encode()
    return b"Obj\x01" + varint(1) + varint(11) + b"avro.schema" + varint(len(text)) + text + b"\0" + marker


def block_ends(data: bytes) -> list[int]:
    """Where the header ends, and each block."""
    marker, ends, at = data[-16:], [], 0
    while (at := data.find(marker, at)) >= 0:
        at += 16
        ends.append(at)
    return ends


SMALL = record(("id", "long"), ("text", ["null", "string"]))
SMALL_ROWS = [{"id": i, "text": None if i % 3 else f"text {i}"} for i in range(40)]


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_that_ends_too_early_is_refused(codec: str) -> None:
    """At a block's end it is a whole file of fewer blocks, which nothing tells from one that was written so."""
    data = write(SMALL, SMALL_ROWS, codec, sync_interval=40)
    ends = block_ends(data)
    assert len(ends) > 4
    for size in range(len(data)):
        if size in ends:
            assert table(data[:size], parse_schema("id bigint")).num_rows < len(SMALL_ROWS)
        else:
            with pytest.raises(DecodeError):
                table(data[:size], parse_schema("id bigint"))


@pytest.mark.parametrize("codec", ["null", "snappy"])
def test_a_wrong_marker_is_refused(codec: str) -> None:
    data = write(SMALL, SMALL_ROWS, codec, sync_interval=40)
    for end in block_ends(data)[1:]:
        for byte in (end - 16, end - 1):
            with pytest.raises(DecodeError, match="sync marker"):
                table(_flipped(data, byte), parse_schema("id bigint"))


@pytest.mark.parametrize("kind", [["null", "string"], ["null", "string", "int"]], ids=["native", "row by row"])
def test_any_wrong_byte_of_a_block_with_a_checksum_is_found(kind: Any) -> None:
    schema = record(("id", "long"), ("text", kind))
    data = write(schema, SMALL_ROWS, "snappy", sync_interval=400)
    for byte in range(block_ends(data)[0], len(data)):
        with pytest.raises(DecodeError):
            table(_flipped(data, byte), parse_schema("id bigint"))


@pytest.mark.parametrize("kind", [["null", "string"], ["null", "string", "int"]], ids=["native", "row by row"])
@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_any_wrong_byte_at_all_gives_all_rows_or_a_decode_error(kind: Any, codec: str) -> None:
    """Without a checksum a value may come out changed, but no row is lost, and no other error is raised."""
    data = write(record(("id", "long"), ("text", kind)), SMALL_ROWS, codec, sync_interval=400)
    refused = 0
    for byte in range(len(data)):
        try:
            assert table(_flipped(data, byte), parse_schema("id bigint")).num_rows == len(SMALL_ROWS)
        except DecodeError:
            refused += 1
    assert refused


def _flipped(data: bytes, byte: int) -> bytes:
    return data[:byte] + bytes([data[byte] ^ 0x55]) + data[byte + 1 :]


@pytest.mark.parametrize("kind", ["string", ["string", "int"]], ids=["native", "row by row"])
@pytest.mark.parametrize(("count", "more"), [(2, b""), (4, b""), (3, b"\0"), (3, b"\2\2x"), (2**40, b"")])
def test_a_block_of_more_or_less_than_its_records_is_refused(kind: Any, count: int, more: bytes) -> None:
    """datafusion loops for ever over bytes behind the last record."""
    schema, file = record(("text", kind)), io.BytesIO()
    for number in range(3):
        fastavro.schemaless_writer(file, schema, {"text": f"text {number}"})
    block, marker = file.getvalue() + more, b"0123456789abcdef"
    data = header(schema, marker) + varint(count) + varint(len(block)) + block + marker
    with pytest.raises(DecodeError, match="Avro"):
        table(data)


@pytest.mark.parametrize("size", [2**62, -1])
def test_a_size_that_is_a_lie_is_refused(size: int) -> None:
    data = header(SMALL, b"0" * 16) + varint(1) + varint(size) + b"abc"
    with pytest.raises(DecodeError, match="Avro"):
        table(data)


def test_text_that_is_no_utf8_is_refused() -> None:
    data = with_schema(write(record(("a", "bytes")), [{"a": b"\xff\xfe"}]), record(("a", "string")))
    with pytest.raises(DecodeError):
        table(data)


@pytest.mark.parametrize(
    "schema", [{"type": "record"}, {"type": "record", "name": "R", "fields": [{}]}, 5, "Unknown", []]
)
def test_a_schema_that_is_none_is_refused(schema: Any) -> None:
    with pytest.raises(DecodeError, match="Avro"):
        table(header(schema, b"0" * 16))


# Pieces.


def test_random_pieces_give_the_rows_of_the_whole() -> None:
    pick = random.Random(5)
    data = write(SMALL, SMALL_ROWS * 20, "deflate", sync_interval=300)
    whole = table(data).to_pylist()
    for _ in range(100):
        middle = sorted(pick.randrange(len(data)) for _ in range(pick.randint(0, 12)))
        bounds = [0, *middle, len(data)]
        pieces = [AVRO.within(piece) for piece in pairwise(bounds)]
        assert [row for piece in pieces for row in table(data, decoder=piece).to_pylist()] == whole


def test_a_wrong_marker_is_found_by_one_of_the_pieces_wherever_it_is() -> None:
    data = write(SMALL, SMALL_ROWS, sync_interval=40)
    for end in block_ends(data)[1:]:
        broken = _flipped(data, end - 5)
        for first in range(end - 40, end + 4, 3):
            refused = 0
            for piece in ((0, first), (first, len(data))):
                try:
                    table(broken, parse_schema("id bigint"), AVRO.within(piece))
                except DecodeError:
                    refused += 1
            assert refused


# Bad records.


@pytest.mark.parametrize("kind", ["string", ["string", "boolean"]], ids=["native", "row by row"])
def test_a_value_that_does_not_fit_costs_its_record_alone(kind: Any) -> None:
    schema = record(
        ("a", "string"), ("price", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2})
    )
    schema["fields"].append({"name": "other", "type": kind})
    texts = ["1", "x", "3", "4"]
    prices = [Decimal("1.50"), Decimal(2), Decimal("123456789.00"), Decimal("-1.00")]
    data = write(schema, [{"a": a, "price": p, "other": "o"} for a, p in zip(texts, prices, strict=True)])
    found: list[BadRecord] = []
    asked = parse_schema("a int, price decimal(8, 2)")
    (batch,) = AVRO.decode_tolerantly(io.BytesIO(data), asked, BadRecords(found.append))
    assert batch.to_pylist() == [{"a": 1, "price": Decimal("1.50")}, {"a": 4, "price": Decimal("-1.00")}]
    assert [(record.row, json.loads(record.raw)["price"]) for record in found] == [(2, "2.00"), (3, "123456789.00")]
    assert "'a'" in found[0].error
    assert "'price'" in found[1].error


# A schema to read with.


def evolved(schema: Any, **options: Any) -> AvroDecoder:
    return AvroDecoder(AvroDecoderConfig(reader_schema=json.dumps(schema), **options))


def test_a_reader_schema_brings_defaults_aliases_and_wider_types() -> None:
    written = record(
        ("id", "int"),
        ("old", "string"),
        ("colour", {"type": "enum", "name": "Colour", "symbols": ["RED", "PINK"]}),
        ("inner", {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}),
        ("gone", "string"),
    )
    asked = {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "new", "aliases": ["old"], "type": "string"},
            {"name": "id", "type": "long"},
            {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED"], "default": "RED"}},
            {
                "name": "inner",
                "type": {
                    "type": "record",
                    "name": "Inner",
                    "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": "string", "default": "why"}],
                },
            },
            {"name": "added", "type": ["null", "int"], "default": None},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        ],
    }
    row = {"id": 7, "old": "text", "colour": "PINK", "inner": {"x": 1}, "gone": "g"}
    data = write(written, [row] * 3, "deflate")
    decoder = evolved(asked)
    found = table(data, decoder=decoder)
    # fastavro gives the default of a logical type as it is written.
    judged = [row | {"day": dt.date(1970, 1, 2)} for row in fastavro.reader(io.BytesIO(data), asked)]
    assert found.to_pylist() == judged
    assert found.to_pylist()[2]["new"] == "text"
    assert found.schema.field("inner").type == pa.struct([("x", pa.float64()), ("y", pa.string())])


def test_a_reader_schema_that_a_file_cannot_be_resolved_against_is_refused() -> None:
    data = write(record(("a", "string")), [{"a": "x"}])
    with pytest.raises(DecodeError, match="Avro"):
        table(data, decoder=evolved(record(("a", "int"))))
    with pytest.raises(DecodeError, match="Avro"):
        table(data, decoder=evolved(record(("a", "string"), ("b", "int"))))


def test_a_reader_schema_of_the_same_bytes_says_what_they_mean() -> None:
    data = write(record(("at", "long")), [{"at": 1}])
    moment = {"type": "long", "logicalType": "timestamp-micros"}
    (row,) = table(data, decoder=evolved(record(("at", moment)))).to_pylist()
    assert row["at"] == dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize("text", ["{", '"int"', '{"type": "record", "name": "R"}', '{"type": "array", "items": "int"}'])
def test_a_reader_schema_must_be_one(text: str) -> None:
    with pytest.raises(ConfigError, match="reader_schema"):
        AvroDecoderConfig(reader_schema=text)
