"""The judge of Delta tables: Delta Kernel, Delta's own library in Java."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.judges.judgement import Judgement, Where, condition
from tests.servers.judges.process import JudgeProcess, compiled, judge_process


def fetch() -> str:
    kernel, hadoop = "4.4.0", "3.4.2"
    return compiled(
        "DeltaJudge",
        f"io.delta:delta-kernel-defaults:{kernel}",
        f"io.delta:delta-kernel-api:{kernel}",
        f"org.apache.hadoop:hadoop-client-api:{hadoop}",
        f"org.apache.hadoop:hadoop-client-runtime:{hadoop}",
        "org.slf4j:slf4j-simple:1.7.36",
    )


class DeltaJudge:
    def __init__(self, process: JudgeProcess) -> None:
        self._process = process

    def read(
        self,
        path: str | Path,
        where: Where | None = None,
        version: int | None = None,
    ) -> Judgement:
        """The table in a folder, now or at a version. A table that it cannot read is a `JudgementError`.

        With `where` the judge prunes partitions, skips files and row groups by their statistics, and then drops the
        rows that are left over: what statistics hide wrongly is missing from the rows.
        """
        return self._process.ask(path=str(path), where=condition(where), version=version)


@contextmanager
def serve(folder: Path) -> Iterator[DeltaJudge]:
    """The judge, while the block lasts."""
    with judge_process("DeltaJudge", fetch(), folder / "delta_judge.log") as process:
        yield DeltaJudge(process)
