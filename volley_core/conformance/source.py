"""The contracts of `Source` and `ResumableSource` as tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa

from volley_core.config import SourceConfig
from volley_core.conformance import identity
from volley_core.conformance.rows import eventually, in_any_order, sample
from volley_core.protocols import ResumableSource, Source
from volley_core.records import StreamRecord

MakeSource = Callable[[], Any]


class SourceSuite:
    """Give a fixture `make_source` (a function that makes a new instance on the same upstream) and `feed`."""

    patience_seconds: ClassVar[float] = 10.0
    """How long rows that were fed may take to come out."""

    def feed(self, table: pa.Table) -> None:
        """Put these rows upstream."""
        raise NotImplementedError("a suite's class says how rows get upstream")

    def sample(self, first: int, count: int) -> pa.Table:
        """Rows that the source can carry, all different from those of another `first`."""
        return sample(first, count)

    def as_read(self, table: pa.Table) -> pa.Table:
        """What comes out when this was fed, where the source adds or changes columns."""
        return table

    def drain(self, source: Any, count: int) -> list[StreamRecord]:
        """Poll until `count` rows came, or patience ends."""
        found: list[StreamRecord] = []

        def look() -> int:
            record = source.poll()
            if record is not None:
                found.append(record)
            return sum(record.num_rows for record in found)

        eventually(look, lambda rows: rows >= count, self.patience_seconds)
        return found

    def test_has_the_methods_of_a_source(self, make_source: MakeSource) -> None:
        assert isinstance(make_source(), Source)

    def test_connector_id_is_the_same_in_every_run(self, make_source: MakeSource) -> None:
        identity.assert_stable_id(make_source)

    def test_connector_id_holds_no_secret(self, make_source: MakeSource) -> None:
        identity.assert_id_without_secrets(make_source)

    def test_is_made_from_its_config(self, make_source: MakeSource) -> None:
        identity.assert_config_class(make_source, SourceConfig)

    def test_a_pickled_copy_reads_the_same_rows(self, make_source: MakeSource) -> None:
        """Constructors hold the config and nothing else."""
        self.feed(self.sample(0, 5))
        copy = identity.assert_picklable(make_source)
        assert in_any_order(self.drain(copy, 5)) == in_any_order(self.as_read(self.sample(0, 5)))

    def test_schema_is_that_of_every_record(self, make_source: MakeSource) -> None:
        """The schema of every record that `poll` will give."""
        self.feed(self.sample(0, 5))
        source = make_source()
        schema = source.schema()
        found = self.drain(source, 5)
        assert found, "nothing was polled"
        assert all(record.batch.schema.equals(schema) for record in found)

    def test_poll_gives_every_row_once(self, make_source: MakeSource) -> None:
        """Return the next record."""
        self.feed(self.sample(0, 7))
        self.feed(self.sample(7, 3))
        found = self.drain(make_source(), 10)
        assert in_any_order(found) == in_any_order(self.as_read(self.sample(0, 10)))
        assert all(record.num_rows > 0 for record in found), "a record has one or more rows"

    def test_poll_gives_none_if_nothing_is_ready(self, make_source: MakeSource) -> None:
        """None if none is ready yet."""
        self.feed(self.sample(0, 2))
        source = make_source()
        self.drain(source, 2)
        assert source.poll() is None

    def test_none_is_not_the_end(self, make_source: MakeSource) -> None:
        """None is not the end: the host will call again."""
        self.feed(self.sample(0, 2))
        source = make_source()
        self.drain(source, 2)
        assert source.poll() is None
        self.feed(self.sample(2, 3))
        assert in_any_order(self.drain(source, 3)) == in_any_order(self.as_read(self.sample(2, 3)))

    def test_rows_not_checkpointed_come_again_after_a_crash(self, make_source: MakeSource) -> None:
        """Polled rows may be acknowledged upstream in `on_checkpoint`, so not before."""
        self.feed(self.sample(0, 4))
        self.drain(make_source(), 4)
        assert in_any_order(self.drain(make_source(), 4)) == in_any_order(self.as_read(self.sample(0, 4)))

    def test_on_checkpoint_may_be_called_twice(self, make_source: MakeSource) -> None:
        """May be called twice."""
        self.feed(self.sample(0, 2))
        source = make_source()
        self.drain(source, 2)
        source.on_checkpoint(0)
        source.on_checkpoint(0)
        self.feed(self.sample(2, 2))
        assert in_any_order(self.drain(source, 2)) == in_any_order(self.as_read(self.sample(2, 2)))

    def test_on_checkpoint_keeps_what_was_not_polled(self, make_source: MakeSource) -> None:
        """Everything polled *before* this call is durable; what came later is not, and a crash loses none of it."""
        self.feed(self.sample(0, 2))
        source = make_source()
        self.drain(source, 2)
        self.feed(self.sample(2, 3))
        source.on_checkpoint(0)
        position = source.position() if isinstance(source, ResumableSource) else None
        restarted = make_source()
        if position is not None:
            restarted.seek(position)
        late = set(in_any_order(self.as_read(self.sample(2, 3))))
        assert late <= set(in_any_order(self.drain(restarted, 3)))


class ResumableSourceSuite(SourceSuite):
    """Also for a source with `position` and `seek`."""

    def test_has_the_methods_of_a_resumable_source(self, make_source: MakeSource) -> None:
        assert isinstance(make_source(), ResumableSource)

    def test_position_is_json(self, make_source: MakeSource) -> None:
        """Taken after each poll and stored with what was polled."""
        self.feed(self.sample(0, 2))
        source = make_source()
        for position in (source.position(), self.drain(source, 2) and source.position()):
            assert isinstance(position, dict)
            assert json.loads(json.dumps(position)) == position

    def test_position_does_not_move_the_source(self, make_source: MakeSource) -> None:
        """Where the next `poll` will read."""
        self.feed(self.sample(0, 3))
        source = make_source()
        assert source.position() == source.position()
        assert in_any_order(self.drain(source, 3)) == in_any_order(self.as_read(self.sample(0, 3)))

    def test_a_crash_after_polling_loses_and_doubles_nothing(self, make_source: MakeSource) -> None:
        """Go on from a `position` of an earlier instance."""
        self.feed(self.sample(0, 3))
        source = make_source()
        before = self.drain(source, 3)
        position = json.loads(json.dumps(source.position()))
        self.feed(self.sample(3, 4))
        restarted = make_source()
        restarted.seek(position)
        after = self.drain(restarted, 4)
        assert in_any_order(before + after) == in_any_order(self.as_read(self.sample(0, 7)))

    def test_a_position_goes_on_after_on_checkpoint(self, make_source: MakeSource) -> None:
        """A `position` stays good when what lies before it was acknowledged."""
        self.feed(self.sample(0, 3))
        source = make_source()
        self.drain(source, 3)
        position = source.position()
        source.on_checkpoint(0)
        self.feed(self.sample(3, 2))
        restarted = make_source()
        restarted.seek(position)
        assert in_any_order(self.drain(restarted, 2)) == in_any_order(self.as_read(self.sample(3, 2)))

    def test_seeking_to_an_unacknowledged_position_reads_the_same_rows(self, make_source: MakeSource) -> None:
        """The rows between a position and now come again, exactly those."""
        self.feed(self.sample(0, 2))
        source = make_source()
        self.drain(source, 2)
        position = source.position()
        self.feed(self.sample(2, 3))
        first = self.drain(source, 3)
        restarted = make_source()
        restarted.seek(position)
        assert in_any_order(self.drain(restarted, 3)) == in_any_order(first)
