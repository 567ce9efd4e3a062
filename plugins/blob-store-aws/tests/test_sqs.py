"""What SQS asks for beyond the contract: tens, long polls, failures of single entries, redrive, helpful errors."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber
from volley_blob_store_aws import SqsNotificationSource, SqsNotificationSourceConfig
from volley_blob_store_aws.events import parse

from tests.servers.aws import KEYS, Distant, QueueServer, client, depth
from volley_core import ConfigError, TransientError

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
    strict.cursed = {found[0].receipt}
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


def test_a_message_that_is_no_longer_in_flight_is_not_an_error(
    make: Make, aws: dict[str, Any], queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    # AWS answers so; none of the servers here does.
    source = make(queue_url=queue, **aws)
    failed = {"Id": "0", "Code": "AWS.SimpleQueueService.MessageNotInflight", "SenderFault": True, "Message": "no"}
    with Stubber(source._client()) as stub:
        for _ in range(2):
            stub.add_response("change_message_visibility_batch", {"Successful": [], "Failed": [failed]})
        source.extend(["receipt"], 60)
        source.release(["receipt"])
        stub.assert_no_pending_responses()
    assert caplog.records == []


def test_a_hundred_batches_take_a_few_round_trips(severe: SqsNotificationSource, strict: Any) -> None:
    for _ in range(1000):
        strict.send(PUT)
    found = severe.poll(1000)
    distant = Distant(severe._client())
    severe.extend(receipts(found), 60)
    severe.ack(receipts(found))
    assert distant.calls == 200
    assert 8 <= distant.most <= 16
    assert strict.bodies == {}


def test_a_heartbeat_of_ten_thousand_messages_ends_before_the_next(make: Make, elasticmq: str) -> None:
    server = QueueServer({**KEYS, "endpoint_url": elasticmq}, client("sqs", elasticmq))
    url = server.queue()
    server.fill(url, [PUT] * 500)
    source = make(queue_url=url, visibility_seconds=30, **server.options)
    held = receipts(source.poll(500))
    Distant(source._client())
    began = time.monotonic()
    # Receipts that the queue has forgotten take as long as those that it knows.
    source.extend([*held, *(f"gone-{number}" for number in range(10_000 - len(held)))], 30)
    assert time.monotonic() - began < 10, "a beat is due after a third of the time"
    assert source.poll(10) == []
    server.sqs.close()


def test_an_error_of_the_queue_ends_the_other_calls(severe: SqsNotificationSource, strict: Any) -> None:
    strict.missing = True
    with pytest.raises(ConfigError, match="there is no such queue"):
        severe.ack([f"receipt {number}" for number in range(1000)])
    assert len(strict.calls) < 50


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


def test_every_kind_of_payload_goes_through_a_queue_and_can_be_acknowledged(make: Make, server: QueueServer) -> None:
    bodies = {file.read_text() for file in PAYLOADS.glob("*.json")}
    url = server.queue()
    for body in bodies:
        server.sqs.send_message(QueueUrl=url, MessageBody=body)
    source = make(queue_url=url, **server.options)
    found = source.poll(100)
    assert Counter(n.blobs for n in found) == Counter(parse(body) for body in bodies)
    assert () in {n.blobs for n in found}, "delete and test events are given too, so that they are acknowledged"
    source.ack(receipts(found))
    assert depth(server.sqs, url) == 0


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


def test_a_poison_message_reaches_the_dead_letter_queue(make: Make, server: QueueServer) -> None:
    url, dead = server.redriving_queue()
    server.sqs.send_message(QueueUrl=url, MessageBody="{poison")
    source = make(queue_url=url, visibility_seconds=1, **server.options)
    deadline = time.monotonic() + 20
    while depth(server.sqs, dead) == 0 and time.monotonic() < deadline:
        assert source.poll(10) == []
        time.sleep(0.3)
    (message,) = server.sqs.receive_message(QueueUrl=dead)["Messages"]
    assert message["Body"] == "{poison"
    assert depth(server.sqs, url) == 0


def test_a_missing_queue_says_which_options_to_correct(make: Make, server: QueueServer) -> None:
    source = make(queue_url=f"{server.queue()}-misspelt", **server.options)
    for call in (lambda: source.poll(1), lambda: source.ack(["receipt"])):
        with pytest.raises(ConfigError, match="-misspelt: there is no such queue.*'queue_url'"):
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
