"""`volley check`."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from volley_connectors.memory import MemorySource

Write = Callable[..., Path]


@pytest.fixture
def channel() -> Iterator[str]:
    name = f"check-{uuid.uuid4().hex}"
    MemorySource.handle(name).push(pa.record_batch({"id": [1], "amount": [1.5]}))
    yield name
    MemorySource.handle(name).clear()


@pytest.fixture
def write(tmp_path: Path, channel: str) -> Write:
    """A pipeline file that works, with some keys changed."""

    def write(**changes: Any) -> Path:
        document = {
            "name": "p",
            "source": {"connector": "memory", "name": channel},
            "sink": {"connector": "files", "path": str(tmp_path / "out")},
            "checkpoint": str(tmp_path / "checkpoint"),
        }
        file = tmp_path / "p.yaml"
        file.write_text(json.dumps({k: v for k, v in {**document, **changes}.items() if v is not None}))
        return file

    return write


def steps(result: Any) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in json.loads(result.stdout)["steps"]}


def test_a_pipeline_that_works_gets_a_tick_for_each_step(volley: Callable[..., Any], write: Write) -> None:
    result = volley("check", write())
    assert result.exit_code == 0, result.output
    marks = {line.split()[0] for line in result.stdout.splitlines() if line.strip()}
    assert marks == {"✓"}
    assert "id bigint, amount double" in result.stdout


def test_the_sinks_target_is_really_tried(volley: Callable[..., Any], write: Write, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where a directory should be")
    result = volley("check", write(), "--json")
    assert result.exit_code != 0
    assert steps(result)["sink target"]["status"] == "failed"
    assert steps(result)["source schema"]["status"] == "ok"


def test_checking_twice_is_the_same_as_once(volley: Callable[..., Any], write: Write) -> None:
    assert volley("check", write()).exit_code == 0
    assert volley("check", write()).exit_code == 0


@pytest.mark.usefixtures("acme")
def test_a_sink_that_cannot_be_tried_is_not_called_good(
    volley: Callable[..., Any], write: Write, tmp_path: Path
) -> None:
    result = volley("check", write(sink={"connector": "log", "path": str(tmp_path)}), "--json")
    assert result.exit_code == 0
    assert steps(result)["sink target"]["status"] == "skipped"


@pytest.mark.usefixtures("acme")
def test_a_client_error_is_reported_as_it_is_and_is_no_config_error(
    volley: Callable[..., Any], write: Write, install: Callable[..., Path]
) -> None:
    install(
        "unreachable",
        "[volley.sources]\nunreachable = unreachable:Source\n",
        unreachable="from acme_connectors import Range\n"
        "class Source(Range):\n"
        "    def schema(self):\n        raise ConnectionRefusedError('nobody listens on port 1')\n",
    )
    result = volley("check", write(source="unreachable"), "--json")
    assert result.exit_code == 1
    assert steps(result)["source schema"]["detail"] == "ConnectionRefusedError: nobody listens on port 1"


@pytest.mark.parametrize(
    ("changes", "step", "message"),
    [
        ({"sorce": {}}, "file", "Did you mean 'source'?"),
        ({"source": "kafka"}, "source", "not part of this version"),
        ({"source": "memry"}, "source", "Did you mean 'memory'?"),
        ({"source": {"connector": "memory", "nme": "x"}}, "source", "Did you mean 'name'?"),
        ({"sink": "count"}, "sink", "Option 'name' is required"),
        ({"checkpoint": None}, "checkpoint", "--checkpoint"),
        ({"checkpoint": "/proc/volley"}, "checkpoint", "cannot be written"),
        ({"checkpoint": "${NO_SUCH_VARIABLE}"}, "file", "NO_SUCH_VARIABLE (used by checkpoint)"),
    ],
)
def test_a_mistake_is_a_cross_with_the_remedy(
    volley: Callable[..., Any], write: Write, changes: dict[str, Any], step: str, message: str
) -> None:
    result = volley("check", write(**changes), "--json")
    assert result.exit_code == 2
    assert steps(result)[step]["status"] == "failed"
    assert message in steps(result)[step]["detail"]


def test_a_missing_extra_is_a_cross_with_the_install_line(
    volley: Callable[..., Any], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOLLEY_DISABLE_CONNECTORS", "files")
    result = volley("check", write())
    assert result.exit_code == 2
    assert "pip install 'volley-connectors[blob-store]'" in " ".join(result.stdout.split())


def test_without_pyspark_the_transforms_are_left_out_and_that_is_said(
    volley: Callable[..., Any], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volley_connectors.cli.trial.find_spec", lambda name: None)
    found = steps(volley("check", write(transforms=["SELECT 1"]), "--json"))
    assert found["transforms"]["status"] == "skipped"
    assert "pip install 'volley-connectors[spark]'" in found["transforms"]["detail"]
    assert found["sink target"]["status"] == "skipped"


def test_spark_judges_the_transforms(volley_process: Callable[..., subprocess.Popen[str]], write: Write) -> None:
    spark = {"spark.master": "local[1]"}
    process = volley_process("check", write(transforms=["SELECT id, amont FROM source"], spark=spark), "--json")
    stdout, stderr = process.communicate(timeout=200)
    assert process.returncode == 1, stderr
    found = {step["name"]: step for step in json.loads(stdout)["steps"]}
    assert found["transforms"]["status"] == "failed"
    assert "Transform 1" in found["transforms"]["detail"]
    assert "amont" in found["transforms"]["detail"]
    assert "\tat " not in found["transforms"]["detail"]
    assert found["sink target"]["status"] == "skipped"
