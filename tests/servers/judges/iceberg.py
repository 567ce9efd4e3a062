"""The judge of Iceberg tables: Iceberg's own library in Java, without an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.servers.judges.judgement import Judgement, Where, condition
from tests.servers.judges.process import JudgeProcess, compiled, judge_process


def fetch() -> str:
    iceberg, hadoop = "1.12.0", "3.4.2"
    return compiled(
        "IcebergJudge",
        f"org.apache.iceberg:iceberg-core:{iceberg}",
        f"org.apache.iceberg:iceberg-data:{iceberg}",
        f"org.apache.iceberg:iceberg-parquet:{iceberg}",
        f"org.apache.iceberg:iceberg-aws:{iceberg}",
        f"org.apache.iceberg:iceberg-aws-bundle:{iceberg}",
        f"org.apache.hadoop:hadoop-client-api:{hadoop}",
        f"org.apache.hadoop:hadoop-client-runtime:{hadoop}",
        "org.slf4j:slf4j-simple:2.0.17",
    )


class IcebergJudge:
    def __init__(self, process: JudgeProcess) -> None:
        self._process = process

    def read(
        self,
        metadata: str,
        where: Where | None = None,
        snapshot: int | None = None,
        branch: str = "main",
        properties: Mapping[str, str] | None = None,
    ) -> Judgement:
        """The table of a metadata file, at a snapshot or the newest of a branch.

        `metadata` is PyIceberg's `table.metadata_location`: which file is the newest only the catalog knows. Properties
        are those of a Java catalog for its files, such as `s3.endpoint`. Errors and `where` are as with Delta's judge.
        """
        return self._process.ask(
            path=metadata, where=condition(where), version=snapshot, branch=branch, properties=dict(properties or {})
        )


@contextmanager
def serve(folder: Path) -> Iterator[IcebergJudge]:
    """The judge, while the block lasts."""
    with judge_process("IcebergJudge", fetch(), folder / "iceberg_judge.log") as process:
        yield IcebergJudge(process)
