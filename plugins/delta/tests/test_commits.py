"""Races, replays and lost answers: every epoch once, and no file that a log names is ever removed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from tests.servers.aws import KEYS, client
from tests.servers.judges.delta import DeltaJudge
from tests.servers.processes import running
from volley_core import ConfigError, PipelineConflictError, TransientError

OTHER_QUERY = "22222222-bbbb-4bbb-8bbb-222222222222"


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def held(judge: DeltaJudge, path: Path) -> list[int]:
    return sorted(row["id"] for row in judge.read(path).rows)


def race(*acts: Callable[[], Any]) -> list[BaseException]:
    """Run all at once; what they raised."""
    start = threading.Barrier(len(acts))
    errors: list[BaseException] = []

    def run(act: Callable[[], Any]) -> None:
        start.wait()
        try:
            act()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def zombies(writes: Any, rounds: int) -> None:
    """In each round two drivers publish one epoch, which the tasks of each wrote."""
    for epoch in range(rounds):
        drivers = [writes.driver(epoch, writes.task(epoch, ids(2 * epoch, 2 * epoch + 1))) for _ in range(2)]
        errors = race(*(partial(driver.on_checkpoint, epoch) for driver in drivers))
        assert errors == []


@pytest.fixture
def s3_address(tmp_path: Path) -> Iterator[str]:
    """moto in a process of its own: delta-rs holds Python's lock while it uploads, and would wait for itself."""

    def command(port: int) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]

    with running(command, tmp_path / "moto.log") as address:
        yield f"http://{address}"


@pytest.fixture
def bucket(s3_address: str) -> Iterator[Any]:
    s3 = client("s3", s3_address)
    s3.create_bucket(Bucket="lake")
    yield s3
    s3.close()


@pytest.fixture
def on_s3(s3_address: str) -> dict[str, Any]:
    keys = {"AWS_ACCESS_KEY_ID": KEYS["access_key_id"], "AWS_REGION": KEYS["region"]}
    return {
        "storage_options": keys | {"AWS_ENDPOINT_URL": s3_address, "AWS_ALLOW_HTTP": "true"},
        "storage_secrets": {"AWS_SECRET_ACCESS_KEY": KEYS["secret_access_key"]},
    }


def test_of_two_zombies_on_each_epoch_one_wins(delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path) -> None:
    zombies(writes(), 200)
    found = delta_judge.read(path)
    assert sorted(row["id"] for row in found.rows) == [*range(400)]
    assert [version for app, version in found.transactions.items() if app.endswith("/epoch")] == [199]


@pytest.mark.timeout(60)
def test_of_two_zombies_on_s3_one_wins(
    delta_judge: DeltaJudge, writes: Callable[..., Any], bucket: Any, on_s3: dict[str, Any], tmp_path: Path
) -> None:
    zombies(writes(table_uri="s3://lake/some table", **on_s3), 10)
    copy(bucket, "some table/", tmp_path / "copy")
    assert held(delta_judge, tmp_path / "copy") == [*range(20)]


@pytest.mark.usefixtures("bucket")
def test_a_bucket_that_is_missing_is_told(writes: Callable[..., Any], on_s3: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no such bucket"):
        writes(table_uri="s3://pond/table", **on_s3).sink().prepare(ids().schema)


def copy(s3: Any, prefix: str, folder: Path) -> None:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=prefix):
        for item in page["Contents"]:
            file = folder / item["Key"].removeprefix(prefix)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(s3.get_object(Bucket="lake", Key=item["Key"])["Body"].read())


def test_writers_with_other_tags_do_not_keep_an_epoch_out(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path
) -> None:
    writes().epoch(0, ids(0))

    def foreign(number: int) -> None:
        # It may lose a race; ours try again.
        with suppress(CommitFailedError):
            if number % 5 == 4:
                DeltaTable(path).optimize.compact()
            else:
                write_deltalake(path, ids(1000 + number), mode="append")

    pipelines = [writes(), writes(pipeline_id="other")]
    for epoch in range(1, 21):
        drivers = [
            pipeline.driver(epoch, pipeline.task(epoch, ids(500 * number + epoch)))
            for number, pipeline in enumerate(pipelines)
        ]
        publish = [partial(driver.on_checkpoint, epoch) for driver in drivers]
        assert race(*publish, partial(foreign, epoch)) == []
    assert [number for number in held(delta_judge, path) if number < 1000] == [*range(21), *range(501, 521)]


