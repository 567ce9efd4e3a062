"""The memory connectors: the contracts, handles across processes, faults."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from volley_connectors import build
from volley_connectors.memory import (
    CountSink,
    CountSinkConfig,
    MemorySink,
    MemorySinkConfig,
    MemorySource,
    MemorySourceConfig,
)
from volley_connectors.memory import faults as faults_module
from volley_core import (
    ConfigError,
    EpochContext,
    PipelineConflictError,
    ReadLimit,
    SinkError,
    StreamRecord,
    TransientError,
)
from volley_core.conformance import EpochSinkSuite, SplitSourceSuite, StagingSinkSuite, sample

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def memory_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VOLLEY_MEMORY_DIR", str(tmp_path / "memory"))
    return tmp_path / "memory"


class TestMemorySource(SplitSourceSuite):
    @pytest.fixture
    def make_source(self) -> Callable[[], MemorySource]:
        return lambda: MemorySource(MemorySourceConfig("channel"))

    def feed(self, table: pa.Table) -> None:
        MemorySource.handle("channel").push(table.combine_chunks())


class TestMemorySink(StagingSinkSuite, EpochSinkSuite):
    @pytest.fixture
    def make_sink(self) -> Callable[..., MemorySink]:
        return lambda **options: MemorySink(MemorySinkConfig("channel", **options))

    def published(self) -> pa.Table:
        return MemorySink.handle("channel").table()


class TestCountSink(StagingSinkSuite, EpochSinkSuite):
    @pytest.fixture
    def make_sink(self) -> Callable[..., CountSink]:
        return lambda **options: CountSink(CountSinkConfig("channel", **options))

    def visible_rows(self) -> int:
        return CountSink.handle("channel").rows

    def expect(self, *tables: pa.Table) -> None:
        assert CountSink.handle("channel").rows == sum(table.num_rows for table in tables)


def loop_source(rows: int, **options: Any) -> MemorySource:
    return MemorySource(MemorySourceConfig("channel", loop=True, max_rows_per_trigger=rows, **options))


def ids(records: Iterator[StreamRecord]) -> list[int]:
    return [i for record in records for i in record.batch.column("id").to_pylist()]


def read_epoch(source: MemorySource, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [i for split in source.splits(start, end) for i in ids(source.read(split))]


def publish(sink: MemorySink | CountSink, epoch: int, table: pa.Table, query: str = "q", **context: Any) -> None:
    sink.begin(EpochContext(query, epoch, **context))
    for batch in table.to_batches():
        sink.write(StreamRecord(batch))
    sink.flush()
    sink.on_checkpoint(epoch)


def test_read_maps_the_pushed_file_and_copies_nothing() -> None:
    MemorySource.handle("channel").push(sample(0, 100_000).combine_chunks())
    source = MemorySource(MemorySourceConfig("channel"))
    start = source.initial_offset()
    (split,) = source.splits(start, source.latest_offset(start, ReadLimit()))
    before = pa.total_allocated_bytes()
    records = list(source.read(split))
    assert [record.num_rows for record in records] == [100_000]
    assert pa.total_allocated_bytes() - before < 10_000


def test_splits_share_the_batches_of_an_epoch() -> None:
    handle = MemorySource.handle("channel")
    for first in range(0, 50, 10):
        handle.push(sample(first, 10).combine_chunks())
    source = MemorySource(MemorySourceConfig("channel", splits_per_epoch=3))
    splits = source.splits({"next": 0}, {"next": 5})
    assert [split.last - split.first for split in splits] == [1, 2, 2]


def test_loop_repeats_what_was_pushed_without_end() -> None:
    MemorySource.handle("channel").push(sample(0, 4).combine_chunks())
    MemorySource.handle("channel").push(sample(4, 3).combine_chunks())
    source = loop_source(10)
    first = source.latest_offset(source.initial_offset(), ReadLimit())
    second = source.latest_offset(first, ReadLimit())
    found = read_epoch(source, source.initial_offset(), first) + read_epoch(source, first, second)
    assert found == [n % 7 for n in range(20)]


def test_loop_replays_the_same_rows_after_more_was_pushed() -> None:
    MemorySource.handle("channel").push(sample(0, 4).combine_chunks())
    end = loop_source(6).latest_offset({"next": 0}, ReadLimit())
    MemorySource.handle("channel").push(sample(4, 4).combine_chunks())
    assert read_epoch(loop_source(6), {"next": 0}, end) == [0, 1, 2, 3, 0, 1]
    assert read_epoch(loop_source(6), end, loop_source(6).latest_offset(end, ReadLimit())) == [2, 3, 0, 1, 2, 3]


def test_loop_hands_out_whole_batches_where_an_epoch_ends_with_one() -> None:
    for first in range(0, 30, 10):
        MemorySource.handle("channel").push(sample(first, 10).combine_chunks())
    source = loop_source(40, splits_per_epoch=3)
    records = [r for split in source.splits({"next": 0}, {"next": 40, "batches": 3}) for r in source.read(split)]
    assert [record.num_rows for record in records] == [10, 10, 10, 10]
    assert all(record.batch.columns[0].offset == 0 for record in records)


@pytest.mark.parametrize(
    ("limit", "rows"), [(ReadLimit(max_rows=3), 3), (ReadLimit(max_files=2), 8), (ReadLimit(max_bytes=1), 4)]
)
def test_loop_keeps_within_every_limit(limit: ReadLimit, rows: int) -> None:
    MemorySource.handle("channel").push(sample(0, 4).combine_chunks())
    assert loop_source(100).latest_offset({"next": 0}, limit)["next"] == rows


def test_a_frozen_loop_rests_after_one_epoch() -> None:
    MemorySource.handle("channel").push(sample(0, 4).combine_chunks())
    source = loop_source(10)
    source.freeze()
    end = source.latest_offset({"next": 0}, ReadLimit())
    assert end["next"] == 10
    assert source.latest_offset(end, ReadLimit()) == end


def test_a_loop_over_nothing_waits() -> None:
    assert loop_source(10).latest_offset({"next": 0}, ReadLimit()) == {"next": 0}


def test_loop_without_a_row_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match="loop needs max_rows_per_trigger"):
        MemorySourceConfig("channel", loop=True)


def test_the_schema_may_be_told_before_anything_is_pushed() -> None:
    source = MemorySource(MemorySourceConfig("channel", schema="id bigint, name string"))
    assert source.schema().equals(sample(0, 1).schema)


def test_what_was_pushed_tells_the_schema_and_not_the_option() -> None:
    MemorySource.handle("channel").push(sample(0, 3).combine_chunks())
    source = MemorySource(MemorySourceConfig("channel", schema="id int, name string"))
    assert source.schema().equals(sample(0, 1).schema)


def test_batches_pushed_later_are_cast_to_the_schema_that_was_told() -> None:
    source = MemorySource(MemorySourceConfig("channel", schema="id int, name string"))
    assert source.schema().field("id").type == pa.int32()
    MemorySource.handle("channel").push(sample(0, 3).combine_chunks())
    (split,) = source.splits({"next": 0}, {"next": 1})
    (record,) = source.read(split)
    assert record.batch.schema.equals(source.schema())


def test_pushed_batches_that_cannot_be_cast_are_a_config_error() -> None:
    source = MemorySource(MemorySourceConfig("channel", schema="other int"))
    assert source.schema().names == ["other"]
    MemorySource.handle("channel").push(sample(0, 3).combine_chunks())
    (split,) = source.splits({"next": 0}, {"next": 1})
    with pytest.raises(ConfigError, match="does not fit the option 'schema'"):
        list(source.read(split))


def test_an_unknown_schema_is_a_config_error_that_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"MemorySource\.handle\('channel'\)\.push.*option 'schema'"):
        MemorySource(MemorySourceConfig("channel")).schema()


def test_a_push_of_another_schema_is_refused() -> None:
    MemorySource.handle("channel").push(sample(0, 3).combine_chunks())
    with pytest.raises(ConfigError, match="holds batches of another schema"):
        MemorySource.handle("channel").push(pa.table({"other": [1]}))
    assert MemorySource.handle("channel").count() == 1


def test_push_takes_tables_batches_and_lists_of_batches() -> None:
    handle = MemorySource.handle("channel")
    handle.push(sample(0, 2))
    handle.push(sample(2, 2).to_batches()[0])
    handle.push(sample(4, 2).to_batches())
    handle.push(sample(0, 0))
    source = MemorySource(MemorySourceConfig("channel"))
    assert read_epoch(source, {"next": 0}, source.latest_offset({"next": 0}, ReadLimit())) == list(range(6))


def test_clearing_under_a_query_is_a_config_error_when_it_reads() -> None:
    MemorySource.handle("channel").push(sample(0, 2))
    source = MemorySource(MemorySourceConfig("channel"))
    source.schema()
    (split,) = source.splits({"next": 0}, {"next": 1})
    MemorySource.handle("channel").clear()
    with pytest.raises(ConfigError, match="cleared under a query"):
        list(source.read(split))


@pytest.mark.parametrize("handle", [MemorySource.handle, MemorySink.handle, CountSink.handle])
def test_a_handle_as_context_manager_removes_its_channel(handle: Callable[[str], Any], memory_directory: Path) -> None:
    with handle("channel"):
        MemorySource.handle("channel").push(sample(0, 1))
        publish(MemorySink(MemorySinkConfig("channel")), 0, sample(0, 1))
        publish(CountSink(CountSinkConfig("channel")), 0, sample(0, 1))
        assert len(list(memory_directory.glob("*/channel"))) == 3
    assert len(list(memory_directory.glob("*/channel"))) == 2


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 101, "white space"])
def test_a_name_that_is_no_directory_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        MemorySource.handle(name)
    for config in (MemorySourceConfig, MemorySinkConfig, CountSinkConfig):
        with pytest.raises(ConfigError, match="'name'"):
            config(name)


def test_shared_memory_is_the_default_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VOLLEY_MEMORY_DIR")
    name = f"test-{os.getpid()}"
    with MemorySource.handle(name) as handle:
        handle.push(sample(0, 1))
        places = (Path("/dev/shm"), Path(os.environ.get("TMPDIR", "/tmp")))
        (found,) = (p for place in places for p in place.glob(f"volley-memory-{os.getuid()}/source/{name}"))
        assert found.parents[1].stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("kind", "name"), [("sources", "memory"), ("sinks", "memory"), ("sinks", "count")])
def test_the_example_of_each_config_works(kind: str, name: str) -> None:
    from volley_connectors import load

    cls = load(kind, name)
    assert cls.Config.EXAMPLE
    assert build(kind, name, cls.Config.EXAMPLE).connector_id
    assert cls.GUARANTEE.startswith("exactly-once: ")
    assert cls.__doc__


def test_epochs_tell_rows_of_each_commit_and_rows_only_what_is_visible() -> None:
    sink = MemorySink(MemorySinkConfig("channel"))
    publish(sink, 0, sample(0, 3))
    publish(MemorySink(MemorySinkConfig("channel")), 1, sample(3, 2), replace=True)
    handle = MemorySink.handle("channel")
    assert [(e.query_id, e.epoch, e.rows, e.replace) for e in handle.epochs()] == [
        ("q", 0, 3, False),
        ("q", 1, 2, True),
    ]
    assert handle.rows == handle.table().num_rows == sum(batch.num_rows for batch in handle.batches()) == 2


def test_replaced_rows_give_their_memory_back(memory_directory: Path) -> None:
    for epoch in range(4):
        publish(MemorySink(MemorySinkConfig("channel")), epoch, sample(0, 100), replace=True)
    assert len(list((memory_directory / "memory" / "channel" / "staged").iterdir())) == 1


def test_a_replay_leaves_no_files_behind(memory_directory: Path) -> None:
    for _ in range(3):
        publish(MemorySink(MemorySinkConfig("channel")), 0, sample(0, 100))
    assert len(list((memory_directory / "memory" / "channel" / "staged").iterdir())) == 1
    assert not list(memory_directory.rglob("*.draft"))


def test_one_instance_goes_on_with_the_next_epoch() -> None:
    sink = MemorySink(MemorySinkConfig("channel"))
    sink.begin(EpochContext("q", 0))
    for epoch in range(3):
        sink.write(StreamRecord(sample(epoch, 1).to_batches()[0]))
        sink.flush()
        sink.on_checkpoint(epoch)
    assert [(e.epoch, e.rows) for e in MemorySink.handle("channel").epochs()] == [(0, 1), (1, 1), (2, 1)]


def test_batches_of_two_schemas_in_one_epoch_are_refused() -> None:
    sink = MemorySink(MemorySinkConfig("channel"))
    sink.write(StreamRecord(sample(0, 1).to_batches()[0]))
    with pytest.raises(SinkError, match="two schemas"):
        sink.write(StreamRecord(pa.record_batch({"other": [1]})))


def test_a_column_that_came_later_is_null_before() -> None:
    publish(MemorySink(MemorySinkConfig("channel")), 0, sample(0, 1))
    publish(MemorySink(MemorySinkConfig("channel")), 1, sample(1, 1).append_column("more", pa.array([7])))
    assert MemorySink.handle("channel").table().column("more").to_pylist() == [None, 7]


def test_a_conflict_names_the_owner_and_the_three_ways_out() -> None:
    publish(MemorySink(MemorySinkConfig("channel")), 0, sample(0, 1), "first")
    with pytest.raises(PipelineConflictError, match="first") as caught:
        publish(MemorySink(MemorySinkConfig("channel")), 0, sample(0, 1), "second")
    for way in ("pipeline_id", "adopt_pipeline=true", "clear()"):
        assert way in str(caught.value)


def test_count_sink_counts_batches_and_bytes_too() -> None:
    publish(CountSink(CountSinkConfig("channel")), 0, sample(0, 100))
    handle = CountSink.handle("channel")
    assert (handle.rows, handle.batches, handle.num_bytes) == (100, 1, sample(0, 100).nbytes)
    assert [(e.epoch, e.rows, e.batches) for e in handle.epochs()] == [(0, 100, 1)]


def _push(first: int) -> None:
    for n in range(first, first + 20):
        MemorySource.handle("channel").push(sample(n, 1))


def _task(partition: int) -> bytes:
    sink = MemorySink(MemorySinkConfig("channel"))
    sink.begin(EpochContext("q", 0, partition))
    sink.write(StreamRecord(sample(partition * 10, 10).to_batches()[0]))
    sink.flush()
    return sink.staged()


def _commit(messages: list[bytes]) -> None:
    sink = MemorySink(MemorySinkConfig("channel"))
    sink.begin(EpochContext("q", 0))
    sink.adopt(messages)
    sink.on_checkpoint(0)


def _run(function: Callable[..., Any], *arguments: Any) -> multiprocessing.process.BaseProcess:
    process = SPAWN.Process(target=function, args=arguments)
    process.start()
    return process


def test_handles_work_across_processes() -> None:
    with SPAWN.Pool(2) as pool:
        pool.map(_push, [0, 20, 40])
        messages = pool.map(_task, range(3))
        assert MemorySink.handle("channel").rows == 0
        pool.map(_commit, [messages, messages, messages])
    source = MemorySource(MemorySourceConfig("channel"))
    end = source.latest_offset({"next": 0}, ReadLimit())
    assert end == {"next": 60}
    assert sorted(read_epoch(source, {"next": 0}, end)) == list(range(60))
    assert sorted(MemorySink.handle("channel").table().column("id").to_pylist()) == list(range(30))


@pytest.mark.parametrize("point", ["write", "flush", "staged", "adopt", "commit_before", "commit_after"])
def test_a_sink_fault_fires_once_and_the_replay_publishes_once(point: str) -> None:
    config = MemorySinkConfig("channel", faults=f"raise@{point}:1")

    def epoch(number: int) -> None:
        task, driver = MemorySink(config), MemorySink(config)
        task.begin(EpochContext("q", number, 0))
        task.write(StreamRecord(sample(number * 10, 10).to_batches()[0]))
        task.flush()
        driver.begin(EpochContext("q", number))
        driver.adopt([task.staged()])
        driver.on_checkpoint(number)

    epoch(0)
    with pytest.raises(TransientError, match=f"raise@{point}:1"):
        epoch(1)
    assert MemorySink.handle("channel").rows == (20 if point == "commit_after" else 10)
    epoch(1)
    assert MemorySink.handle("channel").table().column("id").to_pylist() == list(range(20))


@pytest.mark.parametrize("point", ["latest_offset", "splits", "read"])
def test_a_source_fault_fires_once_where_its_batch_is_handled(point: str) -> None:
    for n in range(4):
        MemorySource.handle("channel").push(sample(n, 1))

    def drain() -> list[int]:
        source = MemorySource(MemorySourceConfig("channel", faults=f"raise@{point}:2"))
        found: list[int] = []
        start = source.initial_offset()
        while (end := source.latest_offset(start, ReadLimit(max_files=2))) != start:
            found += read_epoch(source, start, end)
            start = end
        return found

    with pytest.raises(TransientError):
        drain()
    assert drain() == [0, 1, 2, 3]


def test_a_loop_fault_counts_epochs() -> None:
    MemorySource.handle("channel").push(sample(0, 4))
    source = loop_source(10, faults="raise@read:1")
    assert len(read_epoch(source, {"next": 0}, {"next": 10, "batches": 1})) == 10
    with pytest.raises(TransientError):
        read_epoch(source, {"next": 10, "batches": 1}, {"next": 20, "batches": 1})


def test_a_fault_with_a_star_fires_every_time() -> None:
    MemorySource.handle("channel").push(sample(0, 1))
    source = MemorySource(MemorySourceConfig("channel", faults="raise@read:0*"))
    for _ in range(3):
        with pytest.raises(TransientError):
            read_epoch(source, {"next": 0}, {"next": 1})


def test_clear_makes_a_fault_fire_again() -> None:
    for _ in range(2):
        with pytest.raises(TransientError):
            publish(CountSink(CountSinkConfig("channel", faults="raise@write:0")), 0, sample(0, 1))
        CountSink.handle("channel").clear()


def test_sleep_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults_module, "SLEEP_SECONDS", 0.2)
    before = time.monotonic()
    publish(CountSink(CountSinkConfig("channel", faults="sleep@flush:0")), 0, sample(0, 1))
    assert time.monotonic() - before >= 0.2


def _publish_with_kill(point: str) -> None:
    publish(MemorySink(MemorySinkConfig("channel", faults=f"kill@{point}:0")), 0, sample(0, 3))


@pytest.mark.parametrize(("point", "rows"), [("commit", 0), ("commit_after", 3)])
def test_kill_ends_the_process_once(point: str, rows: int) -> None:
    killed = _run(_publish_with_kill, point)
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    assert MemorySink.handle("channel").rows == rows
    restarted = _run(_publish_with_kill, point)
    restarted.join(60)
    assert restarted.exitcode == 0
    assert MemorySink.handle("channel").rows == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("boom", "not of the form action@point:epoch"),
        ("raise@read", "not of the form action@point:epoch"),
        ("kil@read:0", "unknown action 'kil'. Did you mean 'kill'"),
        ("raise@reed:0", "unknown point 'reed'. Did you mean 'read'"),
        ("raise@write:0", "unknown point 'write'"),
    ],
)
def test_a_wrong_fault_is_refused_when_the_config_is_made(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build("sources", "memory", {"name": "channel", "faults": f"raise@read:0, {text}"})
    assert problem in str(caught.value)
    assert "'faults'" in str(caught.value)


def test_faults_travel_as_spark_options() -> None:
    config = MemorySinkConfig("channel", faults="raise@write:2, kill@commit:1*")
    assert config.faults == ("raise@write:2", "kill@commit:1*")
    assert MemorySinkConfig.from_options(config.to_options()) == config
    assert pickle.loads(pickle.dumps(config)) == config
