"""A task's memory does not grow with the object that it reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("read_huge_object.py")
GB = 1024**3


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("text", 3 * 1024**2),
        pytest.param("text.gz", 3 * 1024**2, marks=pytest.mark.slow),
        pytest.param("json", 3_148_803, marks=pytest.mark.slow),
        pytest.param("csv", 3 * 1024**2, marks=pytest.mark.slow),
    ],
)
def test_an_object_of_three_gigabytes_is_read_within_one(name: str, rows: int) -> None:
    command = [sys.executable, str(SCRIPT), name, str(3 * GB)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    assert found["rows"] == rows
    assert found["peak_bytes"] < GB
