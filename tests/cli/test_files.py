"""`volley files`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from volley_connectors.blob.cleaned import CleaningLog
from volley_connectors.blob.manifests import Entry, ManifestLog
from volley_connectors.blob.reports import BlobReport, Reports
from volley_connectors.state import StateStore
from volley_core import BlobRef

Volley = Callable[..., Any]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Three epochs of two objects; the second holds a corrupt one, the third is still being read."""
    store = StateStore(str(tmp_path / "state"))
    for number in (1, 2, 3):
        blobs = [BlobRef(f"s3://b/in/{number}-{name}.json", 1000, "v1", "", 1_700_000_000_000) for name in "ab"]
        ManifestLog(store).write(number, [Entry(blob, f"m-{number}") for blob in blobs])
        states = ["read", "corrupt" if number == 2 else "read"]
        reports = [
            BlobReport(blob.uri, "v1", 10, 1 if state == "corrupt" else 0, state, "row 3: no JSON" * (state != "read"))
            for blob, state in zip(blobs, states, strict=True)
        ]
        if number < 3:
            Reports(store).write(number, 0, reports)
    return tmp_path / "state"


def rows(volley: Volley, *arguments: object) -> list[dict[str, Any]]:
    result = volley("files", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def names(volley: Volley, *arguments: object) -> list[str]:
    return [row["uri"].removeprefix("s3://b/in/").removesuffix(".json") for row in rows(volley, *arguments)]


def test_json_is_one_object_per_line_with_everything_that_is_known(volley: Volley, state: Path) -> None:
    found = rows(volley, state)
    assert len(found) == 6
    corrupt = found[3]
    planned_at = corrupt.pop("planned_at")
    assert corrupt == {
        "epoch": 2,
        "uri": "s3://b/in/2-b.json",
        "version": "v1",
        "size": 1000,
        "event_time": "2023-11-14T22:13:20+00:00",
        "state": "corrupt",
        "rows": 10,
        "bad": 1,
        "error": "row 3: no JSON",
        "message_id": "m-2",
    }
    assert planned_at.endswith("+00:00")
    assert (found[4]["state"], found[4]["rows"], found[4]["bad"]) == ("planned", None, None)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--epoch", "2"], ["2-a", "2-b"]),
        (["--epoch", "2..3", "--match", "*-a.json"], ["2-a", "3-a"]),
        (["--epoch", "..1"], ["1-a", "1-b"]),
        (["--state", "corrupt"], ["2-b"]),
        (["--since", "1 hour", "--state", "planned"], ["3-a", "3-b"]),
        (["--until", "2001-01-01"], []),
        (["--limit", "3"], ["2-b", "3-a", "3-b"]),
    ],
)
def test_filters_hold_together_and_a_limit_takes_the_newest(
    volley: Volley, state: Path, arguments: list[str], expected: list[str]
) -> None:
    assert names(volley, state, *arguments) == expected


def test_people_get_a_table_errors_and_a_summary_of_everything(volley: Volley, state: Path) -> None:
    result = volley("files", state, "--limit", 3)
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["epoch", "planned", "state", "rows", "bad", "size", "object"]
    assert lines[1].split()[-6:] == ["corrupt", "10", "1", "1.0", "kB", "s3://b/in/2-b.json"]
    assert "epoch 2, s3://b/in/2-b.json: row 3: no JSON" in lines
    assert "6 objects, 6.0 kB, 40 rows, 1 bad; epochs 1..3; 1 corrupt, 2 planned" in lines
    assert lines[-1] == "The newest 3 are shown; --limit 0 shows all."


def test_a_wide_screen_shows_the_message_too(volley: Volley, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "180")
    assert volley("files", state, "--epoch", 1).stdout.splitlines()[1].split()[-1] == "m-1"


def test_what_was_cleaned_is_told_and_what_was_left_alone_is_not(volley: Volley, state: Path) -> None:
    log = CleaningLog(StateStore(str(state)))
    log.write(1, "deleted", [BlobRef("s3://b/in/1-b.json", version="v1")])
    log.write(2, "archived", [])
    found = [(row["uri"][-8:-5], row["state"]) for row in rows(volley, state, "--epoch", "1..2")]
    assert found == [("1-a", "deleted"), ("1-b", "read"), ("2-a", "archived"), ("2-b", "corrupt")]
    assert "1 archived, 1 corrupt, 1 deleted, 2 planned" in volley("files", state).stdout


def test_looking_changes_nothing(volley: Volley, state: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    volley("files", state)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_without_manifests_is_said_to_be_one_and_is_not_made(volley: Volley, tmp_path: Path) -> None:
    for location in (tmp_path, tmp_path / "nowhere"):
        result = volley("files", location)
        assert result.exit_code == 2
        assert "holds no manifests" in result.stderr
        assert "state_location" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epoch", "5..2"], "ends before it begins"),
        (["--epoch", "two"], "expected a number such as 7"),
        (["--since", "soon"], "expected a time such as"),
        (["--since", "17"], "expected a time such as"),
        (["--state", "lost"], "planned, read, corrupt, missing"),
    ],
)
def test_a_filter_that_makes_no_sense_is_explained(
    volley: Volley, state: Path, arguments: list[str], message: str
) -> None:
    result = volley("files", state, *arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.stderr
    assert message in result.stderr
