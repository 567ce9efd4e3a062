"""What tasks write: how many files, where they lie, and what the log says about them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.servers.judges.delta import DeltaJudge
from tests.servers.judges.judgement import multiset

NAN = float("nan")
COLUMNS: dict[str, tuple[pa.DataType, Any, Any]] = {
    "small": (pa.int8(), -3, 100),
    "big": (pa.int64(), -(2**63), 2**63 - 1),
    "price": (
        pa.decimal128(38, 18),
        Decimal("-0.000000000000000001"),
        Decimal("99999999999999999999.123456789012345678"),
    ),
    "day": (pa.date32(), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "moment": (
        pa.timestamp("us", "UTC"),
        dt.datetime(1899, 10, 4, 0, 0, 0, 1, dt.UTC),
        dt.datetime(2026, 1, 1, 23, 59, 59, 999999, dt.UTC),
    ),
    "clock": (pa.timestamp("us"), dt.datetime(1899, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 0, 999999)),
    "text": (pa.string(), "ä", "\U0001f600"),
    "long": (pa.string(), "w" * 40, "x" * 32 + "\U0010ffff" * 3),
}


def table(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


def adds(path: Path) -> list[dict[str, Any]]:
    """The add actions of all commits."""
    lines = [line for log in sorted(path.glob("_delta_log/*.json")) for line in log.read_text().splitlines()]
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_reader_skips_files_by_statistics_and_loses_no_row(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path, column: str
) -> None:
    kind, low, high = COLUMNS[column]
    for epoch, values in enumerate(([low, None], [high])):
        writes().epoch(epoch, pa.table({"v": pa.array(values, kind)}))
    for value in (low, high):
        found = delta_judge.read(path, where=("v", "=", value))
        assert (found.multiset(), found.skipped) == (multiset([{"v": value}]), 1)
    assert delta_judge.read(path, where=("v", "is null")).skipped == 1


def test_rows_with_nan_are_found(delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path) -> None:
    """Spark sorts NaN above everything, Parquet's statistics leave it out."""
    writes().epoch(0, table(v=[1.0, NAN, None], w=[[0.5], [NAN], None]))
    (add,) = adds(path)
    assert json.loads(add["stats"]) == {"numRecords": 3, "minValues": {}, "maxValues": {}, "nullCount": {"v": 1}}
    found = delta_judge.read(path, where=("v", "is not null"))
    assert found.multiset() == multiset([{"v": 1.0, "w": [0.5]}, {"v": NAN, "w": [NAN]}])
    assert delta_judge.read(path, where=("v", ">", 1000.0)).multiset() == multiset([{"v": NAN, "w": [NAN]}])


def test_statistics_of_structs_are_nested_and_those_of_lists_left_out(writes: Callable[..., Any], path: Path) -> None:
    rows = [{"s": {"a": 1, "l": [9], "t": {"b": "x"}}}, {"s": {"a": None, "l": [], "t": None}}]
    writes().epoch(0, pa.Table.from_pylist(rows))
    (add,) = adds(path)
    assert json.loads(add["stats"]) == {
        "numRecords": 2,
        "minValues": {"s": {"a": 1, "t": {"b": "x"}}},
        "maxValues": {"s": {"a": 1, "t": {"b": "x"}}},
        "nullCount": {"s": {"a": 1, "t": {"b": 1}}},
    }


def test_a_bound_of_a_long_text_is_short_and_above(writes: Callable[..., Any], path: Path) -> None:
    writes().epoch(0, table(v=["x" * 100]))
    stats = json.loads(adds(path)[0]["stats"])
    assert (stats["minValues"]["v"], stats["maxValues"]["v"]) == ("x" * 32, "x" * 32 + "\U0010ffff")


def test_partitions_of_any_spelling_are_read_and_pruned(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path
) -> None:
    texts = ["plain", "a/b", "a=b %20", "ü 日本 \U0001f600", "q\"'*:?\\{[]^#", "tab\tline\n\x7f", "..", " lead", None]
    rows = pa.table({"id": pa.array(range(len(texts))), "p": pa.array(texts)})
    writes(partition_by=["p"]).epoch(0, rows)
    assert delta_judge.read(path).multiset() == multiset(rows.to_pylist())
    for number, text in enumerate(texts):
        where = ("p", "is null") if text is None else ("p", "=", text)
        found = delta_judge.read(path, where=where)
        assert ([row["id"] for row in found.rows], found.skipped) == ([number], len(texts) - 1)
    folders = {folder.name for folder in path.iterdir()}
    assert {"p=a%2Fb", "p=a%3Db %2520", "p=tab%09line%0A%7F", "p=__HIVE_DEFAULT_PARTITION__"} <= folders


def test_partitions_of_every_type_are_read(delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path) -> None:
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3]),
            "b": pa.array([True, False, None]),
            "t": pa.array([-128, 127, None], pa.int8()),
            "l": pa.array([2**63 - 1, None, 0]),
            "d": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
        }
    )
    writes(partition_by=["d", "b", "t", "l"]).epoch(0, rows)
    assert delta_judge.read(path).multiset() == multiset(rows.to_pylist())


def test_an_empty_partition_value_is_read_as_null(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path
) -> None:
    writes(partition_by=["p"]).epoch(0, table(id=[1, 2], p=["", None]))
    assert delta_judge.read(path).multiset() == multiset([{"id": 1, "p": None}, {"id": 2, "p": None}])


def test_many_small_batches_make_one_file_per_task_and_partition(writes: Callable[..., Any], path: Path) -> None:
    batches = [table(id=[n], p=[n % 3]) for n in range(500)]
    writes(partition_by=["p"], max_records=7).epoch(0, *batches)
    assert sorted(json.loads(add["stats"])["numRecords"] for add in adds(path)) == [166, 167, 167]


def test_files_end_near_the_target_size_and_hold_every_row(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path
) -> None:
    batches = [table(id=[*range(first, first + 1000)]) for first in range(0, 20_000, 1000)]
    writes(target_file_size=20_000, max_records=1000, compression="none").epoch(0, *batches)
    sizes = [add["size"] for add in adds(path)]
    assert len(sizes) > 3
    assert all(20_000 <= size < 50_000 for size in sizes[:-1])
    assert sorted(row["id"] for row in delta_judge.read(path).rows) == [*range(20_000)]
    assert [file.stat().st_size for add in adds(path) for file in [path / add["path"]]] == sizes


def test_moments_of_any_zone_are_stored_in_utc(delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path) -> None:
    moment = dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)
    writes().epoch(0, pa.table({"v": pa.array([moment], pa.timestamp("ms", "Europe/Vienna"))}))
    assert delta_judge.read(path).rows == [{"v": moment}]


def test_the_first_and_the_last_moment_are_written_as_iso_says(writes: Callable[..., Any], path: Path) -> None:
    first, last = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
    zoned = pa.array([first.replace(tzinfo=dt.UTC), last.replace(tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    writes().epoch(0, pa.table({"moment": zoned, "clock": pa.array([first, last], pa.timestamp("us"))}))
    stats = json.loads(adds(path)[0]["stats"])
    assert stats["minValues"] == {"moment": "0001-01-01T00:00:00.000000Z", "clock": "0001-01-01T00:00:00.000000"}
    assert stats["maxValues"] == {"moment": "9999-12-31T23:59:59.999999Z", "clock": "9999-12-31T23:59:59.999999"}
