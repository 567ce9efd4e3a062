"""What tests ask of an AWS stand-in with a plain boto3 client, to prepare and to look."""

from __future__ import annotations

import json
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any

# Given as options, so that whatever identity this machine has stays out of the tests.
KEYS = {"region": "us-east-1", "access_key_id": "AKIATESTTESTTESTTEST", "secret_access_key": "not-a-real-secret"}


def client(service: str, address: str) -> Any:
    import boto3

    return boto3.client(
        service,
        region_name=KEYS["region"],
        endpoint_url=address,
        aws_access_key_id=KEYS["access_key_id"],
        aws_secret_access_key=KEYS["secret_access_key"],
    )


def queue_arn(sqs: Any, url: str) -> str:
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


def depth(sqs: Any, url: str) -> int:
    """How many messages a queue holds, hidden ones included."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(found[name]) for name in names)


def announce(s3: Any, sqs: Any, bucket: str, url: str, *events: str) -> None:
    """Let a bucket announce its new objects, or these events, to a queue."""
    configuration = {"QueueArn": queue_arn(sqs, url), "Events": [*events] or ["s3:ObjectCreated:*"]}
    s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"QueueConfigurations": [configuration]}
    )


@dataclass(frozen=True)
class QueueServer:
    """An SQS of either kind, with a plain client of it."""

    options: dict[str, Any]
    sqs: Any

    def queue(self, ending: str = "", **attributes: str) -> str:
        """The URL of a new queue."""
        name = f"q{uuid.uuid4().hex}{ending}"
        fifo = {"FifoQueue": "true"} if ending == ".fifo" else {}
        url: str = self.sqs.create_queue(QueueName=name, Attributes=fifo | attributes)["QueueUrl"]
        return url

    def redriving_queue(self, ending: str = "", receives: int = 2) -> tuple[str, str]:
        """A queue and the dead-letter queue that it hands messages to after so many receives."""
        dead = self.queue(ending)
        policy = json.dumps({"deadLetterTargetArn": queue_arn(self.sqs, dead), "maxReceiveCount": receives})
        return self.queue(ending, RedrivePolicy=policy), dead

    def fill(self, url: str, bodies: list[str]) -> None:
        for first in range(0, len(bodies), 10):
            entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies[first : first + 10])]
            self.sqs.send_message_batch(QueueUrl=url, Entries=entries)


class Distant:
    """Lets each request of a client wait as if the server were far away; counts how many wait at once."""

    def __init__(self, client: Any, seconds: float = 0.02) -> None:
        self.seconds = seconds
        self.lock = threading.Lock()
        self.calls = self.now = self.most = 0
        client.meta.events.register("before-send.*", self)

    def __call__(self, **request: Any) -> None:
        with self.lock:
            self.calls += 1
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.seconds)
        with self.lock:
            self.now -= 1
