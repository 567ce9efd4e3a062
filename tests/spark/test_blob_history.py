"""The source `volley-files`, and reading again what it lists, as DataFrames."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def landing(spark: Any, tmp_path: Path) -> dict[str, str]:
    """Options of a source whose three files were read by a stream, one in each epoch, and deleted after the last."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.json").write_text(f'{{"id": {number}}}\n')
    options = {"connector": "files", "path": str(folder), "schema": "id bigint", "max_files_per_trigger": "1"}
    cleaning = {"clean_source": "archive", "archive_path": str(tmp_path / "archive"), "clean_source_retention": "0"}
    source = options | cleaning | {"state_location": str(tmp_path / "state")}
    run(spark, source, tmp_path / "first", tmp_path / "first-out")
    return options


def run(spark: Any, source: dict[str, str], checkpoint: Path, out: Path) -> list[Any]:
    """One available-now run; what stands in the sink after it."""
    rows = spark.readStream.format("volley").options(**source).load()
    writer = rows.writeStream.format("volley").options(connector="files", path=str(out), pipeline_id=out.name)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return sorted(map(tuple, spark.read.parquet(str(out)).drop("epoch").collect())) if out.exists() else []


def test_files_are_archived_when_the_run_ends_and_told_of_as_a_dataframe(
    spark: Any, landing: dict[str, str], tmp_path: Path
) -> None:
    assert sorted(file.name for file in (tmp_path / "archive").iterdir()) == ["0.json", "1.json", "2.json"]
    assert list((tmp_path / "in").iterdir()) == []
    history = spark.read.format("volley").options(connector="volley-files", location=str(tmp_path / "state")).load()
    rows = history.orderBy("epoch").select("epoch", "state", "rows").collect()
    assert [tuple(row) for row in rows] == [(1, "archived", 1), (2, "archived", 1), (3, "archived", 1)]
    assert history.where("planned_at > now() - interval 1 hour").count() == 3


def test_a_stream_of_it_tells_each_final_epoch_once(spark: Any, landing: dict[str, str], tmp_path: Path) -> None:
    source = {"connector": "volley-files", "location": str(tmp_path / "state"), "max_files_per_trigger": "1"}
    checkpoint, out = tmp_path / "c", tmp_path / "told"
    rows = spark.readStream.format("volley").options(**source).load().selectExpr("uri", "state", "rows")
    for _ in range(2):
        writer = rows.writeStream.format("volley").options(connector="files", path=str(out), pipeline_id="told")
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
        told = sorted(tuple(row) for row in spark.read.parquet(str(out)).select("uri", "state", "rows").collect())
        folder = tmp_path / "in"
        assert told == [(f"{folder}/0.json", "read", 1), (f"{folder}/1.json", "read", 1)]
        # As if the driver had died before Spark knew of the last epoch's end: it is told again, the same.
        for path in (checkpoint / "commits").glob("*1*"):
            path.unlink()


def test_past_epochs_are_read_again_as_a_batch_and_as_a_stream(
    spark: Any, landing: dict[str, str], tmp_path: Path
) -> None:
    for file in (tmp_path / "archive").iterdir():
        # With the time that tells its version.
        shutil.move(file, tmp_path / "in" / file.name)
    past = landing | {"reprocess_state_location": str(tmp_path / "state"), "reprocess_from": "2"}
    batch = spark.read.format("volley").options(**past).load()
    assert sorted(row.id for row in batch.collect()) == [1, 2]
    stream = past | {"state_location": str(tmp_path / "state-2")}
    for _ in range(2):
        assert run(spark, stream, tmp_path / "second", tmp_path / "second-out") == [(1,), (2,)]
