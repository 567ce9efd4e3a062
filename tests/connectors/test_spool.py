"""A polled source behind its spool: exact replays, whatever dies when."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from volley_connectors import spool
from volley_connectors.spool import RETAINED_EPOCHS, SpoolSource
from volley_core import ConfigError, Offset, PipelineConflictError, ReadLimit, SourceConfig, SplitSource, StreamRecord

SCHEMA = pa.schema([("n", pa.int64())])


class Counter:
    """Counts from 0 to `end`, and goes on where it is told."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.at = 0
        self.checkpoints: list[int] = []

    connector_id = "counter"

    def schema(self) -> pa.Schema:
        return SCHEMA

    def poll(self) -> StreamRecord | None:
        if self.at >= self.end:
            return None
        self.at += 1
        return StreamRecord(pa.record_batch([[self.at - 1]], schema=SCHEMA))

    def on_checkpoint(self, epoch: int) -> None:
        self.checkpoints.append(epoch)

    def position(self) -> Offset:
        return {"at": self.at}

    def seek(self, position: Offset) -> None:
        self.at = position["at"]


class Forgetful(Counter):
    """The same without a position: not resumable."""

    position = seek = None  # type: ignore[assignment]


@pytest.fixture
def config(tmp_path):
    return SourceConfig(state_location=str(tmp_path / "state"))


def rows(source: SplitSource, start: Offset, end: Offset) -> list[int]:
    return [n for split in source.splits(start, end) for r in source.read(split) for n in r.batch.column(0).to_pylist()]


def drain(source: SpoolSource, start: Offset, limit: ReadLimit) -> tuple[list[list[int]], Offset]:
    epochs = []
    while (end := source.latest_offset(start, limit)) != start:
        epochs.append(rows(source, start, end))
        start = end
    return epochs, start


def test_a_spool_is_a_split_source(config):
    assert isinstance(SpoolSource(Counter(1), config), SplitSource)


def test_epochs_keep_within_the_limit_and_lose_nothing(config):
    epochs, end = drain(SpoolSource(Counter(7), config), {"spool": 0}, ReadLimit(max_rows=3))
    assert epochs == [[0, 1, 2], [3, 4, 5], [6]]
    assert end == {"spool": 3}


def test_a_quiet_source_gives_no_epoch(config):
    assert SpoolSource(Counter(0), config).latest_offset({"spool": 0}, ReadLimit()) == {"spool": 0}


