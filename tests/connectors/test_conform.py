"""Batches get exactly the declared schema, at no cost where they have it already."""

from __future__ import annotations

import pyarrow as pa
import pytest

from volley_connectors.conform import Conform, check_schema
from volley_core import ConfigError, DecodeError

DECLARED = pa.schema([pa.field("id", pa.int64(), nullable=False), ("at", pa.timestamp("us", tz="UTC"))])


def test_a_batch_that_has_the_schema_passes_as_the_same_object():
    batch = pa.record_batch([[1], pa.array([None], pa.timestamp("us", tz="UTC"))], schema=DECLARED)
    assert Conform(DECLARED, "x")(batch) is batch


def test_columns_are_cast_ordered_and_left_out():
    batch = pa.record_batch(
        [pa.array([5], pa.timestamp("us", tz="America/New_York")), pa.array([7], pa.int32()), ["extra"]],
        names=["at", "id", "more"],
    )
    result = Conform(DECLARED, "x")(batch)
    assert result.schema.equals(DECLARED)
    assert result.column("at").cast(pa.int64()).to_pylist() == [5]
    assert result.column("id").to_pylist() == [7]


def test_only_nullability_differs_so_no_byte_is_copied():
    batch = pa.record_batch(
        [pa.array([1, 2], pa.int64()), pa.array([1, 2], pa.timestamp("us", tz="UTC"))], names=["id", "at"]
    )
    result = Conform(DECLARED, "x")(batch)
    assert result.schema.equals(DECLARED)
    assert result.column(0).buffers()[1].address == batch.column(0).buffers()[1].address


def test_each_schema_that_comes_along_is_handled():
    conform = Conform(pa.schema([("id", pa.int64())]), "x")
    for kind in (pa.int32(), pa.int64(), pa.int16(), pa.int64()):
        assert conform(pa.record_batch([pa.array([3], kind)], names=["id"])).column(0).type == pa.int64()


def test_nested_timestamps_are_cast_too():
    declared = pa.schema([("s", pa.struct([("t", pa.list_(pa.field("element", pa.timestamp("us", tz="UTC"))))]))])
    given = pa.struct([("t", pa.list_(pa.field("element", pa.timestamp("us", tz="Asia/Tokyo"))))])
    batch = pa.record_batch([pa.array([{"t": [1, None]}, None], given)], names=["s"])
    assert Conform(declared, "x")(batch).schema.equals(declared)


def test_null_in_a_column_declared_not_null_is_refused():
    batch = pa.record_batch([pa.array([1, None], pa.int64()), pa.nulls(2, DECLARED.field(1).type)], names=["id", "at"])
    with pytest.raises(DecodeError, match="acme: column 'id' is declared not null but 1 of 2 values are null"):
        Conform(DECLARED, "acme")(batch)


def test_a_value_that_does_not_fit_is_refused_and_not_wrapped_around():
    conform = Conform(pa.schema([("id", pa.int8())]), "acme")
    with pytest.raises(DecodeError, match="acme: rows do not fit"):
        conform(pa.record_batch([[1000]], names=["id"]))


def test_a_missing_column_is_named_with_a_guess():
    with pytest.raises(ConfigError, match="column 'id' is declared but not in the data. Did you mean 'idd'"):
        Conform(DECLARED, "acme")(pa.record_batch([[1]], names=["idd"]))


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (pa.schema([("nme", pa.string())]), "column 'nme' is declared .* Did you mean 'name'"),
        (pa.schema([("name", pa.list_(pa.int8()))]), "'name' is declared as list.* but the source gives string"),
    ],
)
def test_a_declared_schema_that_cannot_work_is_refused_before_any_row(declared, problem):
    with pytest.raises(ConfigError, match=problem):
        check_schema(declared, pa.schema([("name", pa.string())]), "acme")


def test_a_declared_schema_that_only_narrows_is_fine():
    check_schema(pa.schema([("a", pa.int64())]), pa.schema([("b", pa.string()), ("a", pa.int32())]), "acme")
