"""`volley preview`."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from volley_connectors.memory import MemorySource


@pytest.fixture
def channel() -> Iterator[str]:
    name = f"preview-{uuid.uuid4().hex}"
    handle = MemorySource.handle(name)
    handle.push(pa.record_batch({"id": [1, 2, 3], "tags": [["a"], None, []], "raw": [b"text", b"\xff", None]}))
    yield name
    handle.clear()


def test_the_first_rows_of_a_source_are_shown(volley: Callable[..., Any], channel: str) -> None:
    result = volley("preview", "memory", "-o", f"name={channel}", "--rows", 2)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["id", "tags", "raw"]
    assert lines[2:] == [["1", '["a"]', "text"], ["2", "null", "base64:/w=="]]


def test_json_holds_columns_and_rows(volley: Callable[..., Any], channel: str) -> None:
    shown = json.loads(volley("preview", "memory", "-o", f"name={channel}", "-n", 1, "--json").stdout)
    assert [column["name"] for column in shown["columns"]] == ["id", "tags", "raw"]
    assert shown["rows"] == [{"id": 1, "tags": ["a"], "raw": "text"}]


@pytest.mark.usefixtures("acme")
def test_a_polled_source_is_not_told_that_anything_is_durable(volley: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("25")
    shown = json.loads(volley("preview", "ticker", "-o", f"path={tmp_path}", "-n", 12, "--json").stdout)
    assert [row["id"] for row in shown["rows"]] == list(range(12))
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]


@pytest.mark.usefixtures("acme")
def test_a_source_without_rows_says_so(volley: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("0")
    result = volley("preview", "ticker", "-o", f"path={tmp_path}", "--wait", "0.1")
    assert result.exit_code == 0
    assert "No rows yet" in result.stdout


@pytest.mark.usefixtures("acme")
def test_rows_are_shown_as_the_schema_declares_them(volley: Callable[..., Any]) -> None:
    shown = json.loads(volley("preview", "range", "-n", 1, "--json").stdout)
    assert shown["columns"] == [{"name": "id", "type": "int64"}, {"name": "at", "type": "timestamp[us]"}]


def test_a_pipeline_files_source_is_shown_and_its_state_left_alone(
    volley: Callable[..., Any], channel: str, tmp_path: Path
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        f"name: p\nsource: {{connector: memory, name: {channel}}}\nsink: memory\ncheckpoint: {tmp_path}/c\n"
    )
    shown = json.loads(volley("preview", file, "--json").stdout)
    assert [row["id"] for row in shown["rows"]] == [1, 2, 3]
    assert not (tmp_path / "c").exists()


def test_files_can_be_previewed_again_and_again(volley: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"id": 1}\n{"id": 2}\n')
    for _ in range(2):
        shown = volley("preview", "files", "-o", f"path={tmp_path}", "-o", "format=json", "--json")
        assert [row["id"] for row in json.loads(shown.stdout)["rows"]] == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["memory", "-o", "nme=x"], "Did you mean 'name'?"),
        (["memory"], "Option 'name' is required"),
        (["memory", "-o", "name"], "not of the form key=value"),
        (["kafka"], "not part of this version"),
        (["memry"], "Did you mean 'memory'?"),
        (["missing.yaml"], "no such file"),
    ],
)
def test_a_mistake_is_one_message(volley: Callable[..., Any], arguments: list[str], message: str) -> None:
    result = volley("preview", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
