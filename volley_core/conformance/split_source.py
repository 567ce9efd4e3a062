"""The contract of `SplitSource` as tests."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from volley_core.config import SourceConfig
from volley_core.conformance import identity
from volley_core.conformance.nasty import NASTY
from volley_core.conformance.rows import eventually, in_any_order, in_order, sample
from volley_core.protocols import Offset, ReadLimit, SplitSource
from volley_core.records import StreamRecord

MakeSource = Callable[[], Any]
NO_LIMIT = ReadLimit()


class SplitSourceSuite:
    """Give a fixture `make_source` (a function that makes a new instance on the same upstream) and `feed`.

    `make_source` should make a source that begins with the oldest row, and remembers in one place what it remembers.
    """

    patience_seconds: ClassVar[float] = 10.0
    """How long rows that were fed may take to be seen."""
    settle_seconds: ClassVar[float] = 0.0
    """How long upstream takes until what was fed counts as there; `freeze` is called no sooner."""
    limits: ClassVar[frozenset[str]] = frozenset({"max_files", "max_bytes", "max_rows"})
    """The bounds that this source can know."""
    refuses: ClassVar[dict[str, str]] = {}
    """Names of nasty tables that cannot be fed to this source, with the reason."""

    def feed(self, table: pa.Table) -> None:
        """Put these rows upstream as one item: one file, one message, one pushed batch."""
        raise NotImplementedError("a suite's class says how rows get upstream")

    def sample(self, first: int, count: int) -> pa.Table:
        """Rows that the source can carry, all different from those of another `first`."""
        return sample(first, count)

    def as_read(self, table: pa.Table) -> pa.Table:
        """What comes out when this was fed, where the source adds or changes columns."""
        return table

    def plan(self, source: Any, start: Offset, limit: ReadLimit = NO_LIMIT) -> Offset:
        """The next epoch's end, once there is one; an offset has been through Spark's log when it comes back."""

        def look() -> Offset:
            end: Offset = source.latest_offset(start, limit)
            return end

        return through_log(eventually(look, lambda end: end != start, self.patience_seconds))

    def read(self, source: Any, start: Offset, end: Offset) -> list[StreamRecord]:
        """The rows of an epoch, each split read by a pickled copy as in a task."""
        found: list[StreamRecord] = []
        for split in source.splits(start, end):
            found += pickle.loads(pickle.dumps(source_for_task(source))).read(pickle.loads(pickle.dumps(split)))
        return found

    def drain(self, source: Any, start: Offset, count: int, limit: ReadLimit = NO_LIMIT) -> list[list[StreamRecord]]:
        """Epoch by epoch from `start`, until `count` rows came or nothing more does."""
        epochs: list[list[StreamRecord]] = []
        while sum(row.num_rows for epoch in epochs for row in epoch) < count:
            end = self.plan(source, start, limit)
            if end == start:
                break
            epochs.append(self.read(source, start, end))
            start = end
        return epochs

    def expect(self, found: list[StreamRecord], table: pa.Table) -> None:
        assert in_any_order(found) == in_any_order(self.as_read(table))

    def test_has_the_methods_of_a_split_source(self, make_source: MakeSource) -> None:
        assert isinstance(make_source(), SplitSource)

    def test_connector_id_is_the_same_in_every_run(self, make_source: MakeSource) -> None:
        identity.assert_stable_id(make_source)

    def test_connector_id_holds_no_secret(self, make_source: MakeSource) -> None:
        identity.assert_id_without_secrets(make_source)

    def test_is_made_from_its_config(self, make_source: MakeSource) -> None:
        identity.assert_config_class(make_source, SourceConfig)

    def test_a_pickled_copy_has_the_same_name(self, make_source: MakeSource) -> None:
        """Constructors hold the config and nothing else."""
        assert identity.assert_picklable(make_source).connector_id == make_source().connector_id

    def test_schema_is_that_of_every_record(self, make_source: MakeSource) -> None:
        """The schema of every record that `read` will give."""
        self.feed(self.sample(0, 5))
        source = make_source()
        found = flat(self.drain(source, source.initial_offset(), 5))
        assert found, "nothing was read"
        assert all(record.batch.schema.equals(source.schema()) for record in found)

    def test_schema_does_not_change_while_the_instance_lives(self, make_source: MakeSource) -> None:
        """Must not change while the instance lives."""
        self.feed(self.sample(0, 2))
        source = make_source()
        before = source.schema()
        self.feed(self.sample(2, 2))
        self.plan(source, source.initial_offset())
        assert source.schema().equals(before)

    def test_offsets_are_json(self, make_source: MakeSource) -> None:
        """JSON of str, int, bool, lists and objects."""
        self.feed(self.sample(0, 2))
        source = make_source()
        start = source.initial_offset()
        for offset in (start, self.plan(source, start)):
            assert isinstance(offset, dict)
            assert_json(offset)

    def test_a_query_without_checkpoint_begins_with_what_is_there(self, make_source: MakeSource) -> None:
        """Where a query without a checkpoint begins."""
        self.feed(self.sample(0, 4))
        source = make_source()
        assert source.initial_offset() == make_source().initial_offset()
        self.expect(flat(self.drain(source, source.initial_offset(), 4)), self.sample(0, 4))

    def test_latest_offset_is_start_if_there_is_nothing(self, make_source: MakeSource) -> None:
        """`start` itself if there is nothing."""
        self.feed(self.sample(0, 4))
        source = make_source()
        start = source.initial_offset()
        end = self.plan(source, start)
        self.read(source, start, end)
        assert source.latest_offset(end, NO_LIMIT) == end
        assert list(source.splits(end, end)) == []

    def test_latest_offset_sees_what_arrives_later(self, make_source: MakeSource) -> None:
        """How far to read in the epoch that begins at `start`."""
        self.feed(self.sample(0, 2))
        source = make_source()
        end = self.plan(source, source.initial_offset())
        self.feed(self.sample(2, 3))
        self.expect(flat(self.drain(source, end, 3)), self.sample(2, 3))

    def test_every_row_is_read_once_over_many_epochs(self, make_source: MakeSource) -> None:
        for first in range(0, 12, 3):
            self.feed(self.sample(first, 3))
        source = make_source()
        found = flat(self.drain(source, source.initial_offset(), 12, ReadLimit(max_files=1)))
        self.expect(found, self.sample(0, 12))
        assert all(record.num_rows > 0 for record in found), "a record has one or more rows"

    def test_max_files_holds(self, make_source: MakeSource) -> None:
        """Within `limit`."""
        self._expect_limits(make_source, "max_files", ReadLimit(max_files=2), rows=6)

    def test_max_rows_holds(self, make_source: MakeSource) -> None:
        """Within `limit`."""
        self._expect_limits(make_source, "max_rows", ReadLimit(max_rows=7), rows=7)

    @pytest.mark.parametrize("bound", ["max_files", "max_bytes", "max_rows"])
    def test_limits_hold_together(self, make_source: MakeSource, bound: str) -> None:
        """Every bound that is set holds: the narrow one also beside two wide ones."""
        wide = {"max_files": 1_000_000, "max_bytes": 1_000_000_000, "max_rows": 1_000_000}
        narrow = {"max_files": 1, "max_bytes": 1, "max_rows": 3}
        self._expect_limits(make_source, bound, ReadLimit(**(wide | {bound: narrow[bound]})), rows=3)

    def test_max_bytes_holds(self, make_source: MakeSource) -> None:
        """Within `limit`: where one item fills the bound, no epoch takes two."""
        self._expect_limits(make_source, "max_bytes", ReadLimit(max_bytes=1), rows=3)

    @pytest.mark.parametrize("bound", ["max_files", "max_bytes", "max_rows"])
    def test_an_oversize_item_still_makes_an_epoch(self, make_source: MakeSource, bound: str) -> None:
        """The epoch holds at least one item even if that one alone exceeds the limit."""
        self.feed(self.sample(0, 50))
        self.feed(self.sample(50, 50))
        source = make_source()
        found = flat(self.drain(source, source.initial_offset(), 100, ReadLimit(**{bound: 1})))
        self.expect(found, self.sample(0, 100))

    def test_freeze_comes_to_rest_at_what_is_there(self, make_source: MakeSource) -> None:
        """From now on behave as if nothing new arrived."""
        self.feed(self.sample(0, 3))
        self.feed(self.sample(3, 3))
        source = make_source()
        time.sleep(self.settle_seconds)
        source.freeze()
        self.feed(self.sample(6, 3))
        self.expect(self._until_rest(source), self.sample(0, 6))

    def test_freeze_comes_to_rest_while_data_keeps_arriving(self, make_source: MakeSource) -> None:
        """`latest_offset` must come to rest at what is there now."""
        self.feed(self.sample(0, 3))
        self.feed(self.sample(3, 3))
        source = make_source()
        time.sleep(self.settle_seconds)
        source.freeze()
        found = self._until_rest(source, lambda call: self.feed(self.sample(100 + call * 3, 3)))
        self.expect(found, self.sample(0, 6))

    def test_frozen_without_data_is_at_rest_at_once(self, make_source: MakeSource) -> None:
        """`start` itself if there is nothing, also when frozen."""
        self.feed(self.sample(0, 3))
        first = make_source()
        end = self.plan(first, first.initial_offset())
        restarted = make_source()
        restarted.freeze()
        self.feed(self.sample(3, 3))
        assert through_log(restarted.latest_offset(end, NO_LIMIT)) == end

    def test_what_was_frozen_out_is_read_by_the_next_run(self, make_source: MakeSource) -> None:
        """Freezing leaves rows for later, it does not lose them."""
        self.feed(self.sample(0, 3))
        source = make_source()
        start = source.initial_offset()
        end = self.plan(source, start)
        self.read(source, start, end)
        source.freeze()
        self.feed(self.sample(3, 3))
        source.latest_offset(end, NO_LIMIT)
        self.expect(flat(self.drain(make_source(), end, 3)), self.sample(3, 3))

    def test_a_planned_epoch_survives_a_crash(self, make_source: MakeSource) -> None:
        """When this returns, whatever `splits(start, end)` needs is durable."""
        self.feed(self.sample(0, 5))
        source = make_source()
        start = through_log(source.initial_offset())
        end = self.plan(source, start)
        del source
        self.expect(self.read(make_source(), start, end), self.sample(0, 5))

    def test_a_replayed_epoch_has_the_same_splits_and_rows(self, make_source: MakeSource) -> None:
        """The same rows for the same two offsets, also on a new instance after a crash."""
        self.feed(self.sample(0, 4))
        self.feed(self.sample(4, 4))
        source = make_source()
        start = through_log(source.initial_offset())
        end = self.plan(source, start)
        before = [in_order(list(source.read(split))) for split in source.splits(start, end)]
        self.feed(self.sample(8, 4))
        restarted = make_source()
        after = [in_order(list(restarted.read(split))) for split in restarted.splits(start, end)]
        assert after == before
        assert [in_order(list(source.read(split))) for split in source.splits(start, end)] == before

    def test_a_crash_after_reading_replays_the_epoch(self, make_source: MakeSource) -> None:
        """A replay reads the epoch again, and the epoch after it goes on behind it."""
        self.feed(self.sample(0, 4))
        source = make_source()
        start = through_log(source.initial_offset())
        end = self.plan(source, start)
        self.read(source, start, end)
        self.feed(self.sample(4, 2))
        restarted = make_source()
        self.expect(self.read(restarted, start, end), self.sample(0, 4))
        self.expect(flat(self.drain(restarted, end, 2)), self.sample(4, 2))

    def test_a_plan_that_was_never_logged_loses_and_doubles_nothing(self, make_source: MakeSource) -> None:
        """A crash between `latest_offset` and Spark's log: the next start plans from the same `start` again."""
        self.feed(self.sample(0, 4))
        source = make_source()
        start = through_log(source.initial_offset())
        self.plan(source, start)
        self.feed(self.sample(4, 4))
        restarted = make_source()
        self.expect(flat(self.drain(restarted, start, 8)), self.sample(0, 8))

    def test_what_is_durable_downstream_is_not_read_again(self, make_source: MakeSource) -> None:
        """Everything before `start` is durable downstream when this is called, so it may be acknowledged here."""
        self.feed(self.sample(0, 4))
        source = make_source()
        start = through_log(source.initial_offset())
        end = self.plan(source, start)
        self.read(source, start, end)
        assert source.latest_offset(end, NO_LIMIT) == end
        self.feed(self.sample(4, 2))
        self.expect(flat(self.drain(make_source(), end, 2)), self.sample(4, 2))

    def test_reading_a_split_again_gives_the_same_rows_in_the_same_order(self, make_source: MakeSource) -> None:
        """Reading a split again gives the same rows in the same order."""
        self.feed(self.sample(0, 6))
        self.feed(self.sample(6, 6))
        source = make_source()
        start = source.initial_offset()
        splits = source.splits(start, self.plan(source, start))
        assert splits
        for split in splits:
            assert in_order(list(source.read(split))) == in_order(list(make_source().read(split)))

    def test_splits_are_picklable(self, make_source: MakeSource) -> None:
        """A picklable piece of one epoch's input."""
        self.feed(self.sample(0, 6))
        source = make_source()
        start = source.initial_offset()
        for split in source.splits(start, self.plan(source, start)):
            copy = pickle.loads(pickle.dumps(split))
            assert in_order(list(make_source().read(copy))) == in_order(list(source.read(split)))

    def test_close_may_be_called_twice(self, make_source: MakeSource) -> None:
        """May be called twice."""
        self.feed(self.sample(0, 2))
        source = make_source()
        self.plan(source, source.initial_offset())
        source.close()
        source.close()

    def test_close_may_come_first(self, make_source: MakeSource) -> None:
        """Let go of connections and threads: also if there are none."""
        make_source().close()

    @pytest.mark.parametrize("name", NASTY)
    def test_nasty_data_comes_through(self, make_source: MakeSource, name: str) -> None:
        if name in self.refuses:
            pytest.xfail(self.refuses[name])
        self.feed(NASTY[name])
        source = make_source()
        expected = self.as_read(NASTY[name])
        found = flat(self.drain(source, source.initial_offset(), expected.num_rows))
        assert in_any_order(found) == in_any_order(expected)
        assert all(record.batch.schema.equals(source.schema()) for record in found)

    def _expect_limits(self, make_source: MakeSource, bound: str, limit: ReadLimit, rows: int) -> None:
        """Six items of three rows: no epoch holds more than `rows`."""
        for first in range(0, 18, 3):
            self.feed(self.sample(first, 3))
        source = make_source()
        epochs = self.drain(source, source.initial_offset(), 18, limit)
        self.expect(flat(epochs), self.sample(0, 18))
        sizes = [sum(record.num_rows for record in epoch) for epoch in epochs]
        if bound in self.limits:
            assert max(sizes) <= rows, f"epochs of {sizes} rows under {limit}"

    def _until_rest(self, source: Any, between: Callable[[int], None] = lambda call: None) -> list[StreamRecord]:
        found: list[StreamRecord] = []
        start = through_log(source.initial_offset())
        for call in range(20):
            end = through_log(source.latest_offset(start, ReadLimit(max_files=1)))
            if end == start:
                return found
            found += self.read(source, start, end)
            start = end
            between(call)
        raise AssertionError("latest_offset did not come to rest after freeze")


def through_log(offset: Offset) -> Offset:
    """An offset as it comes back from Spark's log."""
    copy: Offset = json.loads(json.dumps(offset))
    assert copy == offset, "an offset equals its JSON copy"
    return copy


def source_for_task(source: Any) -> Any:
    """A new instance made of the config alone, as Spark makes one for its tasks."""
    return type(source)(identity.config_of(source))


def flat(epochs: list[list[StreamRecord]]) -> list[StreamRecord]:
    return [record for epoch in epochs for record in epoch]


def assert_json(value: Any) -> None:
    """Only what Spark's log keeps: str, int, bool, lists and objects."""
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value)
        for item in value.values():
            assert_json(item)
    elif isinstance(value, list):
        for item in value:
            assert_json(item)
    else:
        assert isinstance(value, str | int | bool), f"{value!r} has no place in an offset"
