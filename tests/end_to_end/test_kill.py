"""Files become a table, exactly-once, however the driver dies. The judge is Spark's own Parquet reader."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.timeout(600)


def ids_in(spark, table) -> list[int]:
    return sorted(row.id for row in spark.read.parquet(str(table)).select("id").collect())


def test_a_driver_killed_at_random_moments_loses_and_doubles_nothing(spark, pipeline):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    moments = random.Random(seed)
    for _ in range(3):
        pipeline.add_files(14)
        driver = pipeline.start()
        driver.until_epochs(moments.randint(1, 3))
        time.sleep(moments.uniform(0, 0.5))
        driver.kill()
    last_rows = pipeline.finish()
    assert last_rows > 0, "the kills came too late: nothing was left to resume"
    assert ids_in(spark, pipeline.table) == pipeline.rows_in


def test_a_driver_that_was_only_asleep_cannot_double_what_its_successor_wrote(spark, pipeline, wait_for):
    """A zombie: stopped in the middle, replaced, and woken up again."""
    pipeline.add_files(20)
    zombie = pipeline.start()
    zombie.until_epochs(2)
    zombie.signal(signal.SIGSTOP)
    pipeline.finish()
    assert ids_in(spark, pipeline.table) == pipeline.rows_in
    zombie.signal(signal.SIGCONT)
    # Spark sees that its log has moved on and gives up; whatever it did before that must not show.
    wait_for(lambda: zombie.process.poll() is not None, seconds=90)
    assert ids_in(spark, pipeline.table) == pipeline.rows_in


def test_sigterm_stops_after_the_running_epoch_and_the_next_run_goes_on(spark, pipeline):
    pipeline.add_files(16)
    driver = pipeline.start()
    driver.until_epochs(1)
    driver.process.send_signal(signal.SIGTERM)
    stopped_after = driver.to_the_end()
    assert 0 < stopped_after < len(pipeline.rows_in)
    assert stopped_after + pipeline.finish() == len(pipeline.rows_in)
    assert ids_in(spark, pipeline.table) == pipeline.rows_in


def test_the_demo_ends_with_every_row_once(tmp_path):
    command = [sys.executable, "-m", "volley_connectors.cli", "demo", "--files", "24", "--rows", "500", "--json"]
    done = subprocess.run([*command, "--dir", str(tmp_path / "demo")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads(done.stdout)
    assert (summary["rows_in"], summary["rows_out"]) == (12_000, 12_000)
    assert (summary["duplicates"], summary["lost"], summary["kills"]) == (0, 0, 1)
    assert 0 < summary["rows_when_killed"] < 12_000
