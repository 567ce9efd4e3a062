"""The durable memory of a blob source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from volley_connectors.blob.ledger import Ledger, Verdict
from volley_connectors.blob.manifests import Entry, ManifestLog
from volley_connectors.state import StateStore
from volley_core import BlobRef, ConfigError, PipelineConflictError

ENTRIES = [
    Entry(BlobRef("s3://b/a b+ü.json", 10, "v1", "00F", 1_700_000_000_000), "m-1"),
    Entry(BlobRef("s3://b/bare.json")),
]


def blobs(log: ManifestLog) -> list[BlobRef]:
    """Every object in every manifest that is there, oldest first."""
    return [entry.blob for number in log.numbers() for entry in log.read(number)]


@pytest.fixture
def state(tmp_path: Path) -> StateStore:
    return StateStore(str(tmp_path / "state"))


def test_what_was_written_is_read_by_another_instance(state: StateStore) -> None:
    ManifestLog(state).write(1, ENTRIES)
    assert ManifestLog(StateStore(state.location)).read(1) == ENTRIES


def test_an_empty_log_ends_at_zero(state: StateStore) -> None:
    assert ManifestLog(state).last() == 0
    assert blobs(ManifestLog(state)) == []


def test_the_last_number_is_the_highest(state: StateStore) -> None:
    log = ManifestLog(state)
    for number in range(1, 12):
        log.write(number, ENTRIES)
    assert ManifestLog(state).last() == 11
    assert len(blobs(log)) == 22


def test_files_are_json_lines_that_sort_by_number(state: StateStore) -> None:
    log = ManifestLog(state)
    log.write(9, ENTRIES)
    log.write(10, ENTRIES)
    files = sorted(Path(state.location, "manifests").iterdir())
    assert [file.name for file in files] == ["00000000000000000009.json", "00000000000000000010.json"]
    head, *objects = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert (head["manifest"], head["objects"], head["bytes"]) == (9, 2, 10)
    assert objects[0]["message_id"] == "m-1"
    assert objects[1] == {"uri": "s3://b/bare.json", "size": 0}


def test_a_second_writer_is_refused_and_told_what_to_do(state: StateStore) -> None:
    ManifestLog(state).write(1, ENTRIES)
    with pytest.raises(PipelineConflictError, match=r"state_location.*of its own") as refused:
        ManifestLog(state).write(1, ENTRIES)
    assert state.location in str(refused.value)
    assert ManifestLog(state).read(1) == ENTRIES


def test_a_repeated_write_of_the_same_writer_is_no_conflict(state: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store may take the file and lose the answer; the retry then finds it there."""
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)
    log = ManifestLog(state)
    log.write(1, ENTRIES)
    log.write(1, ENTRIES)
    assert log.read(1) == ENTRIES


def test_a_missing_manifest_is_explained(state: StateStore) -> None:
    with pytest.raises(ConfigError, match=r"Manifest 3 is not at state_location .*checkpoint"):
        ManifestLog(state).read(3)


def test_names_that_are_not_utf8_survive(state: StateStore) -> None:
    blob = BlobRef(b"/in/\xff.json".decode(errors="surrogateescape"), 1, "v")
    ManifestLog(state).write(1, [Entry(blob)])
    assert ManifestLog(state).read(1) == [Entry(blob)]


def test_ledger_by_name_counts_a_name_once() -> None:
    ledger = Ledger(by_version=False)
    ledger.add([BlobRef("a", version="1")])
    assert ledger.judge([BlobRef("a", version="2")]) == [Verdict.SEEN]
    assert ledger.judge([BlobRef("b", version="1")]) == [Verdict.NEW]


def test_ledger_by_version_counts_each_version_once() -> None:
    ledger = Ledger(by_version=True)
    ledger.add([BlobRef("a", version="1")])
    assert ledger.judge([BlobRef("a", version="1")]) == [Verdict.SEEN]
    assert ledger.judge([BlobRef("a", version="2")]) == [Verdict.NEW]
