"""The judges themselves: they see every value, every tag and what was skipped, and nothing that they cannot read."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import OAuthError, UnauthorizedError
from pyiceberg.table import Table

from tests.servers import aws, iceberg_rest
from tests.servers.judges.delta import DeltaJudge
from tests.servers.judges.iceberg import IcebergJudge
from tests.servers.judges.judgement import JudgementError, multiset

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "id": (pa.int64(), [2**63 - 1, -(2**63), 0]),
    "truth": (pa.bool_(), [True, False, None]),
    "byte": (pa.int8(), [127, -128, None]),
    "short": (pa.int16(), [2**15 - 1, -(2**15), None]),
    "int": (pa.int32(), [2**31 - 1, -(2**31), None]),
    "float": (pa.float32(), [0.1, float("nan"), None]),
    "double": (pa.float64(), [-0.0, float("-inf"), None]),
    "decimal": (pa.decimal128(38, 10), [Decimal("1.5"), Decimal("-9999999999999999999999999999.9999999999"), None]),
    "text": (pa.string(), ["", "Zoë \U0001f600\n\"'\\", None]),
    "binary": (pa.binary(), [b"", b"\x00\xff", None]),
    "date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), None]),
    "moment": (
        pa.timestamp("us", "UTC"),
        [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2026, 1, 1, tzinfo=UTC), None],
    ),
    "clock": (pa.timestamp("us"), [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2026, 1, 1), None]),
    "list": (pa.list_(pa.int32()), [[1, None, 3], [], None]),
    "map": (pa.map_(pa.string(), pa.float64()), [[("a", 1.5), ("b", None)], [], None]),
    "struct": (
        pa.struct({"x": pa.int32(), "y": pa.list_(pa.string())}),
        [{"x": 1, "y": ["z"]}, {"x": None, "y": None}, None],
    ),
    "nested": (
        pa.list_(pa.struct({"when": pa.date32()})),
        [[{"when": date(2026, 1, 2)}, None], [{"when": None}], None],
    ),
    "part": (pa.string(), ["a/b=c %", None, "x"]),
}
TABLE = pa.table({name: pa.array(values, type) for name, (type, values) in TYPES.items()})


# Iceberg has no integers of 8 and 16 bits, and PyIceberg's `append` makes a list of structs that is null an empty one.
ICEBERG_TABLE = TABLE.drop_columns(["byte", "short", "nested"])


def numbers(*values: int | None) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def test_every_type_is_read_as_it_was_written(delta_judge: DeltaJudge, tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, TABLE, partition_by=["part"])
    judgement = delta_judge.read(tmp_path)
    assert judgement.multiset() == multiset(TABLE.to_pylist())
    assert [field["name"] for field in judgement.schema["fields"]] == TABLE.column_names
    assert judgement.partition_columns == ["part"]
    assert (len(judgement.files), judgement.skipped) == (3, 0)


def test_rows_that_were_deleted_are_gone_except_from_the_version_before(
    delta_judge: DeltaJudge, tmp_path: Path
) -> None:
    deltalake.write_deltalake(tmp_path, numbers(1, 2, 2, None))
    deltalake.DeltaTable(tmp_path).delete("n = 2")
    assert delta_judge.read(tmp_path).multiset() == multiset([{"n": 1}, {"n": None}])
    before = delta_judge.read(tmp_path, version=0)
    assert (before.version, before.multiset()) == (0, multiset([{"n": 1}, {"n": 2}, {"n": 2}, {"n": None}]))


def test_the_newest_transaction_of_every_application_is_told(delta_judge: DeltaJudge, tmp_path: Path) -> None:
    for version in (1, 2):
        transactions = [deltalake.Transaction(app, version + extra) for app, extra in (("one", 0), ("two", 40))]
        properties = deltalake.CommitProperties(app_transactions=transactions)
        deltalake.write_deltalake(tmp_path, numbers(1), mode="append", commit_properties=properties)
    assert delta_judge.read(tmp_path).transactions == {"one": 2, "two": 42}
    deltalake.DeltaTable(tmp_path).create_checkpoint()
    assert delta_judge.read(tmp_path).transactions == {"one": 2, "two": 42}


# Not `decimal`, whose statistics delta-rs rounds, and not `clock`, for which it writes what Kernel cannot parse.
@pytest.mark.parametrize(
    ("column", "low", "high"),
    [(name, *TYPES[name][1][:2]) for name in ("id", "short", "text", "date", "moment")],
)
def test_a_condition_skips_files_by_their_statistics(
    delta_judge: DeltaJudge, tmp_path: Path, column: str, low: Any, high: Any
) -> None:
    for value in (low, high):
        deltalake.write_deltalake(tmp_path, pa.table({"v": pa.array([value], TYPES[column][0])}), mode="append")
    judgement = delta_judge.read(tmp_path, where=("v", "=", high))
    assert (judgement.multiset(), judgement.skipped) == (multiset([{"v": high}]), 1)


def test_a_condition_on_nothing_prunes_partitions(delta_judge: DeltaJudge, tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, TABLE, partition_by=["part"])
    judgement = delta_judge.read(tmp_path, where=("part", "is null"))
    assert ([row["part"] for row in judgement.rows], judgement.skipped) == ([None], 2)


def test_rows_that_wrong_statistics_hide_are_missing(delta_judge: DeltaJudge, tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, numbers(5))
    (log,) = (tmp_path / "_delta_log").glob("*.json")
    log.write_text(log.read_text().replace(r"\"maxValues\":{\"n\":5}", r"\"maxValues\":{\"n\":4}"))
    assert delta_judge.read(tmp_path).rows == [{"n": 5}]
    assert delta_judge.read(tmp_path, where=("n", "=", 5)).rows == []


def test_rows_of_a_file_that_is_read_must_meet_the_condition_too(delta_judge: DeltaJudge, tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, numbers(1, 5, None, 9))
    assert [row["n"] for row in delta_judge.read(tmp_path, where=("n", ">=", 5)).rows] == [5, 9]


def test_a_table_that_misses_a_file_is_an_error_and_the_next_one_is_read(
    delta_judge: DeltaJudge, tmp_path: Path
) -> None:
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    for folder in (broken, whole):
        deltalake.write_deltalake(folder, numbers(1))
    (file,) = broken.glob("*.parquet")
    file.unlink()
    with pytest.raises(JudgementError, match=file.name):
        delta_judge.read(broken)
    assert delta_judge.read(whole).rows == [{"n": 1}]


@pytest.mark.parametrize("broken", ["no folder", "no table", "a log cut off", "a file cut off"])
def test_what_is_no_table_is_an_error(delta_judge: DeltaJudge, tmp_path: Path, broken: str) -> None:
    folder = tmp_path / "table"
    if broken == "no table":
        folder.mkdir()
    elif broken != "no folder":
        deltalake.write_deltalake(folder, numbers(1))
        (file,) = folder.glob("*.parquet" if broken == "a file cut off" else "_delta_log/*.json")
        file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(JudgementError):
        delta_judge.read(folder)


def iceberg_table(catalog: Catalog, data: pa.Table, partition: str | None = None) -> Table:
    """A new table with this in it, in a namespace of its own."""
    namespace = f"n{uuid.uuid4().hex}"
    catalog.create_namespace(namespace)
    table = catalog.create_table(f"{namespace}.t", data.schema)
    if partition:
        with table.update_spec() as update:
            update.add_identity(partition)
    table.append(data, snapshot_properties={"test.epoch": "1"})
    return table


@pytest.fixture
def catalog(iceberg_rest: str) -> Catalog:
    return RestCatalog("test", uri=iceberg_rest)


def test_every_type_of_iceberg_is_read_as_it_was_written(iceberg_judge: IcebergJudge, catalog: Catalog) -> None:
    table = iceberg_table(catalog, ICEBERG_TABLE, "part")
    judgement = iceberg_judge.read(table.metadata_location)
    assert judgement.multiset() == multiset(ICEBERG_TABLE.to_pylist())
    assert [field["name"] for field in judgement.schema["fields"]] == ICEBERG_TABLE.column_names
    assert judgement.partition_columns == ["part"]
    assert (len(judgement.files), judgement.skipped) == (3, 0)


def test_snapshots_and_properties_of_an_iceberg_table_are_told(iceberg_judge: IcebergJudge, catalog: Catalog) -> None:
    table = iceberg_table(catalog, numbers(1, 2, None))
    first = table.metadata.current_snapshot_id
    table.delete("n = 2")
    with table.transaction() as transaction:
        transaction.set_properties({"test.tag": "7"})
    now, before = (iceberg_judge.read(table.metadata_location, snapshot=at) for at in (None, first))
    assert now.multiset() == multiset([{"n": 1}, {"n": None}])
    assert (before.version, before.multiset()) == (first, multiset([{"n": 1}, {"n": 2}, {"n": None}]))
    assert now.properties["test.tag"] == "7"
    assert [snapshot.get("test.epoch") for snapshot in now.snapshots] == [None, "1"]


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [(name, *TYPES[name][1][:2]) for name in ("id", "decimal", "text", "binary", "date", "moment", "clock")],
)
def test_a_condition_skips_files_of_iceberg_by_their_statistics(
    iceberg_judge: IcebergJudge, catalog: Catalog, column: str, low: Any, high: Any
) -> None:
    one, other = (pa.table({"v": pa.array([value], TYPES[column][0])}) for value in (low, high))
    table = iceberg_table(catalog, one)
    table.append(other)
    judgement = iceberg_judge.read(table.metadata_location, where=("v", "=", high))
    assert (judgement.multiset(), judgement.skipped) == (multiset([{"v": high}]), 1)


def test_an_iceberg_table_without_a_snapshot_is_empty(iceberg_judge: IcebergJudge, catalog: Catalog) -> None:
    catalog.create_namespace("empty")
    table = catalog.create_table("empty.t", ICEBERG_TABLE.schema)
    with table.update_spec() as update:
        update.add_field("moment", "day").add_field("id", "bucket[16]")
    judgement = iceberg_judge.read(table.metadata_location)
    assert (judgement.version, judgement.rows, judgement.files) == (-1, [], [])
    assert judgement.partition_columns == ["day(moment)", "bucket[16](id)"]


def test_an_iceberg_table_that_misses_a_file_is_an_error(iceberg_judge: IcebergJudge, catalog: Catalog) -> None:
    metadata = iceberg_table(catalog, numbers(1)).metadata_location
    (file,) = iceberg_judge.read(metadata).files
    Path(file.removeprefix("file://")).unlink()
    for missing, name in ((metadata, Path(file).name), ("file:///nowhere/metadata.json", "nowhere")):
        with pytest.raises(JudgementError, match=name):
            iceberg_judge.read(missing)


@pytest.fixture
def guarded(moto: str, tmp_path: Path) -> Iterator[str]:
    """A catalog that asks for a credential and keeps its tables in S3."""
    aws.client("s3", moto).create_bucket(Bucket="lake")
    with iceberg_rest.serve(tmp_path, credential="some:one&", warehouse="s3://lake/w", io=s3(moto)) as address:
        yield address


def s3(endpoint: str) -> dict[str, str]:
    return {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": aws.KEYS["region"],
        "s3.endpoint": endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": aws.KEYS["access_key_id"],
        "s3.secret-access-key": aws.KEYS["secret_access_key"],
    }


def test_a_catalog_may_ask_for_a_credential_and_keep_its_tables_in_s3(
    iceberg_judge: IcebergJudge, guarded: str, moto: str
) -> None:
    tokens = f"{guarded}/v1/oauth/tokens"
    for wrong in ({}, {"token": "no"}, {"credential": "some:two", "oauth2-server-uri": tokens}):
        with pytest.raises((UnauthorizedError, OAuthError)):
            RestCatalog("test", uri=guarded, **wrong)
    options = {
        "s3.endpoint": moto,
        "s3.region": "us-east-1",
        **{key: s3(moto)[key] for key in s3(moto) if "key" in key},
    }
    catalog = RestCatalog("test", uri=guarded, credential="some:one&", **{"oauth2-server-uri": tokens}, **options)
    table = iceberg_table(catalog, numbers(1, 2))
    assert table.metadata_location.startswith("s3://lake/w/")
    assert iceberg_judge.read(table.metadata_location, properties=s3(moto)).rows == [{"n": 1}, {"n": 2}]
