"""The process of a judge: one JVM, which starts once and answers many times."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.judges.judgement import Judgement, judgement
from tests.servers.toolchains import javac, tool

_SOURCES = Path(__file__).parent
# A judge starts in a second and does not take the memory of what it judges.
_OPTIONS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


def compiled(program: str, *artifacts: str) -> str:
    """The classpath of the judge of this name."""
    return javac([_SOURCES / "Judge.java", _SOURCES / f"{program}.java"], *artifacts)


class JudgeProcess:
    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self._lock = threading.Lock()

    def ask(self, **request: Any) -> Judgement:
        """What it finds. One asks at a time."""
        with self._lock:
            assert self._process.stdin
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = list(self._answer())
        return judgement(answer)

    def _answer(self) -> Iterator[str]:
        assert self._process.stdout
        for line in self._process.stdout:
            if line == "\n":
                return
            yield line
        said = self._log.read_text(errors="replace")[-4000:]
        raise RuntimeError(f"{self._process.args!r} ended before its answer did. It said:\n{said}")


@contextmanager
def judge_process(program: str, classpath: str, log: Path) -> Iterator[JudgeProcess]:
    command = [tool("java", "Java 17"), *_OPTIONS, "-cp", classpath, program]
    with open(log, "w") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8"
        )
    try:
        yield JudgeProcess(process, log)
    finally:
        process.kill()
        process.communicate()
