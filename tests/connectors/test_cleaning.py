"""`clean_source`: what is taken away, when, and what a crash in the middle leaves."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from volley_connectors.blob import BlobSource, BlobSourceConfig, cleaning
from volley_connectors.blob.cleaned import CleaningLog
from volley_connectors.blob.history import History
from volley_connectors.connection import Connection
from volley_connectors.preview import preview
from volley_core import BlobNotFoundError, BlobRef, ConfigError, Offset, ReadLimit, TransientError

ALL = ReadLimit()
START: Offset = {"manifest": 0}
DELETE = {"clean_source": "delete", "clean_source_retention": 0}
ARCHIVE = {"clean_source": "archive", "clean_source_retention": 0, "archive_path": "mem://archive/x/"}


def epoch(source: BlobSource, start: Offset) -> Offset:
    """Plan an epoch and read it; the next one says that it is committed."""
    end = source.latest_offset(start, ALL)
    read(source, start, end)
    return end


def read(source: BlobSource, start: Offset, end: Offset) -> list[int]:
    records = [record for split in source.splits(start, end) for record in source.read(split)]
    return [i for record in records for i in record.batch["id"].to_pylist()]


def commit(source: BlobSource, end: Offset) -> None:
    """As an available-now run ends: with everything due cleaned."""
    source.freeze()
    assert source.latest_offset(end, ALL) == end


def soon(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def states(world: Any) -> dict[str, str]:
    rows = [row for batch in History(world.state).batches() for row in batch.to_pylist()]
    return {row["uri"].removeprefix("mem://b/"): row["state"] for row in rows}


def marks(world: Any) -> list[str]:
    return sorted(file.name for file in Path(world.state, "cleaned").glob("*"))


def test_an_epoch_that_is_planned_and_not_committed_keeps_its_objects(world: Any) -> None:
    source = world.source(**DELETE)
    world.announce("a.json", 1)
    first = epoch(source, START)
    world.announce("b.json", 2)
    second = epoch(source, first)
    soon(lambda: marks(world) == ["00000000000000000001.json"])
    assert list(world.store.objects) == ["mem://b/b.json"]
    replayed = world.source(**DELETE)
    assert read(replayed, first, second) == [2]
    assert replayed.latest_offset(first, ALL) == second
    assert read(replayed, first, second) == [2]
    commit(replayed, second)
    assert world.store.objects == {}
    assert states(world) == {"a.json": "deleted", "b.json": "deleted"}


def test_the_last_call_of_an_available_now_run_waits_for_cleaning(world: Any) -> None:
    source = world.source(**DELETE, max_files_per_trigger=None)
    for number in range(250):
        world.announce(f"{number}.json", number)
    commit(source, epoch(source, START))
    assert world.store.objects == {}


def test_a_crash_between_delete_and_mark_is_made_good(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = world.source(**DELETE)
    world.announce("a.json", 1)
    end = epoch(source, START)
    with monkeypatch.context() as patch:
        patch.setattr(CleaningLog, "write", lambda *arguments: (_ for _ in ()).throw(OSError("died")))
        commit(source, end)
        source.close()
    assert (world.store.objects, marks(world)) == ({}, [])
    commit(world.source(**DELETE), end)
    assert states(world) == {"a.json": "deleted"}


def test_a_crash_between_copy_and_delete_is_made_good(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = world.source(**ARCHIVE)
    world.announce("a/b.json", 1)
    end = epoch(source, START)
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "delete", lambda ref: (_ for _ in ()).throw(TransientError("died")))
        commit(source, end)
        source.close()
    assert sorted(world.store.objects) == ["mem://archive/x/a/b.json", "mem://b/a/b.json"]
    assert states(world) == {"a/b.json": "read"}
    commit(world.source(**ARCHIVE), end)
    assert list(world.store.objects) == ["mem://archive/x/a/b.json"]
    assert states(world) == {"a/b.json": "archived"}


def test_epochs_of_earlier_runs_are_cleaned_too_and_none_twice(world: Any) -> None:
    before = world.source()
    offset = START
    for number in range(3):
        world.announce(f"{number}.json", number)
        offset = epoch(before, offset)
    commit(world.source(**DELETE), offset)
    assert (world.store.objects, len(marks(world))) == ({}, 3)
    world.store.delete = lambda ref: pytest.fail("deleted again")
    commit(world.source(**DELETE), offset)


def test_objects_are_left_alone_until_their_time_is_over(world: Any) -> None:
    source = world.source(clean_source="delete", clean_source_retention=0.4)
    world.announce("a.json", 1)
    end = epoch(source, START)
    commit(source, end)
    assert states(world) == {"a.json": "read"}
    soon(lambda: states(world) == {"a.json": "deleted"})
    assert world.store.objects == {}


def test_the_default_is_to_wait_a_week() -> None:
    assert BlobSourceConfig().clean_source_retention == 7 * 24 * 3600


def test_what_was_not_read_to_the_end_stays(world: Any) -> None:
    source = world.source(**DELETE, on_corrupt_file="skip", on_missing_file="skip", allow_overwrites=True)
    world.announce("good.json", 1)
    world.queue.send(world.store.put("mem://b/corrupt.json", data=b"{no"))
    world.announce("overwritten.json", 3)
    end = epoch(source, START)
    world.store.put("mem://b/overwritten.json", 4)
    commit(source, end)
    assert list(world.store.objects) == ["mem://b/corrupt.json", "mem://b/overwritten.json"]
    assert states(world) == {"good.json": "deleted", "corrupt.json": "corrupt", "overwritten.json": "read"}


@pytest.mark.parametrize(("choice", "left"), [("drop", ["mem://b/a.json"]), ("rescue", [])])
def test_an_object_stays_if_records_of_it_stand_nowhere_else(world: Any, choice: str, left: list[str]) -> None:
    source = world.source(**DELETE, on_bad_record=choice)
    world.queue.send(world.store.put("mem://b/a.json", data=b'{"id": 1}\n{"id": "x"}\n'))
    commit(source, epoch(source, START))
    assert list(world.store.objects) == left


def test_an_object_stays_until_all_of_its_pieces_are_reported(world: Any) -> None:
    source = world.source(**DELETE, target_split_bytes=65536)
    world.announce("big.json", *range(20_000))
    end = source.latest_offset(START, ALL)
    *most, _ = source.splits(START, end)
    assert len(most) > 1
    for split in most:
        assert list(source.read(split))
    commit(source, end)
    assert list(world.store.objects) == ["mem://b/big.json"]


def test_a_version_that_nobody_knows_is_never_deleted(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = world.source(**DELETE)
    world.store.put("mem://b/a.json", 1)
    world.queue.send(BlobRef("mem://b/a.json"))
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "stat", lambda ref: (_ for _ in ()).throw(BlobNotFoundError("not yet")))
        end = source.latest_offset(START, ALL)
    read(source, START, end)
    commit(source, end)
    assert list(world.store.objects) == ["mem://b/a.json"]


def test_what_fails_is_warned_about_once_and_tried_again(
    world: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cleaning, "_RETRY_SECONDS", 0.01)
    honest, tries = world.store.delete, []

    def delete(ref: BlobRef) -> bool:
        if ref.uri.endswith("b.json") and len(tries) < 5:
            tries.append(ref)
            raise TransientError("the store is tired")
        return bool(honest(ref))

    world.store.delete = delete
    source = world.source(**DELETE)
    for name in "abc":
        world.announce(f"{name}.json", 1)
    first = epoch(source, START)
    world.announce("d.json", 2)
    second = epoch(source, first)
    with caplog.at_level(logging.WARNING):
        assert source.latest_offset(second, ALL) == second
        soon(lambda: world.store.objects == {})
        soon(lambda: len(marks(world)) == 2)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "clean_source could not delete all objects of epoch 1: the store is tired. It is tried again." in warning


def test_no_epoch_waits_for_cleaning(world: Any) -> None:
    release = threading.Event()
    honest = world.store.delete
    world.store.delete = lambda ref: release.wait(30) and honest(ref)
    source, offset = world.source(**DELETE), START
    began = time.monotonic()
    for number in range(5):
        world.announce(f"{number}.json", number)
        offset = epoch(source, offset)
    assert time.monotonic() - began < 10
    assert len(world.store.objects) == 5
    release.set()
    soon(lambda: len(world.store.objects) == 1)


def test_an_archived_name_tells_the_version_where_there_are_several(world: Any) -> None:
    source, offset = world.source(**ARCHIVE, allow_overwrites=True), START
    for number in range(2):
        world.announce("in/a.json.gz", data_id := number + 1)
        world.store.objects["mem://b/in/a.json.gz"] = (f'"v/{data_id}"', b'{"id":1}\n', 0)
        world.queue.messages.clear()
        world.queue.visible.clear()
        world.queue.send(world.store.stat(BlobRef("mem://b/in/a.json.gz")))
        offset = epoch(source, offset)
        source.latest_offset(offset, ALL)
        soon(lambda: "mem://b/in/a.json.gz" not in world.store.objects)
    assert sorted(world.store.objects) == ["mem://archive/x/in/a.v1.json.gz", "mem://archive/x/in/a.v2.json.gz"]


def test_a_restored_checkpoint_whose_objects_are_gone_says_so(world: Any) -> None:
    source = world.source(**DELETE)
    world.announce("a.json", 1)
    end = epoch(source, START)
    commit(source, end)
    with pytest.raises(BlobNotFoundError, match=r"a\.json.*set to 'skip'"):
        read(world.source(**DELETE), START, end)
    assert read(world.source(**DELETE, on_missing_file="skip"), START, end) == []


def test_what_cannot_clean_is_refused_before_anything_is_read(world: Any) -> None:
    with pytest.raises(ConfigError, match="needs the option 'archive_path'"):
        world.source(clean_source="archive")
    for inside in ("mem://b", "mem://b/", "mem://b/old/"):
        with pytest.raises(ConfigError, match="lies within the source"):
            world.source(clean_source="archive", archive_path=inside)
    read_only = SimpleNamespace(open=world.store.open, list=world.store.list, stat=world.store.stat)
    with pytest.raises(ConfigError, match="SimpleNamespace can only read"):
        BlobSource(BlobSourceConfig(clean_source="delete"), world.queue, read_only, "mem://b/")
    world.announce("a.json", 1)
    with pytest.raises(ConfigError, match="needs delivery = exactly-once and a state_location"):
        world.source(**DELETE, delivery="at-least-once").latest_offset(START, ALL)
    assert len(world.queue.visible) == 1


def test_a_batch_and_a_preview_never_clean(tmp_path: Path) -> None:
    file = tmp_path / "in" / "a.json"
    file.parent.mkdir()
    file.write_text('{"id": 1}\n')
    state = str(tmp_path / "state")
    options = {"connector": "files", "path": str(file.parent), "schema": "id bigint", "state_location": state}
    connection = Connection.parse("sources", {**options, **{key: str(value) for key, value in DELETE.items()}})
    assert preview(connection, 10).num_rows == 1
    source = connection.for_batch().source()
    end = source.latest_offset(START, ALL)
    assert [record.batch.num_rows for split in source.splits(START, end) for record in source.read(split)] == [1]
    source.freeze()
    assert source.latest_offset(end, ALL) == end
    source.close()
    assert file.exists()
    assert not Path(state).exists()
    stream = connection.source()
    end = stream.latest_offset(START, ALL)
    assert [record.batch.num_rows for split in stream.splits(START, end) for record in stream.read(split)] == [1]
    stream.freeze()
    stream.latest_offset(end, ALL)
    stream.close()
    assert not file.exists()
