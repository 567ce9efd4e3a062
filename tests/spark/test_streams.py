"""Streams through the format `volley`: found by itself, limited, drained, replayed and cast."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from volley_connectors.memory import CountSink, MemorySink, MemorySource

EVENTS = pa.schema([("id", pa.int64()), ("text", pa.string())])


def events(first: int, last: int) -> pa.RecordBatch:
    ids = list(range(first, last))
    return pa.record_batch([ids, [f"row {i}" for i in ids]], schema=EVENTS)


@pytest.fixture
def source(request, tmp_path):
    with MemorySource.handle(f"{tmp_path.name}-in") as handle:
        handle.name = f"{tmp_path.name}-in"
        yield handle


@pytest.fixture
def sink(tmp_path):
    with MemorySink.handle(f"{tmp_path.name}-out") as handle:
        handle.name = f"{tmp_path.name}-out"
        yield handle


def run(spark, source_options, sink_options, checkpoint, transform=lambda frame: frame, mode="append"):
    """One availableNow run to its end; the progress of each epoch that had rows."""
    frame = transform(spark.readStream.format("volley").options(**source_options).load())
    writer = frame.writeStream.format("volley").options(**sink_options).outputMode(mode)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def forget_commit(checkpoint: str, epoch: int) -> None:
    """As if the driver had died after the sink's commit and before Spark's commit log."""
    for path in Path(checkpoint, "commits").glob(f"*{epoch}*"):
        path.unlink()


def test_rows_in_are_rows_out_over_several_runs(spark, source, sink, checkpoint):
    options = {"connector": "memory", "name": source.name, "max_files_per_trigger": 2}
    source.push([events(i * 10, i * 10 + 10) for i in range(5)])
    epochs = run(spark, options, {"connector": "memory", "name": sink.name}, checkpoint)
    assert [epoch["numInputRows"] for epoch in epochs] == [20, 20, 10]
    source.push(events(50, 60))
    run(spark, options, {"connector": "memory", "name": sink.name}, checkpoint)
    assert sorted(sink.table()["id"].to_pylist()) == list(range(60))


@pytest.mark.parametrize(
    ("limits", "rows_per_epoch"),
    [
        ({"max_rows_per_trigger": 30}, [30, 30, 30, 10]),
        ({"max_rows_per_trigger": 30, "max_bytes_per_trigger": "160 b"}, [20] * 5),
        ({"maxRowsPerTrigger": 60, "MAX_FILES_PER_TRIGGER": 1, "maxbytespertrigger": "400 b"}, [50, 50]),
        ({}, [100]),
    ],
)
def test_limits_hold_together(spark, tmp_path, checkpoint, limits, rows_per_epoch):
    name = f"{tmp_path.name}-limits"
    with CountSink.handle(name) as count:
        epochs = run(
            spark, {"connector": "range", "rows": 100, **limits}, {"connector": "count", "name": name}, checkpoint
        )
        assert [epoch["numInputRows"] for epoch in epochs] == rows_per_epoch
        assert count.rows == 100


def test_available_now_drains_what_was_there_and_no_more(spark, source, sink, checkpoint):
    source.push([events(i * 10, i * 10 + 10) for i in range(4)])
    stop = threading.Event()

    def keep_pushing() -> None:
        number = 4
        while not stop.is_set():
            source.push(events(number * 10, number * 10 + 10))
            number += 1
            time.sleep(0.2)

    pusher = threading.Thread(target=keep_pushing)
    frame = spark.readStream.format("volley").options(connector="memory", name=source.name, max_files_per_trigger=1)
    writer = frame.load().writeStream.format("volley").options(connector="memory", name=sink.name)
    pusher.start()
    try:
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        finished_with = source.count()
    finally:
        stop.set()
        pusher.join()
    rows = sorted(sink.table()["id"].to_pylist())
    assert len(rows) >= 40
    assert rows == list(range(len(rows)))
    assert len(rows) // 10 < finished_with, "rows that came after the start were read too"


def test_an_epoch_that_is_replayed_is_published_once(spark, source, sink, checkpoint):
    options = {"connector": "memory", "name": source.name, "max_files_per_trigger": 1}
    source.push([events(0, 10), events(10, 20)])
    run(spark, options, {"connector": "memory", "name": sink.name}, checkpoint)
    forget_commit(checkpoint, 1)
    source.push(events(20, 30))
    run(spark, options, {"connector": "memory", "name": sink.name}, checkpoint)
    assert sorted(sink.table()["id"].to_pylist()) == list(range(30))


def test_a_deleted_checkpoint_is_refused_and_then_adopted_on_request(spark, source, sink, checkpoint):
    options = {"connector": "memory", "name": source.name}
    source.push(events(0, 10))
    run(spark, options, {"connector": "memory", "name": sink.name}, checkpoint)
    shutil.rmtree(checkpoint)
    with pytest.raises(Exception, match="adopt_pipeline"):
        run(spark, options, {"connector": "memory", "name": sink.name}, checkpoint)
    assert sink.rows == 10
    run(spark, options, {"connector": "memory", "name": sink.name, "adopt_pipeline": True}, checkpoint)
    assert Counter(sink.table()["id"].to_pylist()) == Counter([*range(10), *range(10)])


@pytest.mark.parametrize("point", ["write", "flush", "staged", "adopt", "commit_before", "commit_after"])
def test_a_sink_that_fails_at_any_step_loses_and_doubles_nothing(spark, source, sink, checkpoint, point):
    source.push([events(0, 10), events(10, 20), events(20, 30)])
    options = {"connector": "memory", "name": source.name, "max_files_per_trigger": 1}
    faulty = {"connector": "memory", "name": sink.name, "faults": f"raise@{point}:1"}
    with pytest.raises(Exception, match="TransientError"):
        run(spark, options, faulty, checkpoint)
    run(spark, options, faulty, checkpoint)
    assert sorted(sink.table()["id"].to_pylist()) == list(range(30))


@pytest.mark.parametrize("point", ["latest_offset", "splits", "read"])
def test_a_source_that_fails_at_any_step_loses_and_doubles_nothing(spark, source, sink, checkpoint, point):
    source.push([events(0, 10), events(10, 20), events(20, 30)])
    options = {
        "connector": "memory", "name": source.name, "max_files_per_trigger": 1, "faults": f"raise@{point}:1"
    }  # fmt: skip
    with pytest.raises(Exception, match="TransientError"):
        run(spark, options, {"connector": "memory", "name": sink.name}, checkpoint)
    run(spark, options, {"connector": "memory", "name": sink.name}, checkpoint)
    assert sorted(sink.table()["id"].to_pylist()) == list(range(30))


@pytest.mark.parametrize("point", ["commit_before", "commit_after"])
def test_a_commit_process_killed_at_the_worst_moment_loses_and_doubles_nothing(spark, source, sink, checkpoint, point):
    source.push([events(0, 10), events(10, 20)])
    options = {"connector": "memory", "name": source.name, "max_files_per_trigger": 1}
    deadly = {"connector": "memory", "name": sink.name, "faults": f"kill@{point}:1"}
    with pytest.raises(Exception, match=r"\S"):
        run(spark, options, deadly, checkpoint)
    run(spark, options, deadly, checkpoint)
    assert sorted(sink.table()["id"].to_pylist()) == list(range(20))


def test_what_the_source_gives_is_cast_to_what_was_declared(spark, sink, checkpoint):
    """The range source delivers columns in another order, int32 and nanoseconds."""
    frame = spark.readStream.format("volley").option("connector", "range").schema("at timestamp_ntz, id string")
    writer = frame.load().writeStream.format("volley").options(connector="memory", name=sink.name)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    assert sink.table().schema.names == ["at", "id"]
    assert sorted(sink.table()["id"].to_pylist()) == sorted(map(str, range(100)))


def test_a_sink_gets_timestamps_in_utc_whatever_the_session_says(spark, sink, checkpoint, monkeypatch):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        run(
            spark,
            {"connector": "range", "rows": 2},
            {"connector": "memory", "name": sink.name},
            checkpoint,
            lambda frame: frame.selectExpr("id", "timestamp'2024-07-01 00:00:00' as at"),
        )
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert sink.table().schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert str(sink.table()["at"][0].as_py()) == "2024-07-01 04:00:00+00:00"


def test_complete_mode_replaces_what_the_sink_held(spark, source, sink, checkpoint):
    options = {"connector": "memory", "name": source.name, "max_files_per_trigger": 1}
    for first in (0, 10):
        source.push(events(first, first + 10))
        run(
            spark,
            options,
            {"connector": "memory", "name": sink.name},
            checkpoint,
            lambda frame: frame.groupBy().count(),
            mode="complete",
        )
        assert sink.table()["count"].to_pylist() == [first + 10]


def test_a_plain_sink_publishes_in_its_tasks_and_knows_query_and_epoch(spark, tmp_path, checkpoint):
    options = {"connector": "range", "rows": 100, "max_rows_per_trigger": 50}
    epochs = run(spark, options, {"connector": "log", "path": str(tmp_path)}, checkpoint)
    files = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert sorted(files) == ["0-0", "0-1", "1-0", "1-1"]
    assert {facts["query_id"] for facts in files.values()} == {epochs[0]["id"]}
    assert sorted(row["id"] for facts in files.values() for row in facts["rows"]) == list(range(100))


def test_a_query_without_state_needs_no_rows_to_end(spark, source, sink, checkpoint):
    source.push(events(0, 0))
    assert run(spark, {"connector": "memory", "name": source.name}, {"connector": "memory", "name": sink.name},
               checkpoint) == []  # fmt: skip
    assert sink.rows == 0


def test_a_polled_source_streams_through_its_spool(spark, tmp_path, sink, checkpoint):
    (tmp_path / "rows").write_text("95")
    options = {"connector": "ticker", "path": str(tmp_path), "state_location": str(tmp_path / "state")}
    epochs = run(spark, {**options, "max_rows_per_trigger": 30}, {"connector": "memory", "name": sink.name}, checkpoint)
    assert [epoch["numInputRows"] for epoch in epochs] == [30, 30, 30, 5]
    (tmp_path / "rows").write_text("120")
    run(spark, options, {"connector": "memory", "name": sink.name}, checkpoint)
    assert sorted(sink.table()["id"].to_pylist()) == list(range(120))


def test_a_polled_source_killed_after_acknowledging_loses_and_doubles_nothing(spark, tmp_path, sink, checkpoint):
    (tmp_path / "rows").write_text("25")
    options = {"connector": "ticker", "path": str(tmp_path), "state_location": str(tmp_path / "state")}
    options |= {"die_after_ack": True, "max_rows_per_trigger": 10}
    with pytest.raises(Exception, match=r"\S"):
        run(spark, options, {"connector": "memory", "name": sink.name}, checkpoint)
    assert (tmp_path / "died").exists()
    run(spark, options, {"connector": "memory", "name": sink.name}, checkpoint)
    assert sorted(sink.table()["id"].to_pylist()) == list(range(25))
