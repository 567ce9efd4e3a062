"""A pipeline from files to files, run by `volley run` in processes that can be killed like a real driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DEADLINE_SECONDS = 200


class Driver:
    """One `volley run`: Python, the JVM that it started, and their workers."""

    def __init__(self, file: Path, log: Path, *arguments: str, variables: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "volley_connectors.cli", "run", str(file), "--json", *arguments]
        self._log = log
        with open(log, "w") as errors:
            # A process group of its own: a signal to the group reaches the JVM too.
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env=os.environ | (variables or {}),
            )

    def progress(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def until_epochs(self, count: int) -> None:
        """Wait until so many epochs were committed in this run."""
        for progress in self.progress():
            if progress["event"] == "progress" and progress["epochs"] >= count:
                return
        raise AssertionError(f"the driver ended early: {self.said()}")

    def said(self) -> str:
        """The end of what it wrote to its log."""
        return self._log.read_text()[-3000:]

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """`kill -9` of the driver and its JVM."""
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def to_the_end(self) -> int:
        """Wait for a good end; how many rows this run read."""
        reports = [progress for progress in self.progress() if progress["event"] == "progress"]
        assert self.process.wait(DEADLINE_SECONDS) == 0, self.said()
        return int(reports[-1]["rows"])


class FilesPipeline:
    def __init__(self, work: Path, **sink: str) -> None:
        """Into a directory of files, or into another sink of these options."""
        self.work = work
        self.incoming, self.table = work / "incoming", work / "table"
        self.incoming.mkdir()
        self.file = work / "pipeline.yaml"
        self._rows = 0
        self._drivers: list[Driver] = []
        source = {"connector": "files", "path": str(self.incoming), "schema": "id bigint, text string"}
        document = {
            "name": "kill",
            "source": source | {"max_files_per_trigger": 2},
            "sink": sink or {"connector": "files", "path": str(self.table)},
            "checkpoint": str(work / "checkpoint"),
            "spark": {"spark.master": "local[2]"},
        }
        self.file.write_text(json.dumps(document))

    @property
    def rows_in(self) -> list[int]:
        return list(range(self._rows))

    def add_files(self, count: int, rows: int = 500) -> None:
        for _ in range(count):
            lines = [json.dumps({"id": i, "text": f"row {i}"}) for i in range(self._rows, self._rows + rows)]
            draft = self.incoming / f".{self._rows}.draft"
            draft.write_text("\n".join(lines))
            draft.rename(self.incoming / f"{self._rows:09d}.jsonl")
            self._rows += rows

    def start(self, *arguments: str) -> Driver:
        driver = Driver(self.file, self.work / f"driver-{len(self._drivers)}.log", *arguments)
        self._drivers.append(driver)
        return driver

    def finish(self) -> int:
        """Read all that is there; how many rows this last run read."""
        return self.start("--available-now").to_the_end()

    def close(self) -> None:
        for driver in self._drivers:
            if driver.process.poll() is None:
                driver.signal(signal.SIGCONT)
            driver.kill()


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[FilesPipeline]:
    made = FilesPipeline(tmp_path)
    yield made
    made.close()


@pytest.fixture
def wait_for() -> Any:
    def wait(what: Any, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, f"waited {seconds} s in vain"
            time.sleep(0.05)

    return wait
