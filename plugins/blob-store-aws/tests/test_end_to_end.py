"""From an object in S3 to a row, once: S3 announces to SQS, BlobSource reads, a memory sink keeps the rows."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from volley_blob_store_aws import (
    S3BlobReader,
    S3BlobReaderConfig,
    SqsNotificationSource,
    SqsNotificationSourceConfig,
)

from tests.servers.aws import announce, depth, queue_arn
from volley_connectors.blob import BlobSource, BlobSourceConfig
from volley_connectors.memory import MemorySink
from volley_core import BlobChangedError, EpochContext, Offset, ReadLimit

SCHEMA = "id bigint, name string"
OBJECTS = 24
ROWS = 5


class Landing:
    """A bucket that announces its objects to a queue, and a query that was not started yet."""

    def __init__(self, aws: dict[str, Any], clients: Callable[[str], Any], folder: Path) -> None:
        self.aws, self.folder = aws, folder
        self.s3, self.sqs = clients("s3"), clients("sqs")
        self.sns, self.events = clients("sns"), clients("events")
        self.s3.create_bucket(Bucket="landing")
        self.queue = self.sqs.create_queue(QueueName="announcements")["QueueUrl"]
        self.sources: list[BlobSource] = []
        self.readers: list[S3BlobReader] = []

    def announce_directly(self) -> None:
        announce(self.s3, self.sqs, "landing", self.queue)

    def announce_everything(self) -> None:
        announce(self.s3, self.sqs, "landing", self.queue, "s3:ObjectCreated:*", "s3:ObjectRemoved:*")

    def announce_through_sns(self, raw: bool) -> None:
        topic = self.sns.create_topic(Name="landing")["TopicArn"]
        attributes = {"RawMessageDelivery": str(raw).lower()}
        self.sns.subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=queue_arn(self.sqs, self.queue), Attributes=attributes
        )
        self._notify(TopicConfigurations=[{"TopicArn": topic, "Events": ["s3:ObjectCreated:*"]}])

    def announce_through_event_bridge(self) -> None:
        self.events.put_rule(Name="landing", EventPattern=json.dumps({"source": ["aws.s3"]}))
        self.events.put_targets(Rule="landing", Targets=[{"Id": "queue", "Arn": queue_arn(self.sqs, self.queue)}])
        self._notify(EventBridgeConfiguration={})

    def _notify(self, **configuration: Any) -> None:
        self.s3.put_bucket_notification_configuration(Bucket="landing", NotificationConfiguration=configuration)

    def put(self, number: int, key: str = "in/odd += ü%20/{}.json") -> None:
        rows = range(number * ROWS, (number + 1) * ROWS)
        body = "".join(json.dumps({"id": row, "name": f"row {row}"}) + "\n" for row in rows)
        self.s3.put_object(Bucket="landing", Key=key.format(number), Body=body.encode())

    def double(self, chance: random.Random) -> None:
        """Deliver every message of the queue twice, in another order."""
        bodies = []
        while messages := self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                bodies += [message["Body"]] * 2
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        chance.shuffle(bodies)
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.queue, MessageBody=body)

    def depth(self) -> int:
        return depth(self.sqs, self.queue)

    def source(self, visibility_seconds: float = 300, **options: Any) -> BlobSource:
        """A new instance, as after a restart."""
        queue = SqsNotificationSource(
            SqsNotificationSourceConfig(
                queue_url=self.queue, wait_seconds=0, visibility_seconds=visibility_seconds, **self.aws
            )
        )
        self.readers.append(S3BlobReader(S3BlobReaderConfig(**self.aws)))
        config = BlobSourceConfig(
            format="json",
            schema=SCHEMA,
            state_location=str(self.folder / "state"),
            visibility_seconds=visibility_seconds,
            **options,
        )
        self.sources.append(BlobSource(config, queue, self.readers[-1], prefix="s3://landing/in/"))
        return self.sources[-1]

    def close(self) -> None:
        for source in self.sources:
            source.close()
        for reader in self.readers:
            reader.close()


@pytest.fixture
def landing(aws: dict[str, Any], clients: Callable[[str], Any], tmp_path: Path) -> Iterator[Landing]:
    made = Landing(aws, clients, tmp_path)
    yield made
    made.close()


class Table(NamedTuple):
    """What a sink of this name published."""

    name: str
    handle: Any


@pytest.fixture
def table() -> Iterator[Table]:
    name = f"aws-{uuid.uuid4().hex}"
    with MemorySink.handle(name) as handle:
        yield Table(name, handle)


def run(source: BlobSource, sink_name: str, start: Offset | None = None, max_files: int = 7) -> Offset:
    """Epoch after epoch until nothing is left, each read in tasks and published once."""
    offset = source.initial_offset() if start is None else start
    while (end := source.latest_offset(offset, ReadLimit(max_files=max_files))) != offset:
        publish(source, sink_name, offset, end)
        offset = end
    return offset


def publish(source: BlobSource, sink_name: str, start: Offset, end: Offset) -> None:
    epoch = start["manifest"]
    sink = MemorySink(MemorySink.Config.from_options({"name": sink_name}))
    sink.begin(EpochContext("query", epoch))
    for split in source.splits(start, end):
        for record in source.read(split):
            sink.write(record)
    sink.flush()
    sink.on_checkpoint(epoch)


def expect_every_row_once(table: Table, objects: int = OBJECTS) -> None:
    rows = sorted(table.handle.table().to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": row, "name": f"row {row}"} for row in range(objects * ROWS)]


@pytest.mark.parametrize("way", ["direct", "sns-wrapped", "sns-raw", "event-bridge"])
def test_rows_in_are_rows_out_with_doubled_and_shuffled_messages(landing: Landing, table: Table, way: str) -> None:
    {
        "direct": landing.announce_directly,
        "sns-wrapped": lambda: landing.announce_through_sns(raw=False),
        "sns-raw": lambda: landing.announce_through_sns(raw=True),
        "event-bridge": landing.announce_through_event_bridge,
    }[way]()
    for number in range(OBJECTS):
        landing.put(number)
    landing.double(random.Random(way))
    assert landing.depth() >= 2 * OBJECTS
    run(landing.source(), table.name)
    expect_every_row_once(table)
    assert landing.depth() == 0


def test_a_crash_after_planning_loses_and_doubles_nothing(landing: Landing, table: Table) -> None:
    landing.announce_directly()
    for number in range(10):
        landing.put(number)
    crashed = landing.source(visibility_seconds=1)
    start = crashed.initial_offset()
    crashed.latest_offset(start, ReadLimit(max_files=4))
    # Dropped without a word: its messages show again, its plan is adopted.
    crashed._planner._deliveries._stopped.set()
    restarted = landing.source(visibility_seconds=30)
    offset = run(restarted, table.name, start, max_files=4)
    deadline = time.monotonic() + 30
    while landing.depth() and time.monotonic() < deadline:
        offset = run(restarted, table.name, offset, max_files=4)
    assert landing.depth() == 0
    expect_every_row_once(table, 10)


def test_a_restart_replays_the_same_rows(landing: Landing, table: Table) -> None:
    landing.announce_directly()
    for number in range(6):
        landing.put(number)
    first = landing.source()
    start = first.initial_offset()
    end = first.latest_offset(start, ReadLimit(max_files=6))
    before = [record.batch for split in first.splits(start, end) for record in first.read(split)]
    restarted = landing.source()
    after = [record.batch for split in restarted.splits(start, end) for record in restarted.read(split)]
    assert [batch.to_pylist() for batch in after] == [batch.to_pylist() for batch in before]
    publish(restarted, table.name, start, end)
    expect_every_row_once(table, 6)


def test_foreign_objects_deletes_and_test_events_leave_the_queue_and_no_rows(landing: Landing, table: Table) -> None:
    landing.announce_everything()
    landing.put(0)
    landing.put(1, key="elsewhere/{}.json")
    landing.put(2, key="in/_temporary/{}.json")
    landing.put(3, key="in/gone/{}.json")
    landing.s3.delete_object(Bucket="landing", Key="in/gone/3.json")
    assert landing.depth() == 6, "with the test event"
    run(landing.source(on_missing_file="skip"), table.name)
    expect_every_row_once(table, 1)
    assert landing.depth() == 0


def test_a_poison_message_stays_and_the_others_are_read(landing: Landing, table: Table) -> None:
    landing.announce_directly()
    landing.sqs.send_message(QueueUrl=landing.queue, MessageBody="{poison")
    for number in range(3):
        landing.put(number)
    run(landing.source(), table.name)
    expect_every_row_once(table, 3)
    assert landing.depth() == 1


def test_an_object_overwritten_before_it_was_read_is_refused_not_misread(landing: Landing) -> None:
    landing.announce_directly()
    landing.put(0)
    source = landing.source()
    start = source.initial_offset()
    end = source.latest_offset(start, ReadLimit())
    landing.put(1, key="in/odd += ü%20/0.json")
    with pytest.raises(BlobChangedError, match=r"in/odd \+= ü%20/0\.json.*'on_missing_file'"):
        [list(source.read(split)) for split in source.splits(start, end)]


def test_in_a_versioned_bucket_each_announced_version_is_read(landing: Landing, table: Table) -> None:
    # moto names versions only in what it sends through EventBridge.
    landing.s3.put_bucket_versioning(Bucket="landing", VersioningConfiguration={"Status": "Enabled"})
    landing.announce_through_event_bridge()
    for number in range(3):
        landing.put(number, key="in/one.json")
    landing.double(random.Random(1))
    run(landing.source(allow_overwrites=True), table.name)
    expect_every_row_once(table, 3)
    assert landing.depth() == 0


def test_what_a_listing_finds_is_what_was_announced(landing: Landing, table: Table) -> None:
    landing.announce_directly()
    for number in range(4):
        landing.put(number)
    source = landing.source()
    run(source, table.name)
    announced = {entry.blob.identity for entry in source._manifests.read(1)}
    assert {ref.identity for ref in landing.readers[-1].list("s3://landing/in/")} == announced
