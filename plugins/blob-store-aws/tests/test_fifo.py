"""FIFO queues, on the lenient and the strict server: groups keep their order, and what is in flight holds its group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from volley_blob_store_aws import SqsNotificationSource, SqsNotificationSourceConfig

from tests.servers.aws import QueueServer, depth
from volley_core import Notification

PUT = (Path(__file__).parent / "payloads" / "s3_put.json").read_text()
Poll = Callable[[], list[str]]


@pytest.fixture
def urls(server: QueueServer) -> tuple[str, str]:
    """A FIFO queue and its dead-letter queue."""
    return server.redriving_queue(".fifo")


@pytest.fixture
def source(server: QueueServer, urls: tuple[str, str]) -> Iterator[SqsNotificationSource]:
    config = SqsNotificationSourceConfig(queue_url=urls[0], wait_seconds=0, visibility_seconds=1, **server.options)
    made = SqsNotificationSource(config)
    yield made
    made.close()


@pytest.fixture
def send(server: QueueServer, urls: tuple[str, str]) -> Callable[..., None]:
    def message(name: str, group: str = "one", twice: str | None = None) -> None:
        body = "{poison" if name == "poison" else PUT.replace("in/a.json", name)
        names = {"MessageGroupId": group, "MessageDeduplicationId": twice or name}
        server.sqs.send_message(QueueUrl=urls[0], MessageBody=body, **names)

    return message


def names(found: list[Notification]) -> list[str]:
    return [blob.uri.removeprefix("s3://landing/") for n in found for blob in n.blobs]


def receipts(found: list[Notification]) -> list[str]:
    return [n.receipt for n in found]


def test_a_group_comes_in_order_and_is_acknowledged(
    server: QueueServer, urls: tuple[str, str], source: SqsNotificationSource, send: Callable[..., None]
) -> None:
    for number in range(24):
        send(f"{number:02}", group=f"group-{number % 3}")
    found: list[Notification] = []
    while batch := list(source.poll(12)):
        found += batch
        source.ack(receipts(batch))
    assert sorted(names(found)) == [f"{number:02}" for number in range(24)]
    for group in range(3):
        assert [n for n in names(found) if int(n) % 3 == group] == [f"{n:02}" for n in range(group, 24, 3)]
    assert depth(server.sqs, urls[0]) == 0


def test_a_message_sent_twice_comes_once(source: SqsNotificationSource, send: Callable[..., None]) -> None:
    send("a", twice="same")
    send("b", twice="same")
    assert names(list(source.poll(10))) == ["a"]


def test_release_gives_the_group_back_in_order(source: SqsNotificationSource, send: Callable[..., None]) -> None:
    send("a")
    send("b")
    first = list(source.poll(1))
    assert list(source.poll(10)) == [], "the rest of the group waits for its first message"
    source.release(receipts(first))
    assert names(list(source.poll(10))) == ["a", "b"]


def test_extend_keeps_the_group_back(source: SqsNotificationSource, send: Callable[..., None]) -> None:
    send("a")
    first = list(source.poll(1))
    source.extend(receipts(first), 30)
    send("b")
    time.sleep(1.2)
    assert list(source.poll(10)) == []
    source.ack(receipts(first))
    assert names(list(source.poll(10))) == ["b"]


def test_an_expired_receipt_is_not_an_error(source: SqsNotificationSource, send: Callable[..., None]) -> None:
    send("a")
    old = receipts(list(source.poll(1)))
    time.sleep(1.2)
    again = list(source.poll(1))
    assert names(again) == ["a"]
    source.extend(old, 30)
    source.release(old)
    source.ack(old)
    source.ack(receipts(again))


def test_a_poison_message_reaches_the_dead_letter_queue_and_lets_its_group_go_on(
    server: QueueServer, urls: tuple[str, str], source: SqsNotificationSource, send: Callable[..., None]
) -> None:
    send("poison")
    send("b")
    found: list[Notification] = []
    deadline = time.monotonic() + 20
    while not names(found) and time.monotonic() < deadline:
        found += source.poll(1)
        time.sleep(0.3)
    assert names(found) == ["b"]
    assert depth(server.sqs, urls[1]) == 1
