"""The sink `files`, beyond what the conformance suites ask of every sink."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from volley_blob_store_local import FilesSink, FilesSinkConfig
from volley_blob_store_local.commits import CommitLog
from volley_blob_store_local.exchange import exchange

from volley_core import ConfigError, EpochContext, PipelineConflictError, SinkError, StreamRecord
from volley_core.schema import parse_schema


def batch(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})


def make(path: Path, **options: Any) -> FilesSink:
    return FilesSink(FilesSinkConfig(path=str(path), **options))


def stage(path: Path, epoch: int, *ids: int, query: str = "q1", **options: Any) -> bytes:
    sink = make(path, **options)
    sink.begin(EpochContext(query, epoch, partition=0))
    sink.write(StreamRecord(batch(*ids)))
    sink.flush()
    return sink.staged()


def commit(path: Path, epoch: int, *ids: int, query: str = "q1", replace: bool = False, **options: Any) -> None:
    sink = make(path, **options)
    message = stage(path, epoch, *ids, query=query, **options)
    sink.begin(EpochContext(query, epoch, replace=replace))
    sink.adopt([message])
    sink.on_checkpoint(epoch)


def rows(path: Path) -> list[int]:
    return sorted(ds.dataset(path, format="parquet").to_table()["id"].to_pylist())


def staged(path: Path) -> list[str]:
    return sorted(os.listdir(path / "_staging"))


def test_epochs_are_hive_partitions_under_sparks_own_numbers(tmp_path: Path) -> None:
    commit(tmp_path, 0, 1)
    commit(tmp_path, 3, 2)
    table = ds.dataset(tmp_path, format="parquet", partitioning="hive").to_table()
    assert sorted(zip(table["id"].to_pylist(), table["epoch"].to_pylist(), strict=True)) == [(1, 0), (2, 3)]


def test_batches_are_pooled_into_row_groups_of_one_file(tmp_path: Path) -> None:
    sink = make(tmp_path, row_group_bytes=8000)
    for number in range(100):
        sink.write(StreamRecord(batch(*range(number * 100, number * 100 + 100))))
    sink.flush()
    sink.on_checkpoint(0)
    (file,) = (tmp_path / "epoch=0000000000").glob("*.parquet")
    metadata = pq.ParquetFile(file).metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (10_000, 10)
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_published_epoch_leaves_nothing_staged(tmp_path: Path) -> None:
    stage(tmp_path, 0, 99)
    commit(tmp_path, 0, 1)
    assert staged(tmp_path) == []
    message = stage(tmp_path, 1, 2)
    commit(tmp_path, 0, 1)
    assert staged(tmp_path) == [name for name in staged(tmp_path) if name in message.decode()]
    assert len(staged(tmp_path)) == 1, "a replay of epoch 0 does not touch what epoch 1 staged"


def test_what_other_queries_staged_is_removed_only_when_it_is_old(tmp_path: Path) -> None:
    commit(tmp_path, 0, 1)
    stage(tmp_path, 0, 2, query="q2", pipeline_id="other")
    commit(tmp_path, 1, 3)
    (left,) = staged(tmp_path)
    long_ago = time.time() - 2 * 86_400
    os.utime(tmp_path / "_staging" / left, (long_ago, long_ago))
    commit(tmp_path, 2, 4)
    assert staged(tmp_path) == []


def test_a_refused_query_is_told_before_it_writes(tmp_path: Path) -> None:
    commit(tmp_path, 0, 1)
    with pytest.raises(PipelineConflictError, match=r"another query \(q1\).*pipeline_id.*adopt_pipeline=true"):
        make(tmp_path).begin(EpochContext("q2", 0, partition=3))
    assert staged(tmp_path) == []


def test_an_adopted_pipeline_is_taken_even_by_an_epoch_without_rows(tmp_path: Path) -> None:
    commit(tmp_path, 0, 1)
    sink = make(tmp_path, adopt_pipeline=True)
    sink.begin(EpochContext("q2", 0))
    sink.adopt([])
    sink.on_checkpoint(0)
    with pytest.raises(PipelineConflictError):
        commit(tmp_path, 1, 2)
    commit(tmp_path, 1, 3, query="q2")
    assert rows(tmp_path) == [1, 3]


def test_an_old_epoch_of_a_restored_checkpoint_is_skipped(tmp_path: Path) -> None:
    for epoch in range(4):
        commit(tmp_path, epoch, epoch)
    for epoch in (1, 2, 3):
        commit(tmp_path, epoch, epoch)
    assert rows(tmp_path) == [0, 1, 2, 3]


def test_a_record_without_its_epoch_proves_nothing(tmp_path: Path) -> None:
    """The driver died between writing the record and the rename; meanwhile another pipeline took the number."""
    log = CommitLog(tmp_path, "volley-default", adopt=False)
    context = EpochContext("q1", 0)
    with log.locked():
        log.record(context, log.plan(context, 0))
    commit(tmp_path, 0, 7, query="q2", pipeline_id="other")
    commit(tmp_path, 0, 1)
    commit(tmp_path, 0, 1)
    assert rows(tmp_path) == [1, 7]


def test_replacing_keeps_what_other_queries_staged_and_committed(tmp_path: Path) -> None:
    path = tmp_path / "out"
    commit(path, 0, 1)
    commit(path, 0, 2, query="q2", pipeline_id="other")
    message = stage(path, 1, 3, query="q2", pipeline_id="other")
    commit(path, 1, 10, 11, replace=True)
    assert rows(path) == [10, 11]
    commit(path, 0, 2, query="q2", pipeline_id="other")
    assert rows(path) == [10, 11], "the other pipeline's epoch 0 stays replaced: it was committed before"
    late = make(path, pipeline_id="other")
    late.begin(EpochContext("q2", 1))
    late.adopt([message])
    late.on_checkpoint(1)
    assert rows(path) == [3, 10, 11]
    assert os.listdir(tmp_path) == ["out"]


def test_replacing_with_nothing_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out"
    commit(path, 0, 1)
    sink = make(path)
    sink.begin(EpochContext("q1", 1, replace=True))
    sink.adopt([])
    sink.on_checkpoint(1)
    assert list(path.glob("epoch=*")) == []


def test_a_file_system_that_cannot_replace_is_refused_and_unharmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    commit(path, 0, 1)
    monkeypatch.setattr("volley_blob_store_local.sink.exchange", lambda left, right: False)
    with pytest.raises(ConfigError, match="cannot replace a directory in one step.*append"):
        commit(path, 1, 2, replace=True)
    assert rows(path) == [1]
    assert os.listdir(tmp_path) == ["out"]


def test_exchange_swaps_and_reports_what_is_missing(tmp_path: Path) -> None:
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"was-{name}").touch()
    assert exchange(tmp_path / "left", tmp_path / "right")
    assert os.listdir(tmp_path / "left") == ["was-right"]
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "left", tmp_path / "nowhere")


def test_prepare_shows_both_schemas(tmp_path: Path) -> None:
    commit(tmp_path, 0, 1)
    with pytest.raises(ConfigError, match=r"there: id bigint\n  query: id bigint, name string"):
        make(tmp_path).prepare(parse_schema("id bigint, name string"))
    make(tmp_path).prepare(parse_schema("id bigint not null"))


def test_prepare_refuses_a_column_named_like_the_partition(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="column named 'epoch'"):
        make(tmp_path).prepare(parse_schema("epoch bigint"))


def test_prepare_refuses_a_directory_of_other_things(tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").touch()
    with pytest.raises(ConfigError, match=r"'mine\.parquet'"):
        make(tmp_path).prepare(parse_schema("id bigint"))


def test_a_staged_file_that_is_gone_is_an_error_and_nothing_appears(tmp_path: Path) -> None:
    message = stage(tmp_path, 0, 1)
    for name in staged(tmp_path):
        (tmp_path / "_staging" / name).unlink()
    sink = make(tmp_path)
    sink.begin(EpochContext("q1", 0))
    sink.adopt([message])
    with pytest.raises(SinkError, match="staged file .* is gone"):
        sink.on_checkpoint(0)
    assert list(tmp_path.glob("epoch=*")) == []


def test_batches_of_two_schemas_in_one_task_are_refused(tmp_path: Path) -> None:
    sink = make(tmp_path)
    sink.write(StreamRecord(batch(1)))
    with pytest.raises(SinkError, match="schema"):
        sink.write(StreamRecord(pa.RecordBatch.from_pydict({"other": [1]})))
