"""`volley reprocess`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from volley_connectors.connection import Connection
from volley_core import ReadLimit

Volley = Callable[..., Any]
SPARK = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": 2}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A pipeline file of this name, with a sink and a checkpoint of its own unless told otherwise."""

    def write(name: str, source: dict[str, Any] | None = None, **changes: Any) -> Path:
        document = {
            "name": name,
            "source": {"connector": "files", "path": str(tmp_path / "in"), "schema": "id bigint", **(source or {})},
            "sink": {"connector": "files", "path": str(tmp_path / f"{name}-out")},
            "checkpoint": str(tmp_path / f"{name}-checkpoint"),
            "spark": SPARK,
        }
        file = tmp_path / f"{name}.yaml"
        file.write_text(json.dumps(document | changes))
        return file

    return write


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The memory of the pipeline `old`: four epochs of one file each, of which the third is gone."""
    state = tmp_path / "old-checkpoint" / "volley-state"
    options = {"connector": "files", "path": str(tmp_path / "in"), "schema": "id bigint", "state_location": str(state)}
    (tmp_path / "in").mkdir()
    source = Connection.parse("sources", options).source()
    offset = source.initial_offset()
    for number in range(4):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"id": {number}}}\n')
        end = source.latest_offset(offset, ReadLimit())
        assert [record for split in source.splits(offset, end) for record in source.read(split)]
        offset = end
    source.close()
    (tmp_path / "in" / "2.json").unlink()
    return state


def test_a_dry_run_tells_what_would_be_read_and_what_would_run(
    volley: Volley, write: Callable[..., Path], state: Path, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    file = write("new", {"onMissingFile": "skip", "cleanSource": "delete"})
    result = volley("reprocess", file, "--state-location", write("old"), "--from", 2, "--dry-run", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == {
        "would_read": {
            "location": str(state),
            "first": 2,
            "last": 4,
            "epochs": 3,
            "objects": 3,
            "bytes": 30,
            "rows": 3,
            "uncounted": 0,
            "missing": 1,
            "overwritten": 0,
            "left_out": 0,
        },
        "would_run": {
            "pipeline": "new",
            "source": "files",
            "sink": "files",
            "pipeline_id": "new",
            "checkpoint": str(tmp_path / "new-checkpoint"),
            "state_location": str(tmp_path / "new-checkpoint" / "volley-state"),
            "options": {"reprocess_state_location": str(state), "reprocess_from": "2"},
        },
        "refused": None,
    }
    assert {*tmp_path.rglob("*")} - {*before} == {file, tmp_path / "old.yaml"}, "looking changes nothing"


def test_people_get_a_few_lines_and_the_own_history_without_a_word(
    volley: Volley, write: Callable[..., Path], state: Path
) -> None:
    result = volley("reprocess", write("old"), "--to", "3", "--dry-run")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == f"Would read epochs 1 to 3 of {state}:"
    assert lines[1] == "  3 epochs, 3 objects, 30 B, 3 rows"
    assert lines[2] == "  1 of the objects are gone (on_missing_file = fail)"
    assert "  reprocess_to: 3" in lines
    assert lines[-1].startswith("Would be refused: Pipeline 'old' is the one that has read these objects")


def test_what_is_not_new_is_refused_before_spark_starts(
    volley: Volley, write: Callable[..., Path], state: Path, tmp_path: Path
) -> None:
    def refused(file: Path, old: object = state, *more: object) -> str:
        result = volley("reprocess", file, "--state-location", old, *more)
        assert result.exit_code == 2
        return str(result.stderr)

    old, new = write("old"), write("new")
    assert "is the one that has read these objects" in refused(old)
    same_sink = write("other", sink={"connector": "files", "path": str(tmp_path / "old-out"), "pipeline_id": "other"})
    assert "Pipelines 'other' and 'old' write to the same sink" in refused(same_sink, old)
    assert "has no epochs in what" in refused(new, state, "--from", "9")
    assert "expected a time such as" in refused(new, state, "--from", "soon")
    memory = write("memory", source={"connector": "memory", "name": "x"})
    memory.write_text(json.dumps(json.loads(memory.read_text()) | {"source": {"connector": "memory", "name": "x"}}))
    assert "reads no objects" in refused(memory)
    (tmp_path / "new-checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "new-checkpoint" / "offsets" / "0").write_text("v1")
    assert "belongs to a query that has run before" in refused(new)


def test_it_runs_to_its_end_and_again_adds_nothing(
    volley_process: Callable[..., subprocess.Popen[str]], write: Callable[..., Path], state: Path, tmp_path: Path
) -> None:
    new, old = write("new", {"on_missing_file": "skip", "clean_source": "delete"}), write("old")
    (tmp_path / "in" / "late.json").write_text('{"id": 99}\n')
    for _ in range(2):
        process = volley_process("reprocess", new, "--state-location", old, "--from", "2", "--json")
        _, stderr = process.communicate(timeout=250)
        assert process.returncode == 0, stderr
        assert ds.dataset(tmp_path / "new-out", format="parquet").to_table()["id"].to_pylist() == [1, 3]
    assert len(list((tmp_path / "in").iterdir())) == 4, "nothing is taken away"
    changed = volley_process("reprocess", new, "--state-location", old, "--from", "1")
    _, stderr = changed.communicate(timeout=60)
    assert changed.returncode == 2
    assert "belongs to another reprocessing" in stderr
