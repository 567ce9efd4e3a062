"""The source `volley-files`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from volley_connectors.blob.cleaned import CleaningLog
from volley_connectors.blob.history import SCHEMA, History
from volley_connectors.blob.history_source import HistorySource, HistorySourceConfig
from volley_connectors.blob.manifests import Entry, ManifestLog
from volley_connectors.blob.reports import BlobReport, Reports
from volley_connectors.state import StateStore
from volley_core import BlobRef, ConfigError, Offset, ReadLimit
from volley_core.conformance import NASTY, SplitSourceSuite

ALL = ReadLimit()
START: Offset = {"manifest": 0}
COLUMNS = ("epoch", "planned_at")


class TestVolleyFiles(SplitSourceSuite):
    """Told at once, so that every epoch that is fed can be seen."""

    limits = frozenset({"max_files"})
    refuses = dict.fromkeys(NASTY, "a history has a schema of its own")

    @pytest.fixture
    def make_source(self, tmp_path: Path) -> Callable[[], HistorySource]:
        self.location = str(tmp_path)
        return lambda: HistorySource(HistorySourceConfig(location=self.location, delivery="at-least-once"))

    def feed(self, table: pa.Table) -> None:
        manifests = ManifestLog(StateStore(self.location))
        blobs = [BlobRef(row["uri"], row["size"], row["version"]) for row in table.to_pylist()]
        manifests.write(manifests.last() + 1, [Entry(blob, "m") for blob in blobs])

    def sample(self, first: int, count: int) -> pa.Table:
        rows = [
            {"uri": f"s3://b/{number}", "version": "v", "size": 1, "state": "planned", "message_id": "m"}
            for number in range(first, first + count)
        ]
        return pa.Table.from_pylist(rows, pa.schema([field for field in SCHEMA if field.name not in COLUMNS]))

    def as_read(self, table: pa.Table) -> pa.Table:
        known = {
            row["uri"]: {name: row[name] for name in COLUMNS}
            for batch in History(self.location).batches()
            for row in batch.to_pylist()
        }
        return pa.Table.from_pylist([row | known[row["uri"]] for row in table.to_pylist()], SCHEMA)


def write(location: Path, *numbers: int, report: bool = True) -> None:
    store = StateStore(str(location))
    for number in numbers:
        ManifestLog(store).write(number, [Entry(BlobRef(f"s3://b/{number}", 10, "v"))])
        if report:
            Reports(store).write(number, 0, [BlobReport(f"s3://b/{number}", "v", 5)])


def source(location: Path, **options: Any) -> HistorySource:
    return HistorySource(HistorySourceConfig(location=str(location), **options))


def told(source: HistorySource, start: Offset, end: Offset) -> list[tuple[int, str]]:
    batches = [record.batch for split in source.splits(start, end) for record in source.read(split)]
    return [(row["epoch"], row["state"]) for batch in batches for row in batch.to_pylist()]


def test_a_stream_tells_of_an_epoch_once_the_next_is_planned(tmp_path: Path) -> None:
    write(tmp_path, 1, 2)
    stream = source(tmp_path)
    first = stream.latest_offset(START, ALL)
    assert told(stream, START, first) == [(1, "read")]
    assert stream.latest_offset(first, ALL) == first
    write(tmp_path, 3, report=False)
    stream = source(tmp_path)
    assert told(stream, first, stream.latest_offset(first, ALL)) == [(2, "read")]


def test_a_replay_gives_the_same_rows_whatever_happened_since(tmp_path: Path) -> None:
    write(tmp_path, 1, 2, 3)
    stream = source(tmp_path, since="1 hour")
    end = stream.latest_offset(START, ALL)
    before = told(stream, START, end)
    CleaningLog(StateStore(str(tmp_path))).write(1, "deleted", [])
    write(tmp_path, 4, 5)
    # The hour is another one now: what counts is when the epoch was planned.
    again = source(tmp_path, since="0 seconds")
    assert told(again, START, end) == before == [(1, "read"), (2, "read")]


def test_a_batch_tells_everything_that_is_known_now(tmp_path: Path) -> None:
    write(tmp_path, 1, 2)
    write(tmp_path, 3, report=False)
    CleaningLog(StateStore(str(tmp_path))).write(1, "archived", [])
    config = HistorySourceConfig(location=str(tmp_path)).detached()
    batch = HistorySource(config)
    batch.freeze()
    assert told(batch, START, batch.latest_offset(START, ALL)) == [(1, "archived"), (2, "read"), (3, "planned")]
    filtered = HistorySource(config.with_epoch("2..").with_state("read"))
    assert told(filtered, START, filtered.latest_offset(START, ALL)) == [(2, "read")]


def test_epochs_that_are_forgotten_by_now_are_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, *range(1, 8))
    for number in (1, 2, 3):
        (tmp_path / "manifests" / f"{number:020d}.json").unlink()
    stream = source(tmp_path)
    end = stream.latest_offset(START, ReadLimit(max_files=2))
    assert told(stream, START, end) == [(4, "read"), (5, "read")]
    assert "epochs 1 to 3 are not kept any more" in caplog.text
    (tmp_path / "manifests" / f"{4:020d}.json").unlink()
    with pytest.raises(ConfigError, match="Manifest 4 expired"):
        told(source(tmp_path), START, end)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epoch": "5..2"}, "ends before it begins"),
        ({"state": "lost"}, "expected one of planned, read"),
        ({"since": "soon"}, "expected a time such as"),
        ({"max_rows_per_trigger": 5}, "use max_files_per_trigger"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        source(tmp_path, **options)


def test_a_place_without_history_and_a_state_that_never_comes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no manifests"):
        source(tmp_path).latest_offset(START, ALL)
    write(tmp_path, 1, 2)
    with pytest.raises(ConfigError, match="none is ever 'deleted' there"):
        source(tmp_path, state="deleted").latest_offset(START, ALL)
