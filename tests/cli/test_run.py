"""`volley run`, each time in a process of its own: it starts Spark, takes signals and ends with an exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from volley_connectors.memory import CountSink, MemorySource

Start = Callable[..., subprocess.Popen[str]]
SPARK = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": 2}


@pytest.fixture
def channel() -> Iterator[str]:
    name = f"run-{uuid.uuid4().hex}"
    for first in range(0, 60, 10):
        MemorySource.handle(name).push(pa.record_batch({"id": list(range(first, first + 10))}))
    yield name
    MemorySource.handle(name).clear()
    CountSink.handle(name).clear()


@pytest.fixture
def write(tmp_path: Path, channel: str) -> Callable[..., Path]:
    def write(source: dict[str, Any] | None = None, **changes: Any) -> Path:
        document = {
            "name": "numbers",
            "source": {"connector": "memory", "name": channel, **(source or {})},
            "sink": {"connector": "count", "name": channel},
            "checkpoint": str(tmp_path / "checkpoint"),
            "spark": SPARK,
        }
        file = tmp_path / "p.yaml"
        file.write_text(json.dumps({k: v for k, v in {**document, **changes}.items() if v is not None}))
        return file

    return write


def test_a_pipeline_runs_to_its_end_and_tells_how_far_it_came(
    volley_process: Start, write: Callable[..., Path], channel: str, tmp_path: Path
) -> None:
    file = write(checkpoint=None, transforms=["SELECT id FROM source WHERE id >= 50"])
    checkpoint = tmp_path / "elsewhere"
    process = volley_process("run", file, "--available-now", "--checkpoint", checkpoint, "--json")
    stdout, stderr = process.communicate(timeout=250)
    assert process.returncode == 0, stderr
    lines = [json.loads(line) for line in stdout.splitlines()]
    assert {line["event"] for line in lines} == {"progress"}
    assert (lines[-1]["state"], lines[-1]["rows"], lines[-1]["name"]) == ("ended", 60, "numbers")
    assert CountSink.handle(channel).rows == 10
    assert (checkpoint / "commits").is_dir()


def test_a_query_that_fails_ends_with_its_own_message_and_not_with_pages_of_java(
    volley_process: Start, write: Callable[..., Path]
) -> None:
    process = volley_process("run", write({"faults": "raise@splits:0*"}, trigger="available_now"))
    stdout, stderr = process.communicate(timeout=250)
    assert process.returncode == 1
    assert "numbers  failed" in stdout
    assert stderr.splitlines()[-1].startswith("Error: Fault raise@splits:0 of memory channel")
    assert "org.apache.spark" not in stderr
    assert "Traceback" not in stderr.splitlines()[-1]


def test_sigterm_stops_after_the_running_epoch_and_is_no_failure(
    volley_process: Start, write: Callable[..., Path], channel: str, tmp_path: Path
) -> None:
    process = volley_process("run", write({"loop": True, "max_rows_per_trigger": 500}), "--json")
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["epochs"] >= 1:
            break
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    last = json.loads(stdout.splitlines()[-1])
    assert last["state"] == "ended"
    counted = CountSink.handle(channel).rows
    assert counted >= 500
    assert counted % 500 == 0
    commits = [path for path in (tmp_path / "checkpoint" / "commits").iterdir() if path.name.isdigit()]
    assert len(commits) * 500 == counted


def test_a_java_process_that_is_killed_is_one_clear_message(volley_process: Start, write: Callable[..., Path]) -> None:
    process = volley_process("run", write({"loop": True, "max_rows_per_trigger": 500}), "--json")
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["epochs"] >= 1:
            break
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (java,) = [int(child) for child in children if b"java" in Path(f"/proc/{child}/cmdline").read_bytes()]
    os.kill(java, signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert stderr.splitlines()[-1].startswith("Error: Spark's Java process has gone")
    assert json.loads(stdout.splitlines()[-1])["event"] == "failed"


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"checkpoint": None}, [], "--checkpoint"),
        ({"trigger": "continuous"}, [], "continuous mode"),
        ({"sink": "iceberg"}, [], "not part of this version"),
        ({"source": "memory", "snik": "x"}, [], "Did you mean 'sink'?"),
        ({"sink": {"connector": "count", "nme": "x"}}, [], "Did you mean 'name'?"),
        ({}, ["--timeout", "soon"], "expected a number and a unit"),
    ],
)
def test_a_mistake_is_told_before_spark_is_started(
    volley: Callable[..., Any],
    tmp_path: Path,
    channel: str,
    changes: dict[str, Any],
    arguments: list[str],
    message: str,
) -> None:
    document = {
        "name": "numbers",
        "source": {"connector": "memory", "name": channel},
        "sink": {"connector": "count", "name": channel},
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps({k: v for k, v in {**document, **changes}.items() if v is not None}))
    result = volley("run", file, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "checkpoint").exists()


def test_without_pyspark_the_install_line_is_told(write: Callable[..., Path]) -> None:
    hidden = "import sys; sys.modules['pyspark'] = None; from volley_connectors.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", hidden, "run", str(write())], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 2
    assert "pip install 'volley-connectors[spark]'" in run.stderr
