"""Which tables and columns a query may write to: refused when it starts, by name, with both sides."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from volley_delta import DeltaSinkConfig

from tests.servers.judges.delta import DeltaJudge
from tests.servers.judges.judgement import multiset
from volley_core import ConfigError, EpochContext, SinkError, TransientError

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": pa.array(["a", None])})


def made_otherwise(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A table as another writer makes it: each action of its first commit is changed."""
    DeltaTable.create(path, ROWS.schema)
    (log,) = (path / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        change(action)
    log.write_text("\n".join(map(json.dumps, actions)))


def in_configuration(**properties: str) -> Callable[[dict[str, Any]], None]:
    def change(action: dict[str, Any]) -> None:
        if "metaData" in action:
            action["metaData"]["configuration"] |= {key.replace("__", "."): value for key, value in properties.items()}

    return change


def in_column(**metadata: Any) -> Callable[[dict[str, Any]], None]:
    def change(action: dict[str, Any]) -> None:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][0]["metadata"] = {key.replace("__", "."): value for key, value in metadata.items()}
            action["metaData"]["schemaString"] = json.dumps(schema)

    return change


def with_feature(name: str) -> Callable[[dict[str, Any]], None]:
    def change(action: dict[str, Any]) -> None:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [name]}

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (in_configuration(delta__columnMapping__mode="name"), "column mapping"),
        (in_configuration(delta__constraints__positive="id > 0"), "CHECK constraint 'positive'"),
        (in_column(delta__generationExpression="1"), "generated column ('id')"),
        (in_column(delta__identity__start=1), "identity column ('id')"),
        (in_column(delta__invariants='{"expression":{"expression":"id > 0"}}'), "invariant ('id')"),
        (in_column(CURRENT_DEFAULT="1"), "column default ('id')"),
        (with_feature("rowTracking"), "'rowTracking'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_that_asks_more_of_writers_is_refused_by_name(
    writes: Callable[..., Any], path: Path, change: Callable[[dict[str, Any]], None], named: str
) -> None:
    made_otherwise(path, change)
    with pytest.raises(ConfigError) as refused:
        writes().sink().prepare(ROWS.schema)
    assert named in str(refused.value)
    with pytest.raises(ConfigError):
        writes().epoch(0, ROWS)
    assert DeltaTable(path).version() == 0


def test_a_table_that_changed_while_the_query_ran_is_refused_too(writes: Callable[..., Any], path: Path) -> None:
    writes().epoch(0, ROWS)
    message = writes().task(1, ROWS)
    DeltaTable(path).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ConfigError, match="CHECK constraint 'positive'"):
        writes().driver(1, message).on_checkpoint(1)


def test_not_null_is_kept(delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path) -> None:
    DeltaTable.create(path, pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())]))
    writes().epoch(0, ROWS)
    with pytest.raises(SinkError, match="NOT NULL columns for which this epoch has nulls: id"):
        writes().epoch(1, pa.table({"id": pa.array([3, None], pa.int64())}))
    assert delta_judge.read(path).multiset() == multiset(ROWS.to_pylist())
    with pytest.raises(ConfigError, match="'id' is NOT NULL, and the query lacks it"):
        writes().sink().prepare(pa.schema([("name", pa.string())]))


def test_another_schema_is_refused_with_both_sides(writes: Callable[..., Any], path: Path) -> None:
    writes().epoch(0, ROWS)
    with pytest.raises(ConfigError) as refused:
        writes().sink().prepare(pa.schema([("id", pa.string()), ("NAME", pa.string()), ("more", pa.int8())]))
    for said in (
        "'id' is int64 in the table, string in the query",
        "'NAME' is 'name' in the table",
        "'more' is new",
        "table: id bigint, name string",
        "query: id string, NAME string, more tinyint",
    ):
        assert said in str(refused.value)


def test_another_partitioning_is_refused_with_both_sides(writes: Callable[..., Any], path: Path) -> None:
    writes(partition_by=["name"]).epoch(0, ROWS)
    with pytest.raises(ConfigError, match=r"(?s)table: name\n.*query: not at all\n.*'partition_by'"):
        writes().sink().prepare(ROWS.schema)


def test_a_column_that_the_query_lacks_is_null_and_one_that_the_table_lacks_is_added(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path
) -> None:
    writes().epoch(0, ROWS)
    wider = pa.table({"id": pa.array([3]), "tags": [["x"]]})
    for _ in range(2):
        writes(merge_schema=True).sink().prepare(wider.schema)
    writes().epoch(1, wider)
    assert delta_judge.read(path).multiset() == multiset(
        [
            {"id": 1, "name": "a", "tags": None},
            {"id": 2, "name": None, "tags": None},
            {"id": 3, "name": None, "tags": ["x"]},
        ]
    )


