"""Object notifications in an SQS queue, standard or FIFO."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from pydantic import Field, field_validator

from volley_blob_store_aws.credentials import AwsClient, AwsConfig
from volley_blob_store_aws.errors import STALE_RECEIPT, translated
from volley_blob_store_aws.events import parse
from volley_connectors.complaints import Complaints
from volley_core import Notification, Seconds, TransientError

_BATCH = 10
_CALLS_AT_ONCE = 16
"""Batches under way together. With as many polls as there are threads by default, they fit the connection pool."""
LONGEST_HIDDEN_SECONDS = 43_200
_ENTRY_TRIES = 4
_QUEUE_HOST = re.compile(r"https?://sqs\.([a-z0-9-]+)\.amazonaws\.com")


class SqsNotificationSourceConfig(AwsConfig):
    """Options of the notification source `sqs`."""

    EXAMPLE = {"queue_url": "https://sqs.eu-central-1.amazonaws.com/123456789012/landing"}

    queue_url: str = Field(description="The queue's URL, as the SQS console shows it.")
    wait_seconds: Seconds = Field(
        default=1.0,
        le=20,
        description="How long a poll waits for the first message. Longer saves requests and delays epochs and stops.",
    )
    visibility_seconds: Seconds = Field(
        default=300.0,
        gt=0,
        le=LONGEST_HIDDEN_SECONDS,
        description="How long a message stays hidden from others after it was taken.",
    )

    @field_validator("queue_url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("a queue is named by its URL: https://sqs.REGION.amazonaws.com/ACCOUNT/NAME")
        return url


class SqsNotificationSource:
    """S3 events in an SQS queue: sent by S3 itself, through SNS, or through EventBridge."""

    Config: ClassVar[type[SqsNotificationSourceConfig]] = SqsNotificationSourceConfig
    GUARANTEE: ClassVar[str] = "At-least-once: a message that was taken but not acknowledged shows again."

    def __init__(self, config: SqsNotificationSourceConfig) -> None:
        self._config = config
        self._client = AwsClient("sqs", _with_region(config))
        self._complaints = Complaints()

    @property
    def connector_id(self) -> str:
        return f"sqs:{self._config.queue_url}"

    def poll(self, max_notifications: int) -> Sequence[Notification]:
        found: list[Notification] = []
        received = 0
        wait_seconds = math.ceil(self._config.wait_seconds)
        # Garbage must not look like an empty queue, so that it alone never ends a poll.
        while received < max_notifications or not found:
            room = max_notifications - (received if found else 0)
            messages = self._receive(min(_BATCH, room), wait_seconds)
            if not messages:
                break
            received += len(messages)
            found += filter(None, map(self._read, messages))
            wait_seconds = 0
        return found

    def ack(self, receipts: Sequence[str]) -> None:
        self._tell("delete_message_batch", receipts)

    def extend(self, receipts: Sequence[str], seconds: float) -> None:
        hidden = min(math.ceil(seconds), LONGEST_HIDDEN_SECONDS)
        self._tell("change_message_visibility_batch", receipts, VisibilityTimeout=hidden)

    def release(self, receipts: Sequence[str]) -> None:
        self._tell("change_message_visibility_batch", receipts, VisibilityTimeout=0)

    def close(self) -> None:
        self._client.close()

    def _receive(self, count: int, wait_seconds: int) -> list[dict[str, Any]]:
        with translated(f"Polling {self._config.queue_url}"):
            answer = self._client().receive_message(
                QueueUrl=self._config.queue_url,
                MaxNumberOfMessages=count,
                WaitTimeSeconds=wait_seconds,
                VisibilityTimeout=math.ceil(self._config.visibility_seconds),
            )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    def _read(self, message: dict[str, Any]) -> Notification | None:
        try:
            blobs = parse(message["Body"])
        except ValueError as error:
            self._complaints.add(self.connector_id, message["MessageId"], error)
            return None
        return Notification(message["ReceiptHandle"], blobs, message["MessageId"])

    def _tell(self, operation: str, receipts: Sequence[str], **what: int) -> None:
        """Send one batch call per ten receipts; those that SQS no longer knows are none of our business."""
        distinct = [receipt for receipt in dict.fromkeys(receipts) if receipt]
        chunks = [distinct[first : first + _BATCH] for first in range(0, len(distinct), _BATCH)]
        if not chunks:
            return
        refused: dict[str, str] = {}
        with translated(f"Calling {operation} on {self._config.queue_url}"):
            call = getattr(self._client(), operation)
            # An error of one call ends the iteration, which takes back the calls that did not begin.
            with ThreadPoolExecutor(min(_CALLS_AT_ONCE, len(chunks)), "volley-sqs") as pool:
                for failed in pool.map(lambda chunk: self._insist(call, chunk, what), chunks):
                    refused |= failed
        if refused:
            raise TransientError(
                f"{self.connector_id}: {operation} failed for {len(refused)} of {len(distinct)} messages "
                f"({', '.join(sorted(set(refused.values())))}). They show again once their time is over."
            )

    def _insist(self, call: Callable[..., Any], receipts: list[str], what: dict[str, int]) -> dict[str, str]:
        """Repeat the entries that failed; gives the receipts that kept failing, with SQS's codes."""
        failed = dict.fromkeys(receipts, "")
        for attempt in range(_ENTRY_TRIES):
            if attempt:
                time.sleep(random.uniform(0, 0.1 * 2**attempt))
            asked = list(failed)
            entries = [{"Id": str(index), "ReceiptHandle": receipt, **what} for index, receipt in enumerate(asked)]
            answer = call(QueueUrl=self._config.queue_url, Entries=entries)
            failed = {
                asked[int(entry["Id"])]: entry["Code"]
                for entry in answer.get("Failed", [])
                if entry["Code"] not in STALE_RECEIPT
            }
            if not failed:
                break
        return failed


def _with_region(config: SqsNotificationSourceConfig) -> AwsConfig:
    """A queue's URL tells its region: nobody should have to repeat it."""
    host = _QUEUE_HOST.match(config.queue_url)
    if config.region is not None or host is None:
        return config
    named: AwsConfig = config.with_region(host[1])
    return named
