"""The contracts of `Sink`, `StagingSink`, `EpochSink` and `PreparedSink` as tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from volley_core.config import SinkConfig
from volley_core.conformance import identity
from volley_core.conformance.nasty import NASTY
from volley_core.conformance.rows import in_any_order, records, sample
from volley_core.errors import ConfigError, PipelineConflictError, VolleyError
from volley_core.protocols import EpochContext, EpochSink, PreparedSink, Sink, StagingSink

MakeSink = Callable[..., Any]
QUERY = "11111111-aaaa-4aaa-8aaa-111111111111"
OTHER_QUERY = "22222222-bbbb-4bbb-8bbb-222222222222"


class SinkSuite:
    """Give a fixture `make_sink` and `published`.

    `make_sink(**options)` makes a new instance on the same target, with these options beside the necessary ones.
    """

    refuses: ClassVar[dict[str, str]] = {}
    """Names of nasty tables that this sink refuses with a clear error, with the reason."""

    def published(self) -> pa.Table:
        """All rows that a reader of the target sees now; a table without rows if there are none."""
        raise NotImplementedError("a suite's class says how to read the target")

    def visible_rows(self) -> int:
        """How many rows a reader sees now. Called from another thread, too."""
        return int(self.published().num_rows)

    def sample(self, first: int, count: int) -> pa.Table:
        """Rows that the sink takes, all different from those of another `first`."""
        return sample(first, count)

    def as_stored(self, table: pa.Table) -> pa.Table:
        """What a reader sees of this table, where the target's types differ from Arrow's."""
        return table

    def expect(self, *tables: pa.Table) -> None:
        """Assert that the target shows exactly these rows."""
        expected = [row for table in tables for row in in_any_order(self.as_stored(table))]
        assert in_any_order(self.published()) == sorted(expected)

    def begin(self, sink: Any, epoch: int, query_id: str = QUERY, **context: Any) -> Any:
        """Do what a host does first on every instance."""
        if isinstance(sink, EpochSink):
            sink.begin(EpochContext(query_id, epoch, **context))
        return sink

    def fill(self, sink: Any, epoch: int, table: pa.Table) -> Any:
        """Begin, write, flush: all of an epoch but its end."""
        self.begin(sink, epoch)
        if isinstance(sink, PreparedSink):
            sink.prepare(table.schema)
        for record in records(table):
            sink.write(record)
        sink.flush()
        return sink

    def publish(self, sink: Any, epoch: int, table: pa.Table) -> Any:
        """One epoch in one process."""
        self.fill(sink, epoch, table)
        sink.on_checkpoint(epoch)
        return sink

    def test_has_the_methods_of_a_sink(self, make_sink: MakeSink) -> None:
        assert isinstance(make_sink(), Sink)

    def test_connector_id_is_the_same_in_every_run(self, make_sink: MakeSink) -> None:
        identity.assert_stable_id(make_sink)

    def test_connector_id_holds_no_secret(self, make_sink: MakeSink) -> None:
        identity.assert_id_without_secrets(make_sink)

    def test_is_made_from_its_config(self, make_sink: MakeSink) -> None:
        identity.assert_config_class(make_sink, SinkConfig)

    def test_a_pickled_copy_writes_to_the_same_target(self, make_sink: MakeSink) -> None:
        """Constructors hold the config and nothing else."""
        self.publish(identity.assert_picklable(make_sink), 0, self.sample(0, 3))
        self.expect(self.sample(0, 3))

    def test_nothing_is_visible_before_on_checkpoint(self, make_sink: MakeSink) -> None:
        """`on_checkpoint` makes everything flushed in this epoch visible: nothing does so before."""
        self.publish(make_sink(), 0, self.sample(0, 3))
        self.fill(make_sink(), 1, self.sample(3, 3))
        self.expect(self.sample(0, 3))

    def test_on_checkpoint_makes_everything_flushed_visible(self, make_sink: MakeSink) -> None:
        """Make everything flushed in this epoch visible."""
        self.publish(make_sink(), 0, self.sample(0, 2500))
        self.expect(self.sample(0, 2500))

    def test_on_checkpoint_publishes_in_one_step(self, make_sink: MakeSink) -> None:
        """In one step: a reader sees all of the epoch or nothing."""
        sink = make_sink()
        self.fill(sink, 0, self.sample(0, 10))
        for first in (10, 20, 30):
            self._write(sink, self.sample(first, 10))
        seen = self._watch(lambda: sink.on_checkpoint(0))
        assert seen <= {0, 40}, f"a reader saw {sorted(seen)} rows of an epoch of 40"
        self.expect(self.sample(0, 40))

    def test_flush_covers_every_record_so_far(self, make_sink: MakeSink) -> None:
        """Return only when every record accepted so far is stored: each flush adds to the last."""
        sink = self.fill(make_sink(), 0, self.sample(0, 3))
        self._write(sink, self.sample(3, 3))
        sink.flush()
        sink.on_checkpoint(0)
        self.expect(self.sample(0, 6))

    def test_an_epoch_without_rows_is_no_error(self, make_sink: MakeSink) -> None:
        self.publish(make_sink(), 0, self.sample(0, 3))
        sink = self.begin(make_sink(), 1)
        sink.flush()
        sink.on_checkpoint(1)
        self.expect(self.sample(0, 3))

    def test_a_batch_without_rows_changes_nothing(self, make_sink: MakeSink) -> None:
        self.publish(make_sink(), 0, self.sample(0, 3))
        self.publish(make_sink(), 1, self.sample(0, 0))
        self.expect(self.sample(0, 3))

    def test_epochs_add_up(self, make_sink: MakeSink) -> None:
        """Takes records and publishes them once per epoch."""
        for epoch in range(3):
            self.publish(make_sink(), epoch, self.sample(epoch * 10, 10))
        self.expect(self.sample(0, 30))

    def test_on_checkpoint_twice_changes_nothing(self, make_sink: MakeSink) -> None:
        """Called again with the same epoch; the second call changes nothing."""
        sink = self.publish(make_sink(), 0, self.sample(0, 3))
        sink.on_checkpoint(0)
        self.expect(self.sample(0, 3))

    def test_on_checkpoint_on_a_new_instance_changes_nothing(self, make_sink: MakeSink) -> None:
        """Called again with the same epoch after a crash."""
        self.publish(make_sink(), 0, self.sample(0, 3))
        self.begin(make_sink(), 0).on_checkpoint(0)
        self.expect(self.sample(0, 3))

    @pytest.mark.parametrize("last_step", ["begin", "write", "flush", "on_checkpoint"])
    def test_a_replay_after_a_crash_publishes_once(self, make_sink: MakeSink, last_step: str) -> None:
        """A crash after any step: the epoch is written again, and its rows are there once."""
        self.publish(make_sink(), 0, self.sample(0, 3))
        crashed = self.begin(make_sink(), 1)
        if last_step != "begin":
            for record in records(self.sample(3, 3)):
                crashed.write(record)
        if last_step in ("flush", "on_checkpoint"):
            crashed.flush()
        if last_step == "on_checkpoint":
            crashed.on_checkpoint(1)
        del crashed
        self.publish(make_sink(), 1, self.sample(3, 3))
        self.expect(self.sample(0, 6))
        self.publish(make_sink(), 2, self.sample(6, 3))
        self.expect(self.sample(0, 9))

    @pytest.mark.parametrize("name", NASTY)
    def test_nasty_data_comes_through(self, make_sink: MakeSink, name: str) -> None:
        if name not in self.refuses:
            self.publish(make_sink(), 0, NASTY[name])
            self.expect(NASTY[name])
            return
        # What a sink cannot hold it refuses by name: it never stores something else.
        with pytest.raises(VolleyError):
            self.publish(make_sink(), 0, NASTY[name])

    def _write(self, sink: Any, table: pa.Table) -> None:
        for record in records(table):
            sink.write(record)
        sink.flush()

    def _watch(self, act: Callable[[], None]) -> set[int]:
        """The row counts that a reader saw while `act` ran."""
        seen: set[int] = set()
        done, started = threading.Event(), threading.Event()
        errors: list[BaseException] = []

        def look() -> None:
            try:
                while not done.is_set():
                    seen.add(self.visible_rows())
                    started.set()
            except BaseException as error:
                errors.append(error)
                started.set()

        reader = threading.Thread(target=look)
        reader.start()
        started.wait()
        try:
            act()
        finally:
            done.set()
            reader.join()
        assert not errors, f"a reader failed while an epoch was published: {errors[0]!r}"
        return seen


class StagingSinkSuite(SinkSuite):
    """Also for a sink that stages in tasks and publishes on the driver."""

    def task(self, make_sink: MakeSink, epoch: int, table: pa.Table, partition: int = 0, attempt: int = 0) -> bytes:
        """What one task sends to the driver; its instance is gone afterwards."""
        sink = self.begin(make_sink(), epoch, partition=partition, attempt=attempt)
        for record in records(table):
            sink.write(record)
        sink.flush()
        message = sink.staged()
        assert isinstance(message, bytes), "staged() gives bytes"
        return message

    def driver(self, make_sink: MakeSink, epoch: int, messages: Sequence[bytes]) -> Any:
        """An instance that took over what tasks staged."""
        sink = self.begin(make_sink(), epoch)
        sink.adopt(messages)
        return sink

    def commit(self, make_sink: MakeSink, epoch: int, *tables: pa.Table) -> list[bytes]:
        """One epoch as Spark runs it, a task for each table."""
        messages = [self.task(make_sink, epoch, table, partition) for partition, table in enumerate(tables)]
        self.driver(make_sink, epoch, messages).on_checkpoint(epoch)
        return messages

    def test_has_the_methods_of_a_staging_sink(self, make_sink: MakeSink) -> None:
        assert isinstance(make_sink(), StagingSink)

    def test_what_tasks_staged_another_instance_publishes(self, make_sink: MakeSink) -> None:
        """Take over what other instances staged. Flushed data is stored outside the process that wrote it."""
        self.commit(make_sink, 0, self.sample(0, 10), self.sample(10, 10), self.sample(20, 10))
        self.expect(self.sample(0, 30))

    def test_staged_rows_stay_invisible_by_themselves(self, make_sink: MakeSink) -> None:
        """What was staged but never adopted must stay invisible by itself."""
        self.commit(make_sink, 0, self.sample(0, 3))
        self.task(make_sink, 1, self.sample(900, 3))
        self.expect(self.sample(0, 3))
        self.commit(make_sink, 1, self.sample(3, 3))
        self.expect(self.sample(0, 6))

    def test_adopted_rows_stay_invisible_until_on_checkpoint(self, make_sink: MakeSink) -> None:
        """Invisible until `on_checkpoint`, perhaps on another machine."""
        self.driver(make_sink, 0, [self.task(make_sink, 0, self.sample(0, 3))])
        self.expect()

    def test_a_task_that_dies_before_staged_leaves_nothing_visible(self, make_sink: MakeSink) -> None:
        """A task may die at any point."""
        for table in (self.sample(900, 3), self.sample(800, 3)):
            dying = self.begin(make_sink(), 0, partition=0)
            for record in records(table):
                dying.write(record)
        dying.flush()
        del dying
        self.commit(make_sink, 0, self.sample(0, 3))
        self.expect(self.sample(0, 3))

    def test_a_second_attempt_replaces_the_first(self, make_sink: MakeSink) -> None:
        """Only what the driver adopts counts, however many attempts staged the same rows."""
        self.task(make_sink, 0, self.sample(0, 3), attempt=0)
        second = self.task(make_sink, 0, self.sample(0, 3), attempt=1)
        self.driver(make_sink, 0, [second]).on_checkpoint(0)
        self.expect(self.sample(0, 3))

    def test_a_task_without_rows_stages_nothing(self, make_sink: MakeSink) -> None:
        empty = self.begin(make_sink(), 0, partition=1)
        empty.flush()
        messages = [self.task(make_sink, 0, self.sample(0, 3)), empty.staged()]
        self.driver(make_sink, 0, messages).on_checkpoint(0)
        self.expect(self.sample(0, 3))

    def test_an_epoch_without_tasks_is_no_error(self, make_sink: MakeSink) -> None:
        self.driver(make_sink, 0, []).on_checkpoint(0)
        self.expect()
        self.commit(make_sink, 1, self.sample(0, 3))
        self.expect(self.sample(0, 3))

    def test_staged_work_of_many_tasks_is_published_in_one_step(self, make_sink: MakeSink) -> None:
        """In one step: a reader sees the work of all tasks or of none."""
        messages = [self.task(make_sink, 0, self.sample(n * 10, 10), n) for n in range(4)]
        sink = self.driver(make_sink, 0, messages)
        seen = self._watch(lambda: sink.on_checkpoint(0))
        assert seen <= {0, 40}, f"a reader saw {sorted(seen)} rows of an epoch of 40"
        self.expect(self.sample(0, 40))

    @pytest.mark.parametrize("last_step", ["flush", "staged", "adopt", "on_checkpoint"])
    def test_a_replay_after_a_crash_on_spark_publishes_once(self, make_sink: MakeSink, last_step: str) -> None:
        """A crash after any step: the tasks run again and stage anew, and the rows are there once."""
        self.commit(make_sink, 0, self.sample(0, 3))
        if last_step == "flush":
            self.fill(make_sink(), 1, self.sample(3, 3))
        else:
            messages = [self.task(make_sink, 1, self.sample(3, 3))]
            if last_step != "staged":
                crashed = self.driver(make_sink, 1, messages)
                if last_step == "on_checkpoint":
                    crashed.on_checkpoint(1)
                del crashed
        self.commit(make_sink, 1, self.sample(3, 3))
        self.expect(self.sample(0, 6))
        self.commit(make_sink, 2, self.sample(6, 3))
        self.expect(self.sample(0, 9))

    def test_the_same_staged_work_adopted_twice_is_published_once(self, make_sink: MakeSink) -> None:
        """Called again with the same epoch after a crash; the second call changes nothing."""
        messages = self.commit(make_sink, 0, self.sample(0, 3), self.sample(3, 3))
        again = self.driver(make_sink, 0, messages)
        again.on_checkpoint(0)
        again.on_checkpoint(0)
        self.expect(self.sample(0, 6))

    def test_discard_gives_up_what_was_adopted(self, make_sink: MakeSink) -> None:
        """The epoch failed and will be written again."""
        self.commit(make_sink, 0, self.sample(0, 3))
        self.driver(make_sink, 1, [self.task(make_sink, 1, self.sample(3, 3))]).discard()
        self.expect(self.sample(0, 3))
        self.commit(make_sink, 1, self.sample(3, 3))
        self.expect(self.sample(0, 6))

    def test_discard_does_not_raise_if_it_is_gone(self, make_sink: MakeSink) -> None:
        """Must not raise if it is gone."""
        messages = [self.task(make_sink, 0, self.sample(0, 3))]
        self.driver(make_sink, 0, messages).discard()
        again = self.driver(make_sink, 0, messages)
        again.discard()
        again.discard()
        self.driver(make_sink, 0, []).discard()
        self.expect()

    def test_discard_keeps_what_was_published(self, make_sink: MakeSink) -> None:
        """Where only the answer to a successful commit was lost, the host discards what is published already."""
        messages = self.commit(make_sink, 0, self.sample(0, 3))
        self.driver(make_sink, 0, messages).discard()
        self.expect(self.sample(0, 3))

    def test_of_two_drivers_one_wins(self, make_sink: MakeSink) -> None:
        """A driver that was given up and its successor publish the same epoch at once: its rows are there once."""
        self.commit(make_sink, 0, self.sample(0, 3))
        drivers = [self.driver(make_sink, 1, [self.task(make_sink, 1, self.sample(3, 3))]) for _ in range(4)]
        start = threading.Barrier(len(drivers))
        errors: list[Exception] = []

        def race(sink: Any) -> None:
            start.wait()
            try:
                sink.on_checkpoint(1)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=race, args=(sink,)) for sink in drivers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(isinstance(error, VolleyError) for error in errors), errors
        assert len(errors) < len(drivers), f"nobody won: {errors}"
        self.expect(self.sample(0, 6))

    @pytest.mark.parametrize("name", NASTY)
    def test_nasty_data_comes_through_staging(self, make_sink: MakeSink, name: str) -> None:
        if name not in self.refuses:
            self.commit(make_sink, 0, NASTY[name], NASTY[name])
            self.expect(NASTY[name], NASTY[name])
            return
        with pytest.raises(VolleyError):
            self.commit(make_sink, 0, NASTY[name])


class EpochSinkSuite(SinkSuite):
    """Also for a sink that knows its query: what it does about epochs, other queries and replaced rows."""

    def run(self, sink: Any, epoch: int, table: pa.Table, query_id: str = QUERY, **context: Any) -> None:
        self.begin(sink, epoch, query_id, **context)
        for record in records(table):
            sink.write(record)
        sink.flush()
        sink.on_checkpoint(epoch)

    def test_has_the_methods_of_an_epoch_sink(self, make_sink: MakeSink) -> None:
        assert isinstance(make_sink(), EpochSink)

    def test_another_query_under_the_same_pipeline_id_is_refused(self, make_sink: MakeSink) -> None:
        """Another query owns what this one wants to write."""
        self.run(make_sink(), 0, self.sample(0, 3))
        with pytest.raises(PipelineConflictError, match="adopt_pipeline"):
            self.run(make_sink(), 0, self.sample(3, 3), OTHER_QUERY)
        self.expect(self.sample(0, 3))

    def test_a_query_may_adopt_a_pipeline(self, make_sink: MakeSink) -> None:
        """Take over a pipeline_id of an earlier query: its epochs count anew, and nothing of it is skipped."""
        self.run(make_sink(), 0, self.sample(0, 3))
        self.run(make_sink(adopt_pipeline=True), 0, self.sample(3, 3), OTHER_QUERY)
        self.run(make_sink(adopt_pipeline=True), 0, self.sample(3, 3), OTHER_QUERY)
        self.run(make_sink(), 1, self.sample(6, 3), OTHER_QUERY)
        self.expect(self.sample(0, 9))

    def test_the_query_that_lost_its_pipeline_is_refused(self, make_sink: MakeSink) -> None:
        """A zombie of the earlier query cannot go on once another query took over."""
        self.run(make_sink(), 0, self.sample(0, 3))
        self.run(make_sink(adopt_pipeline=True), 0, self.sample(3, 3), OTHER_QUERY)
        with pytest.raises(PipelineConflictError):
            self.run(make_sink(), 1, self.sample(900, 3))
        self.expect(self.sample(0, 6))

    def test_two_pipelines_may_write_to_one_target(self, make_sink: MakeSink) -> None:
        """Names this pipeline in the sink: each pipeline_id has its own epochs."""
        self.run(make_sink(pipeline_id="left"), 0, self.sample(0, 3))
        self.run(make_sink(pipeline_id="right"), 0, self.sample(3, 3), OTHER_QUERY)
        self.expect(self.sample(0, 6))

    def test_an_epoch_may_replace_what_the_sink_held(self, make_sink: MakeSink) -> None:
        """The epoch replaces what the sink held."""
        self.run(make_sink(), 0, self.sample(0, 3))
        self.run(make_sink(), 1, self.sample(10, 2), replace=True)
        self.expect(self.sample(10, 2))
        self.run(make_sink(), 1, self.sample(10, 2), replace=True)
        self.run(make_sink(), 2, self.sample(20, 2), replace=True)
        self.expect(self.sample(20, 2))

    def test_batch_writes_append_always(self, make_sink: MakeSink) -> None:
        """A batch write has a query of its own: it is no rival of a pipeline, nor of another batch write."""
        self.run(make_sink(), 0, self.sample(0, 3))
        self.run(make_sink(), 0, self.sample(3, 3), OTHER_QUERY, streaming=False)
        self.run(make_sink(), 0, self.sample(6, 3), "33333333-cccc-4ccc-8ccc-333333333333", streaming=False)
        self.run(make_sink(), 1, self.sample(9, 3))
        self.expect(self.sample(0, 12))

    def test_a_batch_write_may_overwrite(self, make_sink: MakeSink) -> None:
        """A batch write in mode `overwrite`."""
        self.run(make_sink(), 0, self.sample(0, 3), streaming=False)
        self.run(make_sink(), 0, self.sample(10, 2), OTHER_QUERY, streaming=False, replace=True)
        self.expect(self.sample(10, 2))


class PreparedSinkSuite(SinkSuite):
    """Also for a sink with `prepare`."""

    def unfit(self) -> pa.Schema:
        """A schema that the target, once it took `sample` rows, cannot take."""
        raise NotImplementedError("a suite's class says which schema does not fit")

    def test_has_the_methods_of_a_prepared_sink(self, make_sink: MakeSink) -> None:
        assert isinstance(make_sink(), PreparedSink)

    def test_prepare_is_safe_to_repeat(self, make_sink: MakeSink) -> None:
        """Make the target if need be. Safe to repeat."""
        schema = self.sample(0, 1).schema
        sink = self.begin(make_sink(), 0)
        sink.prepare(schema)
        sink.prepare(schema)
        self.begin(make_sink(), 0).prepare(schema)
        self.publish(make_sink(), 0, self.sample(0, 3))
        self.begin(make_sink(), 1).prepare(schema)
        self.expect(self.sample(0, 3))

    def test_prepare_refuses_a_schema_that_cannot_work(self, make_sink: MakeSink) -> None:
        """Raises ConfigError if the query cannot work."""
        self.publish(make_sink(), 0, self.sample(0, 3))
        with pytest.raises(ConfigError):
            self.begin(make_sink(), 1).prepare(self.unfit())
        self.expect(self.sample(0, 3))
