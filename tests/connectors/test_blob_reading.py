"""What a task makes of objects: columns from the path and about the object, bad records, dead letters, reports."""

from __future__ import annotations

import gzip
import json
import pickle
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from volley_blob_store_local import FilesSource, FilesSourceConfig

from volley_connectors import hooks
from volley_connectors.blob.reports import Reports
from volley_connectors.state import StateStore
from volley_core import ConfigError, DecodeError, ReadLimit, SchemaChangedError

Read = Callable[..., pa.Table]
GOOD = '{"id": 1}\n{"id": 2}\n'
BAD = '{"id": 1}\n{"id": "x"}\nnonsense\n{"id": 4}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def make(folder: Path, tmp_path: Path) -> Iterator[Callable[..., FilesSource]]:
    made: list[FilesSource] = []

    def make(**options: Any) -> FilesSource:
        settings = {"path": str(folder), "schema": "id bigint", "state_location": str(tmp_path / "state")} | options
        made.append(FilesSource(FilesSourceConfig(**{key: value for key, value in settings.items() if value != ""})))
        return made[-1]

    yield make
    for source in made:
        source.close()


@pytest.fixture
def read(make: Callable[..., FilesSource]) -> Read:
    return lambda committed=0, **options: read_all(make(**options), committed)


def read_all(source: FilesSource, committed: int = 0) -> pa.Table:
    start = {"manifest": committed}
    end = source.latest_offset(start, ReadLimit())
    batches = [
        record.batch for split in source.splits(start, end) for record in source.read(pickle.loads(pickle.dumps(split)))
    ]
    # The epoch is committed: now its reports are told.
    source.latest_offset(end, ReadLimit())
    return pa.Table.from_batches(batches, source.schema())


def letters(tmp_path: Path) -> list[dict[str, Any]]:
    return pq.read_table(tmp_path / "dead").to_pylist() if (tmp_path / "dead").exists() else []


def test_partition_columns_come_from_the_path_with_the_types_of_the_schema(folder: Path, read: Read) -> None:
    for day, country in (("2024-01-02", "de"), ("2024-01-03", "__HIVE_DEFAULT_PARTITION__")):
        place = folder / f"day={day}" / f"country={country}"
        place.mkdir(parents=True)
        (place / "a.json").write_text(GOOD)
    rows = read(schema="id bigint, day date, country string").to_pylist()
    assert sorted((str(row["day"]), row["country"] or "", row["id"]) for row in rows) == [
        ("2024-01-02", "de", 1),
        ("2024-01-02", "de", 2),
        ("2024-01-03", "", 1),
        ("2024-01-03", "", 2),
    ]


def test_partition_columns_are_inferred_and_unescaped(folder: Path, read: Read) -> None:
    (folder / "year=2024" / "code=007" / "name=a%2Fb").mkdir(parents=True)
    (folder / "year=2024" / "code=007" / "name=a%2Fb" / "x.json").write_text('{"id": 1}\n')
    table = read(schema="")
    assert table.schema == pa.schema(
        [("id", pa.int64()), ("year", pa.int32()), ("code", pa.string()), ("name", pa.string())]
    )
    assert table.to_pylist() == [{"id": 1, "year": 2024, "code": "007", "name": "a/b"}]


def test_partition_columns_can_be_turned_off(folder: Path, read: Read) -> None:
    (folder / "id=9").mkdir()
    (folder / "id=9" / "a.json").write_text('{"id": 1}\n')
    assert read(partition_columns=[]).to_pylist() == [{"id": 1}]


def test_a_path_that_does_not_fit_its_column_is_a_corrupt_object(folder: Path, read: Read) -> None:
    (folder / "day=soon").mkdir()
    (folder / "day=soon" / "a.json").write_text(GOOD)
    with pytest.raises(DecodeError, match="day=soon, which is not of type date"):
        read(schema="id bigint, day date")
    assert read(schema="id bigint, day date", on_corrupt_file="skip", state_location="", delivery="at-least-once") == (
        pa.table({"id": pa.array([], pa.int64()), "day": pa.array([], pa.date32())})
    )