def test_upstream_is_told_only_once_the_rows_are_stored(config, monkeypatch):
    source = Counter(5)
    spooled = SpoolSource(source, config)
    monkeypatch.setattr(spooled, "_store_epoch", lambda *args: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        spooled.latest_offset({"spool": 0}, ReadLimit())
    assert source.checkpoints == []


def test_the_same_offsets_give_the_same_rows_on_a_new_instance(config):
    first = SpoolSource(Counter(6), config)
    end = first.latest_offset({"spool": 0}, ReadLimit(max_rows=4))
    assert rows(SpoolSource(Counter(0), config), {"spool": 0}, end) == [0, 1, 2, 3]


def test_rows_stored_but_never_seen_by_spark_are_taken_over(config):
    """The driver died between storing the epoch and Spark's write-ahead log."""
    SpoolSource(Counter(10), config).latest_offset({"spool": 0}, ReadLimit(max_rows=4))
    epochs, _ = drain(SpoolSource(Counter(10), config), {"spool": 0}, ReadLimit(max_rows=4))
    assert epochs == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_checkpoint_restored_from_a_backup_replays_the_stored_epochs_in_order(config):
    before, _ = drain(SpoolSource(Counter(9), config), {"spool": 0}, ReadLimit(max_rows=3))
    after, _ = drain(SpoolSource(Counter(12), config), {"spool": 1}, ReadLimit(max_rows=3))
    assert after == [*before[1:], [9, 10, 11]]


def test_a_source_without_a_position_is_still_replayed_exactly(config):
    first = SpoolSource(Forgetful(4), config)
    end = first.latest_offset({"spool": 0}, ReadLimit())
    restarted = SpoolSource(Forgetful(0), config)
    assert rows(restarted, {"spool": 0}, end) == [0, 1, 2, 3]
    assert restarted.latest_offset(end, ReadLimit()) == end


def test_a_second_query_on_the_same_state_location_is_refused(config):
    first, second = SpoolSource(Counter(5), config), SpoolSource(Counter(5), config)
    assert second.latest_offset({"spool": 0}, ReadLimit(max_rows=1)) == {"spool": 1}
    # `first` looked before `second` wrote: the create itself must refuse it.
    first._last = 0
    with pytest.raises(PipelineConflictError, match="state_location of its own"):
        first.latest_offset({"spool": 0}, ReadLimit(max_rows=1))


def test_a_wiped_state_location_is_an_error_and_not_a_silent_restart(config):
    with pytest.raises(ConfigError, match="checkpoint is at epoch 3 .* holds only 0"):
        SpoolSource(Counter(5), config).latest_offset({"spool": 3}, ReadLimit())


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_state_location_is_required(delivery):
    with pytest.raises(ConfigError, match="'state_location' is required"):
        SpoolSource(Counter(5), SourceConfig(delivery=delivery)).latest_offset({"spool": 0}, ReadLimit())


def test_old_epochs_are_removed_and_recent_ones_kept(config, tmp_path):
    _, end = drain(SpoolSource(Counter(30), config), {"spool": 0}, ReadLimit(max_rows=1))
    kept = sorted(path.name for path in (tmp_path / "state" / "spool").iterdir())
    assert kept == [f"{n:020d}.arrow" for n in range(30 - RETAINED_EPOCHS + 1, 31)]
    SpoolSource(Counter(30), config).latest_offset({"spool": 30}, ReadLimit())
    assert end == {"spool": 30}


def test_old_epochs_left_by_a_crash_are_removed_at_the_next_start(config, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(SpoolSource, "_forget", lambda self, number: None)
        drain(SpoolSource(Counter(15), config), {"spool": 0}, ReadLimit(max_rows=1))
    SpoolSource(Counter(15), config).latest_offset({"spool": 15}, ReadLimit())
    assert len(list((tmp_path / "state" / "spool").iterdir())) == RETAINED_EPOCHS


def test_a_frozen_source_comes_to_rest_although_rows_keep_arriving(config):
    source = Counter(4)
    spooled = SpoolSource(source, config)
    spooled.freeze()
    epochs: list[list[int]] = []
    start = spooled.initial_offset()
    while (end := spooled.latest_offset(start, ReadLimit(max_rows=3))) != start:
        epochs.append(rows(spooled, start, end))
        start = end
        source.end += 1 if len(epochs) > 1 else 0
    assert epochs == [[0, 1, 2], [3]]


def test_a_source_that_never_pauses_does_not_hold_back_its_epoch(config, monkeypatch):
    monkeypatch.setattr(spool, "MAX_EPOCH_SECONDS", 0.2)
    end = SpoolSource(Counter(10**9), config).latest_offset({"spool": 0}, ReadLimit())
    assert end == {"spool": 1}


def test_an_epoch_is_bounded_in_bytes_even_without_a_limit(config, monkeypatch):
    monkeypatch.setattr(spool, "MAX_EPOCH_BYTES", 80)
    epochs, _ = drain(SpoolSource(Counter(25), config), {"spool": 0}, ReadLimit())
    assert [len(epoch) for epoch in epochs] == [10, 10, 5]


def test_a_missing_epoch_file_names_the_location_and_the_remedy(config):
    source = SpoolSource(Counter(3), config)
    splits: Sequence[tuple[str, str]] = source.splits({"spool": 4}, {"spool": 5})
    with pytest.raises(ConfigError, match="restore it"):
        list(source.read(splits[0]))
