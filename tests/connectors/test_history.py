"""What a blob source has read, as Arrow."""

from __future__ import annotations

from pathlib import Path

from volley_connectors.blob.history import SCHEMA, Filters, History
from volley_connectors.blob.manifests import Entry, ManifestLog
from volley_connectors.blob.reports import BlobReport, Reports
from volley_connectors.moments import parse_moment
from volley_connectors.state import StateStore
from volley_core import BlobRef


def write(location: Path, epochs: int, objects: int = 1) -> StateStore:
    store = StateStore(str(location))
    for number in range(1, epochs + 1):
        ManifestLog(store).write(number, [Entry(BlobRef(f"/in/{number}-{i}")) for i in range(objects)])
    return store


def test_pieces_of_one_object_are_one_row_and_the_worst_tells(tmp_path: Path) -> None:
    store = write(tmp_path, 1)
    Reports(store).write(1, 0, [BlobReport("/in/1-0", "", 5, 0)])
    Reports(store).write(1, 1, [BlobReport("/in/1-0", "", 2, 1, "corrupt", "row 3: broken")])
    (row,) = History(str(tmp_path)).batch(1).to_pylist()
    assert (row["rows"], row["bad"], row["state"], row["error"]) == (7, 1, "corrupt", "row 3: broken")


def test_an_object_in_pieces_is_read_once_all_of_them_are(tmp_path: Path) -> None:
    store = write(tmp_path, 1)
    seen = []
    for split in range(3):
        Reports(store).write(1, split, [BlobReport("/in/1-0", "", 5, pieces=3)])
        (row,) = History(str(tmp_path)).batch(1).to_pylist()
        seen.append((row["state"], row["rows"]))
    assert seen == [("planned", 5), ("planned", 10), ("read", 15)]


def test_epochs_come_in_order_each_as_one_batch_of_the_schema(tmp_path: Path) -> None:
    write(tmp_path, 40, objects=3)
    heard: list[tuple[int, int]] = []
    batches = list(History(str(tmp_path)).batches(Filters(first=2), lambda done, total: heard.append((done, total))))
    assert [batch["epoch"][0].as_py() for batch in batches] == list(range(2, 41))
    assert all(batch.schema.equals(SCHEMA) and batch.num_rows == 3 for batch in batches)
    assert heard == [(done, 39) for done in range(1, 40)]


def test_a_moment_is_a_time_or_so_long_ago() -> None:
    assert parse_moment("1970-01-01 00:00:01") == 1000
    assert parse_moment("1970-01-01T02:00:00+02:00") == 0
    assert parse_moment("2 hours", now_ms=10_000_000) == 10_000_000 - 7_200_000
    assert parse_moment("2 minutes ago", now_ms=10_000_000) == 10_000_000 - 120_000