def test_metadata_tells_where_each_row_stood(folder: Path, read: Read) -> None:
    (folder / "a.json").write_text(GOOD)
    (folder / "b.json").write_text(GOOD)
    rows = read(include_metadata=True, format_options={"block_bytes": 1024}).to_pylist()
    facts = [row["_metadata"] for row in rows]
    assert [(fact["file_name"], fact["row_index"]) for fact in facts] == [
        ("a.json", 0),
        ("a.json", 1),
        ("b.json", 0),
        ("b.json", 1),
    ]
    assert facts[0]["file_path"] == str(folder / "a.json")
    assert facts[0]["file_size"] == len(GOOD)
    assert facts[0]["file_modification_time"].timestamp() == pytest.approx(
        (folder / "a.json").stat().st_mtime, abs=0.01
    )
    assert facts[0]["message_id"] is None
    assert facts[0]["event_time"] is None


def test_the_row_index_goes_on_over_batches(folder: Path, read: Read) -> None:
    (folder / "a.json").write_text("".join(f'{{"id": {number}}}\n' for number in range(1000)))
    rows = read(include_metadata=True, format_options={"block_bytes": 1024}).to_pylist()
    assert [row["_metadata"]["row_index"] for row in rows] == [row["id"] for row in rows] == list(range(1000))


def test_by_default_a_bad_record_ends_the_query_and_says_what_else_could_be_done(folder: Path, read: Read) -> None:
    (folder / "a.json").write_text(BAD)
    with pytest.raises(DecodeError, match=r"a\.json.*row 2.*'on_corrupt_file' is set to 'skip', or 'on_bad_record'"):
        read()


def test_dropped_records_do_not_cost_their_neighbours(folder: Path, read: Read, tmp_path: Path) -> None:
    (folder / "a.json").write_text(BAD)
    assert read(on_bad_record="drop")["id"].to_pylist() == [1, 4]
    (report,) = Reports(StateStore(str(tmp_path / "state"))).read(1)
    assert (report.rows, report.bad, report.state) == (2, 2, "read")
    assert report.error.startswith("row 2")


def test_rescued_values_stand_beside_the_nulls_that_they_left(folder: Path, read: Read) -> None:
    (folder / "a.json").write_text(BAD + '{"id": 5, "new": [1]}\n')
    rows = read(on_bad_record="rescue").to_pylist()
    assert [row["id"] for row in rows] == [1, None, None, 4, 5]
    rescued = [row["_rescued_data"] and json.loads(row["_rescued_data"]) for row in rows]
    assert rescued == [None, {"id": "x"}, {"_corrupt_record": "nonsense"}, None, {"new": [1]}]


def test_dead_letters_hold_the_bad_records_once_also_after_a_replay(
    folder: Path, make: Callable[..., FilesSource], tmp_path: Path
) -> None:
    (folder / "a.json").write_text(BAD)
    (folder / "b.json").write_text(GOOD)
    options = {"on_bad_record": "dead_letter", "dead_letter_path": str(tmp_path / "dead")}
    source = make(**options)
    assert sorted(read_all(source)["id"].to_pylist()) == [1, 1, 2, 4]
    (split,) = make(**options).splits({"manifest": 0}, {"manifest": 1})
    assert sum(record.num_rows for record in make(**options).read(split)) == 4
    found = letters(tmp_path)
    assert [(row["raw"], row["row"], row["epoch"]) for row in found] == [(b'{"id": "x"}', 2, 1), (b"nonsense", 3, 1)]
    assert {row["object"] for row in found} == {str(folder / "a.json")}
    assert all(row["error"] and row["time"] for row in found)


def test_two_queries_may_share_a_place_for_dead_letters(folder: Path, read: Read, tmp_path: Path) -> None:
    (folder / "a.json").write_text(BAD)
    options = {"on_bad_record": "dead_letter", "dead_letter_path": str(tmp_path / "dead")}
    read(**options)
    read(**options, state_location=str(tmp_path / "other"))
    assert len(letters(tmp_path)) == 4


def test_a_corrupt_object_becomes_a_dead_letter_whole(folder: Path, read: Read, tmp_path: Path) -> None:
    (folder / "a.parquet").write_bytes(b"PAR1 not really")
    dead = {"on_corrupt_file": "dead_letter", "dead_letter_path": str(tmp_path / "dead")}
    assert read(format="parquet", **dead).num_rows == 0
    (letter,) = letters(tmp_path)
    assert (letter["raw"], letter["row"]) == (b"PAR1 not really", None)
    (report,) = Reports(StateStore(str(tmp_path / "state"))).read(1)
    assert (report.state, report.rows) == ("corrupt", 0)


