"""Two thousand objects of all formats, announced twice, late and out of order, through ten kills of the driver.

Some objects are corrupt, some are gone before they are read, some lines are no records. What must be left in the end:
each good row once, the bad ones among the dead letters, an empty queue.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.end_to_end.conftest import Driver
from tests.servers import aws
from tests.servers import moto as moto_server
from volley_connectors.blob.history import History

OBJECTS = 2000
ROWS = 10
BUCKET = "landing"
VISIBILITY_SECONDS = 12
NAMED = ("planned", "reading", "staged", "published", "committed")
RANDOM_KILLS = 5
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
}
FAULTS = Path(__file__).parent / "faults"


def as_avro(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    fastavro.writer(buffer, AVRO, table.to_pylist(), codec="deflate")
    return buffer.getvalue()


def as_json(table: pa.Table) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()


def as_csv(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(table, buffer)
    return buffer.getvalue()


def as_parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


FORMATS: dict[str, Callable[[pa.Table], bytes]] = {
    "json": as_json,
    "json.gz": lambda table: gzip.compress(as_json(table)),
    "csv": as_csv,
    "parquet": as_parquet,
    "avro": as_avro,
}


@dataclass
class World:
    """What is in the bucket, and what must come of it."""

    objects: dict[str, bytes] = field(default_factory=dict)
    good: list[int] = field(default_factory=list)
    bad_lines: set[tuple[str, int]] = field(default_factory=set)
    corrupt: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def add(self, number: int) -> None:
        kind = list(FORMATS)[number % len(FORMATS)]
        first = number * ROWS
        ids = list(range(first, first + ROWS))
        data = FORMATS[kind](pa.table({"id": ids, "text": [f"row {i}" for i in ids]}))
        # The name needs escapes in an event.
        key = f"in/part {number % 7}/{number:05d}+.{kind}"
        if number % 97 == 11:
            self.gone.add(key)
        elif number % 101 == 5 and kind != "json":
            self.corrupt.add(key)
            data = data[: len(data) // 2] if kind != "csv" else b"\xff\xfe\x00bad" + data
        elif number % 50 == 0 and kind == "json":
            self.bad_lines.add((key, ROWS + 1))
            data += b'{"id": "not a number", "text": 1}\n'
            self.good += ids
        else:
            self.good += ids
        self.objects[key] = data


def event(key: str, data: bytes, etag: str) -> str:
    """What S3 sends when an object was written."""
    written = {"key": quote_plus(key), "size": len(data), "eTag": etag.strip('"'), "sequencer": f"{len(key):016X}"}
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventTime": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": BUCKET}, "object": written},
    }
    return json.dumps({"Records": [record]})


class Cloud:
    """A bucket in moto; a queue in ElasticMQ, for moto's own is slow when it is long."""

    def __init__(self, moto: str, elasticmq: str) -> None:
        moto_server.empty(moto)
        self.s3, self.sqs = aws.client("s3", moto), aws.client("sqs", elasticmq)
        self.s3.create_bucket(Bucket=BUCKET)
        self.queue_url: str = self.sqs.create_queue(QueueName="chaos")["QueueUrl"]
        self.source = {
            "connector": "s3",
            "bucket": BUCKET,
            "prefix": "in/",
            "queue_url": self.queue_url,
            "queue_endpoint_url": elasticmq,
            "endpoint_url": moto,
            "path_style": True,
            "visibility_seconds": VISIBILITY_SECONDS,
            **aws.KEYS,
        }

    def fill(self, world: World, chance: random.Random) -> None:
        """Put the objects; announce them in any order, every tenth twice; take some away again."""
        events = []
        for key, data in world.objects.items():
            etag = self.s3.put_object(Bucket=BUCKET, Key=key, Body=data)["ETag"]
            events.append(event(key, data, etag))
        events += chance.sample(events, len(events) // 10)
        chance.shuffle(events)
        for first in range(0, len(events), 10):
            entries = [{"Id": str(i), "MessageBody": body} for i, body in enumerate(events[first : first + 10])]
            assert not self.sqs.send_message_batch(QueueUrl=self.queue_url, Entries=entries).get("Failed")
        for key in world.gone:
            self.s3.delete_object(Bucket=BUCKET, Key=key)

    def depth(self) -> int:
        return aws.depth(self.sqs, self.queue_url)

    def close(self) -> None:
        self.sqs.delete_queue(QueueUrl=self.queue_url)
        self.s3.close()
        self.sqs.close()


@pytest.fixture
def cloud(moto: str, elasticmq: str) -> Iterator[Cloud]:
    made = Cloud(moto, elasticmq)
    yield made
    made.close()


class Pipeline:
    """One pipeline file, run by one driver after the other."""

    def __init__(self, work: Path, source: dict[str, Any]) -> None:
        self.work = work
        self.table, self.dead, self.state = work / "table", work / "dead", work / "state"
        self.file = work / "pipeline.yaml"
        self.drivers: list[Driver] = []
        options = {
            "format": "auto",
            "schema": "id bigint, text string",
            "state_location": str(self.state),
            "include_existing_files": False,
            "max_files_per_trigger": 50,
            "on_bad_record": "dead_letter",
            "on_corrupt_file": "dead_letter",
            "on_missing_file": "skip",
            "dead_letter_path": str(self.dead),
        }
        document = {
            "name": "chaos",
            "source": source | options,
            "sink": {"connector": "files", "path": str(self.table)},
            "checkpoint": str(work / "checkpoint"),
            "spark": {"spark.master": "local[2]", "spark.ui.enabled": "false"},
        }
        self.file.write_text(json.dumps(document))

    def start(self, *arguments: str, **variables: str) -> Driver:
        log = self.work / f"driver-{len(self.drivers)}.log"
        self.drivers.append(Driver(self.file, log, *arguments, variables=variables))
        return self.drivers[-1]

    def killed_at(self, point: str) -> None:
        """Run until the second time that a process comes to this point; then kill the driver and its JVM."""
        stops = self.work / f"stops-{point}"
        stops.mkdir()
        driver = self.start(
            PYTHONPATH=str(FAULTS), VOLLEY_STOP_AT=point, VOLLEY_STOP_AFTER="1", VOLLEY_STOP_FOLDER=str(stops)
        )
        # Read away what it says, or it would stop at a full pipe.
        threading.Thread(target=lambda: list(driver.progress()), daemon=True).start()
        deadline = time.monotonic() + 120
        while not (stops / f"{point}.1").exists():
            assert driver.process.poll() is None, f"it ended before {point}: {driver.said()}"
            assert time.monotonic() < deadline, f"it never came to {point}: {driver.said()}"
            time.sleep(0.02)
        driver.kill()

    def killed_sometime(self, chance: random.Random) -> None:
        """Kill the driver at any moment of its work, which begins with its first epoch."""
        driver = self.start()
        driver.until_epochs(1)
        time.sleep(chance.uniform(0, 2.5))
        driver.kill()

    def finish(self, is_empty: Callable[[], bool]) -> None:
        """Run until the queue is empty: messages that a killed driver had in hand show again after a while."""
        deadline = time.monotonic() + 240
        self.start("--available-now").to_the_end()
        while not is_empty():
            assert time.monotonic() < deadline, "the queue does not get empty"
            time.sleep(VISIBILITY_SECONDS / 3)
            self.start("--available-now").to_the_end()

    def close(self) -> None:
        for driver in self.drivers:
            driver.kill()


@pytest.fixture
def pipeline(tmp_path: Path, cloud: Cloud) -> Iterator[Pipeline]:
    made = Pipeline(tmp_path, cloud.source)
    yield made
    made.close()


@pytest.mark.timeout(1500)
def test_every_good_row_once_through_ten_kills(spark: Any, cloud: Cloud, pipeline: Pipeline) -> None:
    chance = random.Random(20_26)
    world = World()
    for number in range(OBJECTS):
        world.add(number)
    cloud.fill(world, chance)

    kills: list[str] = [*NAMED, *[""] * RANDOM_KILLS]
    chance.shuffle(kills)
    for point in kills:
        if point:
            pipeline.killed_at(point)
        else:
            pipeline.killed_sometime(chance)
    pipeline.finish(lambda: cloud.depth() == 0)

    rows = Counter(row.id for row in spark.read.parquet(str(pipeline.table)).select("id").collect())
    assert rows == Counter(world.good)
    letters = [row.asDict() for row in spark.read.parquet(str(pipeline.dead)).collect()]
    of_lines = Counter((key_of(row), row["row"]) for row in letters if row["row"] is not None)
    of_objects = Counter(key_of(row) for row in letters if row["row"] is None)
    assert of_lines == Counter(world.bad_lines)
    assert of_objects == Counter(world.corrupt)
    assert all(row["raw"] == world.objects[key_of(row)] for row in letters if row["row"] is None)
    states = Counter(state for batch in History(str(pipeline.state)).batches() for state in batch["state"].to_pylist())
    assert states["missing"] == len(world.gone)
    assert states["corrupt"] == len(world.corrupt)
    assert sum(states.values()) == OBJECTS


def key_of(letter: dict[str, Any]) -> str:
    return str(letter["object"].removeprefix(f"s3://{BUCKET}/"))