def test_a_schema_that_does_not_fit_otherwise_is_not_merged(writes: Callable[..., Any], path: Path) -> None:
    writes().epoch(0, ROWS)
    with pytest.raises(ConfigError, match="'id' is int64"):
        writes(merge_schema=True).sink().prepare(pa.schema([("id", pa.string()), ("new", pa.int8())]))
    assert [field.name for field in DeltaTable(path).schema().fields] == ["id", "name"]


def test_a_table_is_made_only_if_that_is_wanted(writes: Callable[..., Any], path: Path) -> None:
    with pytest.raises(ConfigError, match="create_if_missing is false"):
        writes(create_if_missing=False).sink().prepare(ROWS.schema)
    properties = {"delta.logRetentionDuration": "interval 60 days"}
    writes(table_properties=properties, partition_by=["name"]).sink().prepare(ROWS.schema)
    metadata = DeltaTable(path).metadata()
    assert (metadata.configuration, metadata.partition_columns) == (properties, ["name"])


def test_an_append_only_table_is_not_replaced(writes: Callable[..., Any], path: Path) -> None:
    writes(table_properties={"delta.appendOnly": "true"}).epoch(0, ROWS)
    sink = writes().sink()
    sink.begin(EpochContext("batch", 0, streaming=False, replace=True))
    with pytest.raises(ConfigError, match="append-only"):
        sink.prepare(ROWS.schema)


def test_columns_that_came_in_another_order_are_stored_by_name(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path
) -> None:
    DeltaTable.create(path, Schema([Field("name", PrimitiveType("string")), Field("id", PrimitiveType("long"))]))
    writes().epoch(0, ROWS)
    assert delta_judge.read(path).multiset() == multiset(ROWS.to_pylist())


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint8(),
        pa.uint64(),
        pa.float16(),
        pa.timestamp("ns", "UTC"),
        pa.time64("us"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal256(50),
        pa.date64(),
        pa.null(),
        pa.struct([]),
        pa.list_(pa.uint16()),
        pa.struct([("a", pa.map_(pa.string(), pa.float16()))]),
    ],
    ids=str,
)
def test_a_column_that_readers_would_misread_is_refused_by_name(writes: Callable[..., Any], kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match="column 'odd': "):
        writes().sink().prepare(pa.schema([("id", pa.int64()), ("odd", kind)]))


@pytest.mark.parametrize("uri", ["nowhere://lake/events", "s3://lake/events"])
def test_a_store_that_cannot_be_used_is_an_error_of_ours(writes: Callable[..., Any], uri: str) -> None:
    # Nobody listens there.
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "key", "AWS_ALLOW_HTTP": "true"}
    options |= {"AWS_REGION": "us-east-1", "max_retries": "1"}
    sink = writes(table_uri=uri, storage_options=options, storage_secrets={"AWS_SECRET_ACCESS_KEY": "hush"}).sink()
    with pytest.raises(TransientError if uri.startswith("s3") else ConfigError) as refused:
        sink.prepare(ROWS.schema)
    assert uri in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("schema", "partition_by", "said"),
    [
        ({"a b": pa.int8()}, [], "column 'a b'"),
        ({"a": pa.int8(), "A": pa.int8()}, [], "differs at most by case"),
        ({"a": pa.int8()}, ["b"], "names 'b', which is no column"),
        ({"a": pa.int8(), "b": pa.float64()}, ["b"], "partition column 'b' is double"),
        ({"a": pa.int8()}, ["a"], "names every column"),
        ({"a": pa.int8(), "b": pa.int8()}, ["a", "a"], "names a column twice"),
    ],
)
def test_names_and_partitions_that_cannot_work_are_refused(
    writes: Callable[..., Any], schema: dict[str, pa.DataType], partition_by: list[str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        writes(partition_by=partition_by).sink().prepare(pa.schema(schema))


def test_a_secret_is_given_where_nobody_prints_it() -> None:
    with pytest.raises(ConfigError, match=r"AWS_SECRET_ACCESS_KEY is secret; give it in 'storage_secrets'") as refused:
        DeltaSinkConfig("s3://lake/t", storage_options={"AWS_SECRET_ACCESS_KEY": "hush"})
    config = DeltaSinkConfig("s3://lake/t", storage_secrets={"AWS_SECRET_ACCESS_KEY": "hush"})
    assert "hush" not in f"{refused.value} {config!r} {config}"
    assert DeltaSinkConfig.from_options(config.to_options()) == config