def test_bad_records_of_an_epoch_are_told_once_on_the_driver(
    folder: Path, make: Callable[..., FilesSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(hooks, "fire", lambda name, **values: told.append((name, values["count"])))
    (folder / "a.json").write_text(BAD)
    source = make(on_bad_record="drop")
    read_all(source)
    source.latest_offset({"manifest": 1}, ReadLimit())
    assert told == [("bad_records", 2)]


def test_a_format_without_records_of_its_own_refuses_options_about_them(folder: Path, make: Any) -> None:
    (folder / "a.bin").write_bytes(b"x")
    with pytest.raises(ConfigError, match="cannot tell bad records from good ones"):
        make(format="binary", schema="content binary", on_bad_record="drop").schema()


def test_new_columns_end_the_query_if_asked(folder: Path, read: Read) -> None:
    (folder / "a.json").write_text('{"id": 1, "name": "x"}\n')
    with pytest.raises(ConfigError, match=r"columns that the schema lacks: name\. Add them"):
        read(schema_evolution="fail")


def test_new_columns_are_remembered_and_the_next_start_has_them(folder: Path, read: Read) -> None:
    (folder / "a.json").write_text('{"id": 1}\n')
    options = {"schema": "", "schema_evolution": "add_new_columns", "schema_hints": "paid decimal(10,2)"}
    assert read(**options).schema.names == ["id", "paid"]
    (folder / "b.json").write_text('{"id": 2, "name": "x", "paid": 1.10}\n')
    with pytest.raises(SchemaChangedError, match="name. They are remembered now: restart the query"):
        read(committed=1, **options)
    rows = read(committed=1, **options).to_pylist()
    assert rows == [{"id": 2, "paid": Decimal("1.10"), "name": "x"}]


def test_new_columns_are_rescued_if_asked(folder: Path, read: Read) -> None:
    (folder / "a.json").write_text('{"id": 1, "name": "x"}\n{"id": 2}\n')
    assert read(schema_evolution="rescue").to_pylist() == [
        {"id": 1, "_rescued_data": '{"name":"x"}'},
        {"id": 2, "_rescued_data": None},
    ]


def test_samples_are_merged_into_one_schema_and_hints_win(folder: Path, read: Read) -> None:
    (folder / "a.json").write_text('{"id": 1, "price": 1}\n')
    (folder / "b.json").write_text('{"id": 2, "price": 1.5, "name": "x"}\n')
    schema = read(schema="", schema_hints="id string").schema
    assert schema == pa.schema([("id", pa.string()), ("price", pa.float64()), ("name", pa.string())])


def test_samples_that_do_not_agree_ask_for_a_hint(folder: Path, read: Read) -> None:
    (folder / "a.json").write_text('{"id": 1}\n')
    (folder / "b.json").write_text('{"id": {"deep": 1}}\n')
    with pytest.raises(ConfigError, match="schema_hints"):
        read(schema="")


def test_a_big_object_is_read_in_pieces_by_several_splits(
    folder: Path, make: Callable[..., FilesSource], tmp_path: Path
) -> None:
    (folder / "a.json").write_text("".join(f'{{"id": {number}}}\n' for number in range(20_000)))
    source = make(target_split_bytes=65536)
    end = source.latest_offset(source.initial_offset(), ReadLimit())
    splits = source.splits(source.initial_offset(), end)
    assert len(splits) > 2
    ids: list[int] = []
    reports, states = Reports(StateStore(str(tmp_path / "state"))), []
    for split in splits:
        ids += [i for record in source.read(split) for i in record.batch["id"].to_pylist()]
        states += [report.state for report in reports.outcomes(1).values()]
    assert ids == list(range(20_000))
    assert states == ["planned"] * (len(splits) - 1) + ["read"]
    assert sum(report.rows for report in reports.read(1)) == 20_000


def write_binary(folder: Path, name: str, ids: list[int]) -> None:
    """A file of many row groups, blocks, batches or stripes."""
    table = pa.table({"id": pa.array(ids, pa.int64())})
    path = folder / f"a.{name}"
    if name == "parquet":
        pq.write_table(table, path, row_group_size=1000)
    elif name == "orc":
        orc.write_table(table, path, stripe_size=8192, batch_size=1000)
    elif name == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
    else:
        kind = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
        with path.open("wb") as file:
            fastavro.writer(file, kind, table.to_pylist())


BINARY = ["parquet", "avro", "orc", "arrow"]


@pytest.mark.parametrize("name", BINARY)
def test_big_binary_objects_are_read_in_pieces_by_several_splits(folder: Path, make: Any, name: str) -> None:
    write_binary(folder, name, list(range(50_000)))
    source = make(format=name, target_split_bytes=(folder / f"a.{name}").stat().st_size // 3)
    end = source.latest_offset(source.initial_offset(), ReadLimit())
    splits = source.splits(source.initial_offset(), end)
    assert len(splits) > 1
    ids = [i for split in splits for record in source.read(split) for i in record.batch["id"].to_pylist()]
    assert ids == list(range(50_000))


@pytest.mark.parametrize("name", BINARY)
def test_a_value_that_does_not_fit_becomes_a_dead_letter(folder: Path, read: Read, tmp_path: Path, name: str) -> None:
    write_binary(folder, name, [1, 2**40, 3])
    options = {"on_bad_record": "dead_letter", "dead_letter_path": str(tmp_path / "dead")}
    assert read(format=name, schema="id int", **options).to_pylist() == [{"id": 1}, {"id": 3}]
    (letter,) = letters(tmp_path)
    assert json.loads(letter["raw"]) == {"id": 2**40}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_bad_record": "dead_letter"}, "needs the option 'dead_letter_path'"),
        ({"dead_letter_path": "x"}, "only; set one of them"),
        ({"schema_evolution": "add_new_columns", "state_location": ""}, "needs 'schema_location' or 'state_location'"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**options).schema()


def test_with_auto_the_name_tells_the_format(folder: Path, read: Read) -> None:
    (folder / "a.json").write_text('{"id": 1}\n')
    (folder / "b.CSV").write_text("id;x\n2;y\n")
    pq.write_table(pa.table({"id": [3]}), folder / "c.parquet")
    (folder / "d.jsonl.gz").write_bytes(gzip.compress(b'{"id": 4}\n'))
    found = read(format="auto", format_options={"csv": {"delimiter": ";"}})
    assert sorted(found["id"].to_pylist()) == [1, 2, 3, 4]


def test_with_auto_a_name_that_tells_nothing_is_a_corrupt_object(folder: Path, read: Read) -> None:
    (folder / "a.what").write_text("?")
    with pytest.raises(DecodeError, match="'a.what' tells no format"):
        read(format="auto")


def test_more_dead_letters_than_memory_takes_are_all_written(
    folder: Path, tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volley_connectors.blob.dead_letters._MOST_HELD_BYTES", 10_000)
    (folder / "a.json").write_text("".join(f'{{"id": "x{i}"}}\n{{"id": {i}}}\n' for i in range(100)))
    rows = read(on_bad_record="dead_letter", dead_letter_path=str(tmp_path / "dead"))
    assert rows.column("id").to_pylist() == list(range(100))
    assert [letter["raw"] for letter in letters(tmp_path)] == [b'{"id": "x%d"}' % i for i in range(100)]
    (file,) = (tmp_path / "dead").glob("*.parquet")
    assert pq.ParquetFile(file).num_row_groups > 5


def test_dead_letters_of_a_split_that_fails_leave_nothing_behind(
    folder: Path, tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volley_connectors.blob.dead_letters._MOST_HELD_BYTES", 1)
    made: list[Any] = []
    original = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **how: made.append(original(**how)) or made[-1])
    (folder / "a.json").write_text(BAD)
    (folder / "b.json").write_bytes(gzip.compress(BAD.encode())[:-10])
    with pytest.raises(DecodeError):
        read(on_bad_record="dead_letter", dead_letter_path=str(tmp_path / "dead"))
    assert letters(tmp_path) == []
    assert [file.closed for file in made] == [True]
