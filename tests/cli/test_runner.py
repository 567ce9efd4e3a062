"""A pipeline's query: how it is built, watched, stopped and how its failure is told."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from volley_connectors.memory import CountSink, MemorySink, MemorySource
from volley_connectors.pipeline import Pipeline
from volley_core import ConfigError, TransientError, VolleyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from volley_connectors.spark.runner import Progress


@pytest.fixture
def channel() -> Iterator[str]:
    name = f"run-{uuid.uuid4().hex}"
    for first in range(0, 60, 10):
        ids = list(range(first, first + 10))
        MemorySource.handle(name).push(pa.record_batch({"id": ids, "amount": [float(i) for i in ids]}))
    yield name
    MemorySource.handle(name).clear()
    MemorySink.handle(name).clear()
    CountSink.handle(name).clear()


@pytest.fixture
def pipeline(channel: str, checkpoint: str) -> Callable[..., Pipeline]:
    def make(source: dict[str, Any] | None = None, **changes: Any) -> Pipeline:
        document: dict[str, Any] = {
            "name": channel,
            "source": {"connector": "memory", "name": channel, **(source or {})},
            "sink": {"connector": "memory", "name": channel},
            "checkpoint": checkpoint,
            "trigger": "available_now",
        }
        return Pipeline(**{**document, **changes})

    return make


def watch(spark: SparkSession, pipeline: Pipeline, **arguments: Any) -> list[Progress]:
    from volley_connectors.spark.runner import Run, start_query

    seen: list[Progress] = []
    Run(start_query(spark, pipeline)).watch(seen.append, **arguments)
    return seen


def test_transforms_follow_each_other_and_named_ones_stay(
    spark: SparkSession, pipeline: Callable[..., Pipeline], channel: str
) -> None:
    transforms = [
        {"name": "even", "sql": "SELECT id, amount * 2 AS doubled FROM source WHERE id % 2 = 0"},
        "SELECT * FROM source WHERE doubled > 100",
        "SELECT source.id FROM source LEFT SEMI JOIN (SELECT 1 AS one) ON one = 1",
    ]
    seen = watch(spark, pipeline({"max_files_per_trigger": 2}, transforms=transforms))
    assert sorted(MemorySink.handle(channel).table()["id"].to_pylist()) == [52, 54, 56, 58]
    assert (seen[-1].state, seen[-1].epochs, seen[-1].rows) == ("ended", 3, 60)
    assert seen[-1].rows_per_second > 0
    assert spark.catalog.tableExists("even")


def test_the_same_checkpoint_goes_on_where_the_last_run_ended(
    spark: SparkSession, pipeline: Callable[..., Pipeline], channel: str
) -> None:
    watch(spark, pipeline())
    MemorySource.handle(channel).push(pa.record_batch({"id": [99], "amount": [0.0]}))
    assert watch(spark, pipeline())[-1].rows == 1
    assert MemorySink.handle(channel).table().num_rows == 61


def test_a_failure_is_volleys_own_error_alone(spark: SparkSession, pipeline: Callable[..., Pipeline]) -> None:
    with pytest.raises(TransientError) as caught:
        watch(spark, pipeline({"faults": "raise@read:1*"}))
    assert str(caught.value).startswith("Fault raise@read:1 of memory channel")
    assert str(caught.value).endswith("'faults' asks.")


def test_a_failure_on_the_driver_is_volleys_own_error_too(
    spark: SparkSession, pipeline: Callable[..., Pipeline]
) -> None:
    with pytest.raises(TransientError, match=r"^Fault raise@latest_offset:0 .* asks\.$"):
        watch(spark, pipeline({"faults": "raise@latest_offset:0*"}))


def test_wrong_sql_is_told_with_its_number(spark: SparkSession, pipeline: Callable[..., Pipeline]) -> None:
    with pytest.raises(VolleyError, match=r"^Transform 2: .*amont"):
        watch(spark, pipeline(transforms=["SELECT * FROM source", "SELECT amont FROM source"]))


def test_an_error_while_spark_asks_for_the_schema_stays_a_config_error(
    spark: SparkSession, pipeline: Callable[..., Pipeline], channel: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^[^\n]*{channel}-empty[^\n]*$"):
        watch(spark, pipeline({"name": f"{channel}-empty"}))


def endless(pipeline: Callable[..., Pipeline], channel: str) -> Pipeline:
    return pipeline(
        {"loop": True, "max_rows_per_trigger": 1000}, sink={"connector": "count", "name": channel}, trigger=None
    )


def test_a_query_that_never_rests_is_stopped_between_two_epochs(
    spark: SparkSession, pipeline: Callable[..., Pipeline], channel: str
) -> None:
    from volley_connectors.spark.runner import Run, start_query

    run = Run(start_query(spark, endless(pipeline, channel)))
    seen: list[Progress] = []
    epochs: list[int] = []

    def stop_once(progress: Progress) -> None:
        seen.append(progress)
        if progress.epochs >= 1 and not run.stopping:
            run.stop()
            epochs.append(progress.epochs)

    assert run.watch(stop_once) is True
    assert seen[-1].state == "ended"
    assert seen[-1].epochs > epochs[0], "the epoch that was running is finished"
    assert CountSink.handle(channel).rows == seen[-1].epochs * 1000
    assert not run.query.isActive


def test_a_timeout_stops_the_query_cleanly_and_is_told(
    spark: SparkSession, pipeline: Callable[..., Pipeline], channel: str
) -> None:
    from volley_connectors.spark.runner import Run, start_query

    run = Run(start_query(spark, endless(pipeline, channel)))
    done = threading.Event()
    assert run.watch(lambda progress: done.set(), timeout_seconds=3) is False
    assert done.is_set()
    assert not run.query.isActive
    assert run.query.exception() is None


def test_hooks_hear_of_the_beginning_and_the_end(spark: SparkSession, pipeline: Callable[..., Pipeline]) -> None:
    from volley_connectors import hooks
    from volley_core import hookimpl

    heard: list[tuple[str, str | None]] = []

    class Listener:
        @hookimpl
        def query_started(self, name: str | None) -> None:
            heard.append(("started", name))

        @hookimpl
        def query_ended(self, error: str | None) -> None:
            heard.append(("ended", error))

    listener = Listener()
    hooks.manager().register(listener)
    try:
        good = pipeline()
        watch(spark, good)
        bad = pipeline({"faults": "raise@latest_offset:0*"}, checkpoint=f"{good.checkpoint}-2")
        with pytest.raises(TransientError):
            watch(spark, bad)
    finally:
        hooks.manager().unregister(listener)
    assert [what for what, _ in heard] == ["started", "ended", "started", "ended"]
    assert heard[1][1] is None
    assert "latest_offset" in str(heard[3][1])
