"""Schemas in Spark's DDL."""

from __future__ import annotations

import pyarrow as pa
import pytest

from volley_core.conformance import NASTY
from volley_core.schema import format_schema, parse_schema

LIST = pa.list_(pa.field("element", pa.string()))


@pytest.mark.parametrize(
    ("ddl", "schema"),
    [
        ("id bigint", pa.schema([("id", pa.int64())])),
        ("id: bigint", pa.schema([("id", pa.int64())])),
        ("ID BIGINT, Name STRING", pa.schema([("ID", pa.int64()), ("Name", pa.string())])),
        ("id int not null", pa.schema([pa.field("id", pa.int32(), nullable=False)])),
        ("id int NOT NULL COMMENT 'it is'", pa.schema([pa.field("id", pa.int32(), nullable=False)])),
        ("id int comment 'a, b > c'", pa.schema([("id", pa.int32())])),
        ("a byte, b short, c integer, d long", None),
        ("t timestamp, n timestamp_ntz", pa.schema([("t", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us"))])),
        ("d decimal, e decimal(5), f dec(38, 18)", None),
        ("v varchar(10), c char(3)", pa.schema([("v", pa.string()), ("c", pa.string())])),
        ("tags array<string>", pa.schema([("tags", LIST)])),
        ("m map<string, array<string>>", pa.schema([("m", pa.map_(pa.string(), LIST))])),
        ("s struct<a: int, b struct<c: string>>", None),
        ("s struct<>", pa.schema([("s", pa.struct([]))])),
        ("`odd name` int, `with``tick` int", pa.schema([("odd name", pa.int32()), ("with`tick", pa.int32())])),
        ("  id\n  bigint ,\n  name string  ", pa.schema([("id", pa.int64()), ("name", pa.string())])),
    ],
)
def test_ddl_is_read(ddl: str, schema: pa.Schema | None) -> None:
    found = parse_schema(ddl)
    assert schema is None or found.equals(schema)
    assert parse_schema(format_schema(found)).equals(found)


def test_types_that_have_two_names_are_the_same() -> None:
    assert parse_schema("a byte, b short, c integer, d long, e real").types == [
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
    ]


def test_decimals_have_sparks_defaults() -> None:
    expected = [pa.decimal128(10, 0), pa.decimal128(5, 0), pa.decimal128(38, 18)]
    assert parse_schema("d decimal, e decimal(5), f numeric(38, 18)").types == expected


def test_struct_fields_keep_their_nullability() -> None:
    kind = parse_schema("s struct<a: int not null, b: string>").field("s").type
    assert [field.nullable for field in kind] == [False, True]


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("", "the schema is empty"),
        ("   ", "the schema is empty"),
        ("id", "ends too early"),
        ("id bigin", "unknown type 'bigin'"),
        ("id bigint,", "ends too early"),
        (", id bigint", "a column's name"),
        ("id bigint name string", "expected ','"),
        ("id bigint, id string", "column 'id' appears twice"),
        ("s struct<a: int, a: int>", "'a' appears twice"),
        ("a array<string", "ends too early"),
        ("a array string", "expected '<'"),
        ("m map<string>", "expected ','"),
        ("id bigint; drop", "unexpected ';"),
        ("id int not", "ends too early"),
        ("id int not nil", "expected 'null'"),
        ("id int comment", "ends too early"),
        ("d decimal(x)", "decimal"),
        ("d decimal(39, 0)", "decimal"),
        ("d decimal(5, 6)", "decimal"),
        ("d decimal(0)", "decimal"),
        ("`open int", "unexpected '`open"),
    ],
)
def test_wrong_ddl_is_a_value_error_that_says_where(ddl: str, problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_schema(ddl)
    assert problem in str(caught.value)


def test_an_arrow_schema_is_given_back_as_it_is() -> None:
    schema = pa.schema([("id", pa.int64())])
    assert parse_schema(schema) is schema


@pytest.mark.parametrize("kind", [pa.uint64(), pa.time64("us"), pa.duration("s"), pa.float16(), pa.null()])
def test_a_type_that_spark_lacks_cannot_be_written_as_ddl(kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match="has no counterpart in Spark"):
        format_schema(pa.schema([("x", kind)]))


def test_large_types_are_written_as_their_plain_ones() -> None:
    schema = pa.schema([("s", pa.large_string()), ("b", pa.large_binary()), ("l", pa.large_list(pa.int32()))])
    assert format_schema(schema) == "s string, b binary, l array<int>"


@pytest.mark.parametrize("name", NASTY)
def test_nasty_schemas_round_trip(name: str) -> None:
    ddl = format_schema(NASTY[name].schema)
    found = parse_schema(ddl)
    assert found.names == NASTY[name].schema.names
    assert format_schema(found) == ddl