def test_a_foreign_change_between_the_check_and_the_commit_is_looked_at_anew(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes().epoch(0, ids(0))
    driver = writes().driver(1, writes().task(1, ids(1)))
    between(monkeypatch, lambda: DeltaTable(path).delete("id = 0"))
    driver.on_checkpoint(1)
    assert held(delta_judge, path) == [1]


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Do something once, after a commit was checked and before it is made."""
    original = DeltaTable.create_write_transaction
    done: list[bool] = []

    def committed(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        if not done:
            done.append(True)
            act()
        original(self, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", committed)


def lose_answers(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Every commit lands, and its caller sees an error."""
    original = DeltaTable.create_write_transaction

    def committed(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        raise error

    monkeypatch.setattr(DeltaTable, "create_write_transaction", committed)


@pytest.mark.parametrize("error", [CommitFailedError("Concurrent transaction failed."), OSError("timed out")])
def test_a_commit_whose_answer_was_lost_is_found(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    lose_answers(monkeypatch, error)
    for epoch in range(3):
        driver = writes().driver(epoch, message := writes().task(epoch, ids(epoch)))
        driver.on_checkpoint(epoch)
        writes().driver(epoch, message).discard()
    assert held(delta_judge, path) == [0, 1, 2]


def test_files_that_a_late_commit_may_still_name_are_kept(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store takes the commit long after the driver gave it up."""
    writes().epoch(0, ids(0))
    late: list[Callable[[], None]] = []
    original = DeltaTable.create_write_transaction

    def hang(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        late.append(lambda: original(self, *args, **kwargs))
        raise OSError("timed out")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", hang)
    monkeypatch.setattr("volley_delta.commits._LONGEST_PAUSE_SECONDS", 0)
    message = writes().task(1, ids(1))
    with pytest.raises(TransientError, match="epoch 1 could not be committed"):
        writes().driver(1, message).on_checkpoint(1)
    writes().driver(1, message).discard()
    late[0]()
    assert held(delta_judge, path) == [0, 1]


def test_a_replay_removes_what_it_wrote_and_a_failed_epoch_too(writes: Callable[..., Any], path: Path) -> None:
    writes().epoch(0, ids(0), ids(1))
    (file,) = path.glob("*.parquet")
    writes().epoch(0, ids(0), ids(1))
    writes().driver(1, writes().task(1, ids(2))).discard()
    assert [*path.glob("*.parquet")] == [file]


def test_an_adopted_pipeline_fences_its_earlier_query_which_cannot_take_it_back(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path
) -> None:
    writes().epoch(0, ids(0))
    with pytest.raises(PipelineConflictError, match=r"pipeline_id 'volley-default'.*adopt_pipeline=true"):
        writes().epoch(0, ids(100), query_id=OTHER_QUERY)
    writes(adopt_pipeline=True).epoch(0, ids(1), query_id=OTHER_QUERY)
    for options in ({}, {"adopt_pipeline": True}):
        with pytest.raises(PipelineConflictError, match="another query has taken over"):
            writes(**options).epoch(1, ids(200))
    writes(adopt_pipeline=True).epoch(1, ids(2), query_id=OTHER_QUERY)
    assert held(delta_judge, path) == [0, 1, 2]


def test_an_earlier_query_that_was_checked_before_the_takeover_loses(
    delta_judge: DeltaJudge, writes: Callable[..., Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two tags differ, but the pipeline's generation is in both commits."""
    writes().epoch(0, ids(0))
    zombie = writes().driver(1, writes().task(1, ids(100)))
    between(monkeypatch, lambda: writes(adopt_pipeline=True).epoch(0, ids(1), query_id=OTHER_QUERY))
    with pytest.raises(PipelineConflictError, match="another query has taken over"):
        zombie.on_checkpoint(1)
    assert held(delta_judge, path) == [0, 1]


def test_tags_survive_checkpoints_of_the_log(writes: Callable[..., Any], path: Path) -> None:
    writes().epoch(0, ids(0))
    DeltaTable(path).create_checkpoint()
    DeltaTable(path).cleanup_metadata()
    writes().epoch(0, ids(0))
    assert DeltaTable(path).to_pyarrow_table().num_rows == 1


def test_an_empty_epoch_of_a_known_query_makes_no_commit(writes: Callable[..., Any], path: Path) -> None:
    writes().epoch(0, ids(0))
    version = DeltaTable(path).version()
    writes().epoch(1)
    writes().epoch(2, ids(2))
    assert DeltaTable(path).version() == version + 1


def test_the_history_tells_pipeline_query_epoch_and_the_users_note(writes: Callable[..., Any], path: Path) -> None:
    writes(pipeline_id="events", user_metadata="nightly").epoch(7, ids(0))
    commit = DeltaTable(path).history(1)[0]
    assert commit["volley"]["pipeline_id"] == "events"
    assert (commit["volley"]["epoch"], commit["userMetadata"]) == (7, "nightly")


def test_a_foreign_transaction_is_no_business_of_ours(writes: Callable[..., Any], path: Path) -> None:
    writes().epoch(0, ids(0))
    properties = CommitProperties(app_transactions=[Transaction("job", 10**6)])
    write_deltalake(path, ids(1), mode="append", commit_properties=properties)
    writes().epoch(1, ids(2))
    assert DeltaTable(path).to_pyarrow_table().num_rows == 3
