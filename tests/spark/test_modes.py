"""The same connectors on really separate executors and on Spark Connect, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PIPELINE = HERE / "pipeline_in_mode.py"


def run_pipeline(mode: str, work: Path) -> dict[str, object]:
    environment = os.environ | {"PYTHONPATH": str(HERE.parent / "third_party"), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-W", "ignore", str(PIPELINE), mode, str(work)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("mode", ["local-cluster", "connect"])
def test_a_stream_and_a_batch_run(mode, tmp_path):
    facts = run_pipeline(mode, tmp_path)
    assert sorted(facts["stream_rows"]) == list(range(100))
    assert sorted(facts["polled_rows"]) == list(range(55))
    assert facts["batch_rows"] == 100
    assert facts["session"] == {"local-cluster": "pyspark.sql", "connect": "pyspark.sql.connect"}[mode]
    if mode == "local-cluster":
        assert len(facts["executors"]) == 2, "two executors, each a JVM of its own, wrote rows"
