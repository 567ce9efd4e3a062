"""The suites for sinks and split sources catch connectors that break a sentence of the contract.

Each defect is put into a memory connector that keeps the whole contract (tests/connectors/test_memory.py).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from volley_connectors.memory import MemorySink, MemorySinkConfig, MemorySource, MemorySourceConfig
from volley_connectors.memory.source import BatchSplit
from volley_core import (
    ConfigError,
    EpochContext,
    Offset,
    PipelineConflictError,
    ReadLimit,
    StreamRecord,
)
from volley_core.conformance import (
    EpochSinkSuite,
    PreparedSinkSuite,
    SplitSourceSuite,
    StagingSinkSuite,
)


@pytest.fixture(autouse=True)
def memory_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOLLEY_MEMORY_DIR", str(tmp_path))


class AnySinkSuite(StagingSinkSuite, EpochSinkSuite):
    def published(self) -> pa.Table:
        return MemorySink.handle("channel").table()


class PublishesAtFlush(MemorySink):
    def flush(self) -> None:
        super().flush()
        super().on_checkpoint(self._context.epoch)


class DoublesOnTheSecondCheckpoint(MemorySink):
    """Forgets by whom and when an epoch was published, as a sink without a tag does."""

    calls = 0

    def on_checkpoint(self, epoch: int) -> None:
        type(self).calls += 1
        staged = list(self._staged)
        self._context = EpochContext(f"call {self.calls}", epoch, streaming=False)
        super().on_checkpoint(epoch)
        self._staged = staged


class ForgetsTheEpoch(MemorySink):
    """Every commit gets a number of its own, so that a replay is not recognised."""

    commits = 0

    def on_checkpoint(self, epoch: int) -> None:
        type(self).commits += 1
        super().on_checkpoint(self.commits)


class PublishesFileByFile(MemorySink):
    def on_checkpoint(self, epoch: int) -> None:
        staged, self._staged = self._staged, []
        for number, one in enumerate(staged):
            self._staged = [one]
            super().on_checkpoint(epoch * 1000 + number)
            time.sleep(0.05)


class KeepsRowsInTheProcess(MemorySink):
    """Says "staged" but gives the driver nothing to find."""

    def staged(self) -> bytes:
        return b"[]"


class LosesAllButTheLastFlush(MemorySink):
    def flush(self) -> None:
        super().flush()
        self._staged = self._staged[-1:]


class DiscardRaises(MemorySink):
    def discard(self) -> None:
        for staged in self._staged:
            (self._channel.path / "staged" / staged.file).unlink()


class DiscardRemovesPublished(MemorySink):
    def discard(self) -> None:
        for staged in self._staged:
            (self._channel.path / "staged" / staged.file).unlink(missing_ok=True)


class ChecksThenCommits(MemorySink):
    """Reads the tag first and commits later: two drivers that race both find no tag."""

    def on_checkpoint(self, epoch: int) -> None:
        known = any(commit.epoch == epoch for commit in self._log.commits())
        time.sleep(0.1)
        if not known:
            self._context = EpochContext(f"{random.random()}", epoch, streaming=False)
            super().on_checkpoint(epoch)


class LetsEveryQueryIn(MemorySink):
    def begin(self, context: EpochContext) -> None:
        self.config = self.config.with_adopt_pipeline(True)
        super().begin(context)


class SkipsOtherQueriesSilently(MemorySink):
    def on_checkpoint(self, epoch: int) -> None:
        try:
            super().on_checkpoint(epoch)
        except PipelineConflictError:
            return


class IgnoresReplace(MemorySink):
    def begin(self, context: EpochContext) -> None:
        super().begin(EpochContext(context.query_id, context.epoch, streaming=context.streaming))


class HoldsAClient(MemorySink):
    def __init__(self, config: MemorySinkConfig) -> None:
        super().__init__(config)
        self.client = iter(lambda: None, 1)


class ChangesItsName(MemorySink):
    @property
    def connector_id(self) -> str:
        return f"memory:{id(self)}"


class RefusesNulls(MemorySink):
    def write(self, record: StreamRecord) -> None:
        columns = record.batch.columns
        if any(column.null_count for column in columns):
            return
        super().write(record)


SINK_DEFECTS: list[tuple[type[MemorySink], str, dict[str, Any]]] = [
    (PublishesAtFlush, "test_nothing_is_visible_before_on_checkpoint", {}),
    (PublishesAtFlush, "test_staged_rows_stay_invisible_by_themselves", {}),
    (DoublesOnTheSecondCheckpoint, "test_on_checkpoint_twice_changes_nothing", {}),
    (ForgetsTheEpoch, "test_a_replay_after_a_crash_publishes_once", {"last_step": "on_checkpoint"}),
    (ForgetsTheEpoch, "test_a_replay_after_a_crash_on_spark_publishes_once", {"last_step": "on_checkpoint"}),
    (ForgetsTheEpoch, "test_the_same_staged_work_adopted_twice_is_published_once", {}),
    (PublishesFileByFile, "test_on_checkpoint_publishes_in_one_step", {}),
    (PublishesFileByFile, "test_staged_work_of_many_tasks_is_published_in_one_step", {}),
    (KeepsRowsInTheProcess, "test_what_tasks_staged_another_instance_publishes", {}),
    (LosesAllButTheLastFlush, "test_flush_covers_every_record_so_far", {}),
    (DiscardRaises, "test_discard_does_not_raise_if_it_is_gone", {}),
    (DiscardRemovesPublished, "test_discard_keeps_what_was_published", {}),
    (ChecksThenCommits, "test_of_two_drivers_one_wins", {}),
    (LetsEveryQueryIn, "test_another_query_under_the_same_pipeline_id_is_refused", {}),
    (LetsEveryQueryIn, "test_the_query_that_lost_its_pipeline_is_refused", {}),
    (SkipsOtherQueriesSilently, "test_another_query_under_the_same_pipeline_id_is_refused", {}),
    (IgnoresReplace, "test_an_epoch_may_replace_what_the_sink_held", {}),
    (IgnoresReplace, "test_a_batch_write_may_overwrite", {}),
    (HoldsAClient, "test_a_pickled_copy_writes_to_the_same_target", {}),
    (ChangesItsName, "test_connector_id_is_the_same_in_every_run", {}),
    (RefusesNulls, "test_nasty_data_comes_through", {"name": "some_nulls"}),
]


@pytest.mark.parametrize(("broken", "test", "arguments"), SINK_DEFECTS)
def test_the_sink_suites_catch(broken: type[MemorySink], test: str, arguments: dict[str, Any]) -> None:
    caught(AnySinkSuite(), test, broken, lambda **options: broken(MemorySinkConfig("channel", **options)), arguments)


class PreparesNothing(MemorySink):
    def prepare(self, schema: pa.Schema) -> None:
        """Accepts every schema."""


class ChecksTheTarget(MemorySink):
    def prepare(self, schema: pa.Schema) -> None:
        held = MemorySink.handle("channel").table().schema
        if held.names and not held.equals(schema):
            raise ConfigError("the target has other columns")


class PreparedSuite(PreparedSinkSuite):
    def published(self) -> pa.Table:
        return MemorySink.handle("channel").table()

    def unfit(self) -> pa.Schema:
        return pa.schema([("other", pa.int64())])


class TestChecksTheTarget(PreparedSuite):
    @pytest.fixture
    def make_sink(self) -> Any:
        return lambda **options: ChecksTheTarget(MemorySinkConfig("channel", **options))


def test_the_prepared_sink_suite_catches_a_sink_that_checks_nothing() -> None:
    test = "test_prepare_refuses_a_schema_that_cannot_work"
    broken = PreparesNothing
    caught(PreparedSuite(), test, broken, lambda **options: broken(MemorySinkConfig("channel", **options)), {})


class AnySourceSuite(SplitSourceSuite):
    patience_seconds = 0.2

    def feed(self, table: pa.Table) -> None:
        MemorySource.handle("channel").push(table.combine_chunks())


class LosesRowsOnReplay(MemorySource):
    """Keeps its plan in the instance: a new one after a crash has none."""

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        self.planned = True
        return super().latest_offset(start, limit)

    def splits(self, start: Offset, end: Offset) -> Sequence[Any]:
        return super().splits(start, end) if hasattr(self, "planned") else []


class PlansAgainOnReplay(MemorySource):
    """Asks upstream what there is now, instead of what the offset says."""

    def splits(self, start: Offset, end: Offset) -> Sequence[Any]:
        return super().splits(start, {"next": self._pushed.count()})


class ReadsInAnyOrder(MemorySource):
    def read(self, split: Any) -> Iterator[StreamRecord]:
        for record in super().read(split):
            order = random.sample(range(record.num_rows), record.num_rows)
            yield StreamRecord(record.batch.take(pa.array(order)))


class NeverFreezes(MemorySource):
    def freeze(self) -> None:
        """Goes on as before."""


class FreezesToNothing(MemorySource):
    def freeze(self) -> None:
        self._frozen = 0


class IgnoresLimits(MemorySource):
    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        return super().latest_offset(start, ReadLimit())


class KnowsOneLimit(MemorySource):
    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        first = limit.max_files is not None
        return super().latest_offset(start, ReadLimit(max_files=limit.max_files) if first else limit)


class StallsAtALargeItem(MemorySource):
    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        end = super().latest_offset(start, limit)
        rows = sum(self._length(number) for number in range(start["next"], end["next"]))
        return end if limit.allows(rows=rows) else start


class GivesAnotherSchema(MemorySource):
    def read(self, split: Any) -> Iterator[StreamRecord]:
        for record in super().read(split):
            yield StreamRecord(record.batch.rename_columns(["ID", "NAME"]))


class OffsetsOfFloats(MemorySource):
    def initial_offset(self) -> Offset:
        return {"next": 0, "since": 1.5}


class ReadsFromTheBeginning(MemorySource):
    def splits(self, start: Offset, end: Offset) -> Sequence[Any]:
        return [BatchSplit(0, end["next"])] if start != end else []


class SkipsWhatIsThere(MemorySource):
    def initial_offset(self) -> Offset:
        return {"next": self._pushed.count()}


class SplitsThatHoldAFunction(MemorySource):
    def splits(self, start: Offset, end: Offset) -> Sequence[Any]:
        return [lambda split=split: split for split in super().splits(start, end)]

    def read(self, split: Any) -> Iterator[StreamRecord]:
        return super().read(split())


class ClosesOnce(MemorySource):
    def close(self) -> None:
        self._lengths.clear()
        del self._lengths


class EmptyRecords(MemorySource):
    def read(self, split: Any) -> Iterator[StreamRecord]:
        for record in super().read(split):
            yield StreamRecord(record.batch.slice(0, 0))
            yield record


SOURCE_DEFECTS: list[tuple[type[MemorySource], str, dict[str, Any]]] = [
    (LosesRowsOnReplay, "test_a_planned_epoch_survives_a_crash", {}),
    (LosesRowsOnReplay, "test_a_crash_after_reading_replays_the_epoch", {}),
    (PlansAgainOnReplay, "test_a_replayed_epoch_has_the_same_splits_and_rows", {}),
    (ReadsInAnyOrder, "test_reading_a_split_again_gives_the_same_rows_in_the_same_order", {}),
    (NeverFreezes, "test_freeze_comes_to_rest_at_what_is_there", {}),
    (NeverFreezes, "test_freeze_comes_to_rest_while_data_keeps_arriving", {}),
    (FreezesToNothing, "test_freeze_comes_to_rest_at_what_is_there", {}),
    (IgnoresLimits, "test_max_files_holds", {}),
    (IgnoresLimits, "test_max_rows_holds", {}),
    (IgnoresLimits, "test_max_bytes_holds", {}),
    (KnowsOneLimit, "test_limits_hold_together", {"bound": "max_rows"}),
    (StallsAtALargeItem, "test_an_oversize_item_still_makes_an_epoch", {"bound": "max_rows"}),
    (GivesAnotherSchema, "test_schema_is_that_of_every_record", {}),
    (OffsetsOfFloats, "test_offsets_are_json", {}),
    (ReadsFromTheBeginning, "test_every_row_is_read_once_over_many_epochs", {}),
    (ReadsFromTheBeginning, "test_what_is_durable_downstream_is_not_read_again", {}),
    (SkipsWhatIsThere, "test_a_query_without_checkpoint_begins_with_what_is_there", {}),
    (SplitsThatHoldAFunction, "test_splits_are_picklable", {}),
    (ClosesOnce, "test_close_may_be_called_twice", {}),
    (EmptyRecords, "test_every_row_is_read_once_over_many_epochs", {}),
]


@pytest.mark.parametrize(("broken", "test", "arguments"), SOURCE_DEFECTS)
def test_the_split_source_suite_catches(broken: type[MemorySource], test: str, arguments: dict[str, Any]) -> None:
    caught(AnySourceSuite(), test, broken, lambda: broken(MemorySourceConfig("channel")), arguments)


ERRORS: dict[type, tuple[type[BaseException], str | None]] = {
    DiscardRaises: (FileNotFoundError, "staged"),
    DiscardRemovesPublished: (FileNotFoundError, "staged"),
    LetsEveryQueryIn: (pytest.fail.Exception, "DID NOT RAISE"),
    SkipsOtherQueriesSilently: (pytest.fail.Exception, "DID NOT RAISE"),
    PreparesNothing: (pytest.fail.Exception, "DID NOT RAISE"),
    HoldsAClient: (Exception, "pickle"),
    SplitsThatHoldAFunction: (Exception, "pickle"),
    ClosesOnce: (AttributeError, "_lengths"),
}
"""How a defect shows, where it is not an assertion of the suite: so that a slip in this file is not taken for one."""


def caught(suite: Any, test: str, broken: type, make: Any, arguments: dict[str, Any]) -> None:
    """The named test of the suite fails for what `make` makes."""
    error, message = ERRORS.get(broken, (AssertionError, None))
    with pytest.raises(error, match=message):
        getattr(suite, test)(make, **arguments)
