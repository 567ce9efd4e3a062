"""What SQS asks for beyond the contract: tens, long polls, failures of single entries, redrive, helpful errors."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from volley_blob_store_aws import SqsNotificationSource, SqsNotificationSourceConfig

from tests.servers.aws import depth, queue_arn
from volley_core import ConfigError, Notification, TransientError

PAYLOADS = Path(__file__).parent / "payloads"
PUT = (PAYLOADS / "s3_put.json").read_text()
Make = Callable[..., SqsNotificationSource]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[SqsNotificationSource] = []

    def source(**options: Any) -> SqsNotificationSource:
        made.append(SqsNotificationSource(SqsNotificationSourceConfig(**{"wait_seconds": 0, **options})))
        return made[-1]

    yield source
    for one in made:
        one.close()


@pytest.fixture
def source(make: Make, aws: dict[str, Any], queue: str) -> SqsNotificationSource:
    return make(queue_url=queue, **aws)


@pytest.fixture
def severe(make: Make, scripted: Any, strict: Any) -> SqsNotificationSource:
    """A source on the strict queue."""
    options = scripted(strict)
    return make(queue_url=f"{options['endpoint_url']}/123456789012/announcements", **options)


def receipts(found: Any) -> list[str]:
    return [notification.receipt for notification in found]


def test_more_than_ten_messages_come_and_go_in_tens(severe: SqsNotificationSource, strict: Any) -> None:
    for _ in range(25):
        strict.send(PUT)
    found = severe.poll(25)
    assert len(found) == 25
    assert strict.calls == ["ReceiveMessage"] * 3
    severe.extend(receipts(found), 60)
    severe.ack(receipts(found))
    assert strict.calls[3:] == ["ChangeMessageVisibilityBatch"] * 3 + ["DeleteMessageBatch"] * 3
    assert strict.bodies == {}


def test_no_receipts_make_no_call(severe: SqsNotificationSource, strict: Any) -> None:
    severe.ack([])
    severe.extend([], 60)
    severe.release([])
    assert strict.calls == []


def test_a_receipt_given_twice_is_one_entry(severe: SqsNotificationSource, strict: Any) -> None:
    strict.send(PUT)
    (notification,) = severe.poll(10)
    severe.ack([notification.receipt] * 12)
    assert strict.calls.count("DeleteMessageBatch") == 1
    assert strict.bodies == {}


def test_entries_that_fail_are_tried_again_alone(severe: SqsNotificationSource, strict: Any) -> None:
    for _ in range(3):
        strict.send(PUT)
    found = severe.poll(3)
    strict.failures = ["InternalError", "", "RequestThrottled", "InternalError"]
    severe.ack(receipts(found))
    assert strict.bodies == {}
    assert strict.calls.count("DeleteMessageBatch") == 3


def test_entries_that_keep_failing_are_a_transient_error(severe: SqsNotificationSource, strict: Any) -> None:
    for _ in range(12):
        strict.send(PUT)
    found = severe.poll(12)
    strict.failures = ["InternalError"] + [""] * 9 + ["InternalError"] * 3
    with pytest.raises(TransientError, match=r"delete_message_batch failed for 1 of 12 messages \(InternalError\)"):
        severe.ack(receipts(found))
    assert len(strict.bodies) == 1, "the batch after the failing one was sent all the same"


@pytest.mark.parametrize(
    "code",
    [
        "ReceiptHandleIsInvalid",
        "MessageNotInflight",
        "AWS.SimpleQueueService.MessageNotInflight",
        "InvalidParameterValue",
    ],
)
def test_a_receipt_that_is_too_old_is_neither_an_error_nor_tried_again(
    severe: SqsNotificationSource, strict: Any, code: str
) -> None:
    strict.failures = [code] * 3
    for method in (severe.ack, severe.release, lambda old: severe.extend(old, 60)):
        method(["an old receipt"])
    assert len(strict.calls) == 3


def test_an_extension_is_whole_seconds_within_what_sqs_permits(severe: SqsNotificationSource, strict: Any) -> None:
    strict.send(PUT)
    (notification,) = severe.poll(1)
    severe.extend([notification.receipt], 1_000_000)
    (until,) = strict.shows_at.values()
    assert 43_100 < until - time.monotonic() <= 43_200
    severe.extend([notification.receipt], 0.2)
    (until,) = strict.shows_at.values()
    assert 0 < until - time.monotonic() <= 1


def test_garbage_alone_does_not_end_a_poll(severe: SqsNotificationSource, strict: Any) -> None:
    for _ in range(30):
        strict.send("{garbage")
    strict.send(PUT)
    assert len(severe.poll(2)) == 1
    assert len(strict.bodies) == 31


def test_a_flood_of_garbage_is_one_warning(
    severe: SqsNotificationSource, strict: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(30):
        strict.send("{garbage, with a secret in it")
    with caplog.at_level(logging.WARNING):
        assert severe.poll(100) == []
        assert len(caplog.records) == 1
        severe._complaints._silent_until = 0.0
        strict.send("{garbage")
        severe.poll(1)
    first, second = (record.getMessage() for record in caplog.records)
    assert "announcements" in first
    assert "redrive policy" in first
    assert "secret" not in first
    assert "29 others" in second


def test_a_test_event_and_a_delete_announce_nothing_and_can_be_acknowledged(
    source: SqsNotificationSource, sqs: Any, queue: str
) -> None:
    for name in ("s3_test_event", "s3_delete", "eventbridge_deleted"):
        sqs.send_message(QueueUrl=queue, MessageBody=(PAYLOADS / f"{name}.json").read_text())
    found = source.poll(10)
    assert [notification.blobs for notification in found] == [(), (), ()]
    source.ack(receipts(found))
    assert depth(sqs, queue) == 0


def test_a_long_poll_waits_for_the_first_message_only(make: Make, aws: dict[str, Any], queue: str, sqs: Any) -> None:
    source = make(queue_url=queue, **aws | {"wait_seconds": 1})
    began = time.monotonic()
    assert source.poll(10) == []
    assert time.monotonic() - began >= 1
    sqs.send_message(QueueUrl=queue, MessageBody=PUT)
    source.poll(1)
    sqs.send_message(QueueUrl=queue, MessageBody=PUT)
    patient = make(queue_url=queue, **aws | {"wait_seconds": 20})
    began = time.monotonic()
    assert len(patient.poll(10)) == 1
    assert time.monotonic() - began < 10


def test_a_poison_message_reaches_the_dead_letter_queue(make: Make, aws: dict[str, Any], sqs: Any, queue: str) -> None:
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": queue_arn(sqs, dead), "maxReceiveCount": 2})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    sqs.send_message(QueueUrl=queue, MessageBody="{poison")
    source = make(queue_url=queue, visibility_seconds=1, **aws)
    deadline = time.monotonic() + 20
    while depth(sqs, dead) == 0 and time.monotonic() < deadline:
        assert source.poll(10) == []
        time.sleep(0.3)
    (message,) = sqs.receive_message(QueueUrl=dead)["Messages"]
    assert message["Body"] == "{poison"
    assert depth(sqs, queue) == 0


def test_a_fifo_queue_is_read_and_acknowledged(make: Make, aws: dict[str, Any], sqs: Any) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName="announcements.fifo", Attributes=attributes)["QueueUrl"]
    for number in range(12):
        body = PUT.replace("in/a.json", f"in/{number}.json")
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=f"group {number % 3}")
    source = make(queue_url=url, **aws)
    found: list[Notification] = []
    while batch := source.poll(12):
        found += batch
        source.ack(receipts(batch))
    assert sorted(blob.uri for n in found for blob in n.blobs) == sorted(f"s3://landing/in/{n}.json" for n in range(12))
    assert depth(sqs, url) == 0


def test_a_missing_queue_says_which_options_to_correct(make: Make, aws: dict[str, Any], queue: str) -> None:
    source = make(queue_url=f"{queue}-misspelt", **aws)
    for call in (lambda: source.poll(1), lambda: source.ack(["receipt"])):
        with pytest.raises(ConfigError, match="announcements-misspelt: there is no such queue.*'queue_url'"):
            call()


def test_a_queue_that_does_not_answer_is_a_transient_error(make: Make) -> None:
    address = "http://127.0.0.1:1"
    keys = {"region": "us-east-1", "access_key_id": "key", "secret_access_key": "secret"}
    source = make(queue_url=f"{address}/1/q", endpoint_url=address, **keys)
    with pytest.raises(TransientError, match="Polling http://127.0.0.1:1/1/q"):
        source.poll(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue_url": "announcements"}, "a queue is named by its URL"),
        ({"queue_url": "arn:aws:sqs:us-east-1:1:q"}, "a queue is named by its URL"),
        ({"queue_url": "https://q", "wait_seconds": 21}, "wait_seconds"),
        ({"queue_url": "https://q", "visibility_seconds": "13 hours"}, "visibility_seconds"),
        ({"queue_url": "https://q", "visibility_seconds": 0}, "visibility_seconds"),
        ({"queue_url": "https://q", "queue_ulr": "x"}, "Did you mean 'queue_url'"),
        ({}, "'queue_url' is required"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SqsNotificationSourceConfig(**options)


def test_the_queue_url_tells_the_region(make: Make) -> None:
    url = "https://sqs.eu-central-1.amazonaws.com/123456789012/landing"
    keys = {"access_key_id": "key", "secret_access_key": "secret"}
    assert make(queue_url=url, **keys)._client().meta.region_name == "eu-central-1"
    assert make(queue_url=url, region="eu-west-1", **keys)._client().meta.region_name == "eu-west-1"
