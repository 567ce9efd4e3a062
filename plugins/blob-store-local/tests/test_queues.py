"""The two local queues, beyond what the conformance suite asks of every queue."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

import pytest
from volley_blob_store_local import DirectoryQueue, DirectoryQueueConfig, SqliteQueue, SqliteQueueConfig
from volley_blob_store_local.messages import parse

from volley_core import BlobRef, ConfigError


def make(kind: str, folder: Path, visibility_seconds: float = 60.0) -> Any:
    if kind == "directory":
        return DirectoryQueue(DirectoryQueueConfig(path=str(folder / "q"), visibility_seconds=visibility_seconds))
    return SqliteQueue(SqliteQueueConfig(path=str(folder / "q.sqlite"), visibility_seconds=visibility_seconds))


def consume(kind: str, folder: Path) -> list[str]:
    """Take and delete messages until the queue is quiet."""
    queue, seen, quiet = make(kind, folder), [], 0
    while quiet < 3:
        found = queue.poll(5)
        seen += [blob.uri for notification in found for blob in notification.blobs]
        queue.ack([notification.receipt for notification in found])
        quiet = 0 if found else quiet + 1
    queue.close()
    return seen


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
def test_several_processes_share_a_queue_and_each_message_goes_to_one(kind: str, tmp_path: Path) -> None:
    queue = make(kind, tmp_path)
    for number in range(60):
        queue.send(f"/o/{number}")
    queue.close()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        parts = pool.starmap(consume, [(kind, tmp_path)] * 2)
    assert sorted(parts[0] + parts[1]) == sorted(f"/o/{number}" for number in range(60))


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
def test_messages_come_in_the_order_they_were_sent(kind: str, tmp_path: Path) -> None:
    queue = make(kind, tmp_path)
    for number in range(20):
        queue.send(f"/o/{number}")
    assert [n.blobs[0].uri for n in queue.poll(20)] == [f"/o/{number}" for number in range(20)]
    queue.close()


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
def test_a_receipt_changes_with_each_delivery_and_the_old_one_is_worthless(kind: str, tmp_path: Path) -> None:
    queue = make(kind, tmp_path, visibility_seconds=0.05)
    queue.send("/o/1")
    (first,) = queue.poll(1)
    time.sleep(0.1)
    (second,) = queue.poll(1)
    assert second.receipt != first.receipt
    queue.ack([first.receipt])
    time.sleep(0.1)
    (third,) = queue.poll(1)
    assert third.message_id == first.message_id, "the stale receipt deleted nothing"
    queue.close()


def test_a_message_file_of_a_user_need_only_be_json(tmp_path: Path) -> None:
    queue = make("directory", tmp_path)
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "mine.json").write_text('{"uri": "file:///data/a%20b.json"}')
    (tmp_path / "q" / "notes.txt").write_text("not a message")
    (notification,) = queue.poll(10)
    assert notification.blobs == (BlobRef("/data/a b.json"),)
    assert notification.message_id == "mine.json"


def test_a_half_written_message_is_read_once_it_is_whole(tmp_path: Path) -> None:
    queue = make("directory", tmp_path)
    (tmp_path / "q").mkdir()
    file = tmp_path / "q" / "slow.json"
    file.write_text('{"uri": "/data')
    assert queue.poll(10) == []
    file.write_text('{"uri": "/data/a.json"}')
    assert len(queue.poll(10)) == 1


@pytest.mark.parametrize("body", ["[]", "{}", '{"uri": 1}', '{"uris": "x"}', '{"uris": [""]}', "nonsense"])
def test_what_is_not_a_message_is_refused(body: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(body)


def test_unreadable_messages_do_not_fill_a_poll(tmp_path: Path) -> None:
    queue = make("sqlite", tmp_path)
    for _ in range(5):
        queue.send_body("nonsense")
    queue.send("/o/good")
    assert [n.blobs[0].uri for _ in range(3) for n in queue.poll(3)] == ["/o/good"]
    queue.close()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "q.sqlite").write_bytes(b"this is a text, not a database, and long enough to be told apart" * 10)
    with pytest.raises(ConfigError, match=r"q\.sqlite is not a usable SQLite file"):
        make("sqlite", tmp_path).poll(1)


def test_a_queue_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("a file")
    with pytest.raises(ConfigError, match="queue directory"):
        make("directory", tmp_path).poll(1)
