"""An S3 and an SQS of this machine for benchmarks, and the same objects as local files."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from tests.servers import aws, elasticmq, versitygw

BUCKET = "benchmark"
SCHEMA_DDL = "id bigint, key string, name string, value double, at timestamp, flag boolean"
_LINE_BYTES = 120


@dataclass(frozen=True)
class Stores:
    """The addresses of both, and the folder in which the local twins of all objects lie."""

    s3_url: str
    sqs_url: str
    local: Path

    @property
    def options(self) -> dict[str, str]:
        """What the source `s3` needs to find the bucket."""
        return {"connector": "s3", "bucket": BUCKET, "endpoint_url": self.s3_url, "path_style": "true", **aws.KEYS}

    def fill(self, folder: str, objects: int, num_bytes: int) -> int:
        """Put so many objects of JSON lines, and files of the same bytes; how many rows they have in all."""
        rows = max(1, num_bytes // _LINE_BYTES)
        with _client("s3", self.s3_url) as s3:
            for number in range(objects):
                self._put(s3, f"{folder}/{number:06d}.json", lines(number * rows, rows))
        return rows * objects

    def put(self, s3: Any, key: str, data: bytes) -> str:
        """Put one object and its local twin; gives the event that announces it."""
        etag = self._put(s3, key, data)
        written = {"key": quote_plus(key), "size": len(data), "eTag": etag.strip('"')}
        s3_part = {"bucket": {"name": BUCKET}, "object": written}
        record = {"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": s3_part}
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return json.dumps({"Records": [{**record, "eventVersion": "2.1", "eventTime": moment}]})

    @contextmanager
    def clients(self) -> Iterator[tuple[Any, Any]]:
        """Plain clients of S3 and SQS."""
        with _client("s3", self.s3_url) as s3, _client("sqs", self.sqs_url) as sqs:
            yield s3, sqs

    def _put(self, s3: Any, key: str, data: bytes) -> str:
        twin, draft = self.local / key, self.local / key.replace("/", "/.")
        twin.parent.mkdir(parents=True, exist_ok=True)
        # In one step, for a stream that is watching the folder.
        draft.write_bytes(data)
        draft.rename(twin)
        return str(s3.put_object(Bucket=BUCKET, Key=key, Body=data)["ETag"])


@contextmanager
def serve(work: Path) -> Iterator[Stores]:
    """Both servers, with an empty bucket, while the block lasts."""
    with ExitStack() as stack:
        folders = {name: work / name for name in ("s3", "sqs", "local")}
        for folder in folders.values():
            folder.mkdir()
        s3_url = stack.enter_context(versitygw.serve(folders["s3"]))
        sqs_url = stack.enter_context(elasticmq.serve(folders["sqs"]))
        with _client("s3", s3_url) as s3:
            s3.create_bucket(Bucket=BUCKET)
        yield Stores(s3_url, sqs_url, folders["local"])


def lines(first: int, rows: int) -> bytes:
    """JSON lines of the schema above, about `_LINE_BYTES` each; the same ones for the same numbers."""
    chance = random.Random(first)
    made = (
        f'{{"id":{i},"key":"key-{i % 997}","name":"name of {chance.getrandbits(40):x}","value":{chance.random():.6f},'
        f'"at":"2026-01-01T00:00:{i % 60:02d}Z","flag":{str(i % 3 == 0).lower()}}}\n'
        for i in range(first, first + rows)
    )
    return "".join(made).encode()


@contextmanager
def _client(service: str, url: str) -> Iterator[Any]:
    made = aws.client(service, url)
    try:
        yield made
    finally:
        made.close()
