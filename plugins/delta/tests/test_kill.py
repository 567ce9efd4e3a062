"""Files become a Delta table under `volley run`, however the driver dies. The judge is Delta Kernel."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import FilesPipeline
from tests.servers.judges.delta import DeltaJudge

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[FilesPipeline]:
    made = FilesPipeline(tmp_path, connector="delta", table_uri=str(tmp_path / "table"))
    yield made
    made.close()


def ids_in(judge: DeltaJudge, table: Path) -> list[int]:
    return sorted(row["id"] for row in judge.read(table).rows)


def test_a_driver_killed_at_a_random_moment_and_a_lost_commit_log_double_nothing(
    delta_judge: DeltaJudge, pipeline: FilesPipeline
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    moments = random.Random(seed)
    pipeline.add_files(10)
    driver = pipeline.start()
    driver.until_epochs(moments.randint(1, 2))
    time.sleep(moments.uniform(0, 0.5))
    driver.kill()
    assert pipeline.finish() > 0, "the kill came too late: nothing was left to resume"
    assert ids_in(delta_judge, pipeline.table) == pipeline.rows_in
    last = max((pipeline.work / "checkpoint").rglob("commits/[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    pipeline.add_files(1)
    pipeline.finish()
    assert ids_in(delta_judge, pipeline.table) == pipeline.rows_in
