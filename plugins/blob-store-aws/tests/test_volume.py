"""A deep queue, and a shared one, on ElasticMQ: planned by the blob source in this process, without reading objects."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from volley_blob_store_aws import S3Source, S3SourceConfig

from tests.servers.aws import KEYS, Distant, QueueServer, client, depth
from volley_core import ReadLimit

MESSAGES = 3000
Start = Callable[..., S3Source]


def event(*keys: str, bucket: str = "landing") -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    records = [
        {
            "eventName": "ObjectCreated:Put",
            "eventTime": now,
            "s3": {"bucket": {"name": bucket}, "object": {"key": key, "size": 7, "eTag": f"{index:032x}"}},
        }
        for index, key in enumerate(keys)
    ]
    return json.dumps({"Records": records})


@pytest.fixture
def server(elasticmq: str) -> Iterator[QueueServer]:
    sqs = client("sqs", elasticmq)
    yield QueueServer({**KEYS, "endpoint_url": elasticmq}, sqs)
    sqs.close()


@pytest.fixture
def start(server: QueueServer, tmp_path: Path) -> Iterator[Start]:
    made: list[S3Source] = []

    def source(url: str, **options: Any) -> S3Source:
        config = S3SourceConfig(
            bucket="landing",
            prefix="in/",
            queue_url=url,
            wait_seconds=0,
            schema="id bigint",
            state_location=str(tmp_path / "state"),
            include_existing_files=False,
            **server.options,
            **options,
        )
        made.append(S3Source(config))
        return made[-1]

    yield source
    for one in made:
        one.close()


def drain(source: S3Source, max_files: int = 1000) -> list[int]:
    """Epoch after epoch until the queue gives nothing; how many objects each has."""
    sizes, offset = [], source.initial_offset()
    while (end := source.latest_offset(offset, ReadLimit(max_files=max_files))) != offset:
        sizes.append(len(source._manifests.read(end["manifest"])))
        offset = end
    return sizes


def test_a_deep_queue_is_drained_in_few_round_trips_and_left_empty(server: QueueServer, start: Start) -> None:
    url = server.queue()
    server.fill(url, [event(f"in/{number}.json") for number in range(MESSAGES)])
    source = start(url, fetch_concurrency=8)
    assert source._queue is not None
    distant = Distant(source._queue._client(), seconds=0.05)
    began = time.monotonic()
    end = source.latest_offset(source.initial_offset(), ReadLimit(max_files=1000))
    seconds = time.monotonic() - began
    assert len(source._manifests.read(end["manifest"])) == 1000
    assert distant.most == 8
    assert distant.calls <= 120, "messages come in tens"
    assert seconds < 100 * 0.05 / 2, "one after the other, the calls alone would wait for 5 s"
    began = time.monotonic()
    source._planner._deliveries.settle(end["manifest"])
    assert time.monotonic() - began < 100 * 0.05 / 2
    assert depth(server.sqs, url) == MESSAGES - 1000
    distant.seconds = 0
    assert sum(drain(source)) == MESSAGES
    assert depth(server.sqs, url) == 0


@pytest.mark.parametrize(("mode", "left"), [("ack", 0), ("leave", 3)])
def test_events_of_other_places_are_acknowledged_or_left_to_others(
    server: QueueServer, start: Start, mode: str, left: int
) -> None:
    url = server.queue()
    foreign = [event("in/x.json", bucket="other"), event("elsewhere/y.json"), event("elsewhere/z.json", "in/b.json")]
    server.fill(url, [event("in/a.json"), *foreign])
    source = start(url, foreign_events=mode, visibility_seconds=2)
    assert drain(source) == [2]
    assert depth(server.sqs, url) == left
    source.close()
    time.sleep(2.2)
    seen: list[str] = []
    while messages := server.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        seen += [message["Body"] for message in messages]
    assert sorted(seen) == (sorted(foreign) if mode == "leave" else [])


def test_a_message_of_many_records_goes_when_all_of_its_objects_are_committed(
    server: QueueServer, start: Start
) -> None:
    url = server.queue()
    server.fill(url, [event(*(f"in/{number}.json" for number in range(25)))])
    source = start(url)
    first = source.latest_offset(source.initial_offset(), ReadLimit(max_files=10))
    second = source.latest_offset(first, ReadLimit(max_files=10))
    third = source.latest_offset(second, ReadLimit(max_files=10))
    assert depth(server.sqs, url) == 1, "the third epoch is not committed"
    assert source.latest_offset(third, ReadLimit(max_files=10)) == third
    assert depth(server.sqs, url) == 0
