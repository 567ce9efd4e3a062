"""What the user wants to be there, and the names that follow from it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum

from volley_core import ConfigError

VISIBILITY_SECONDS = 300
"""The source's own default."""
_QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


class Via(StrEnum):
    """The ways from a bucket to a queue."""

    DIRECT = "direct"
    SNS = "sns"
    EVENTBRIDGE = "eventbridge"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One bucket that announces its objects to one queue."""

    bucket: str
    queue: str
    prefix: str = ""
    suffix: str = ""
    dead_letter_queue: str = ""
    max_receive_count: int = 5
    visibility_seconds: int = VISIBILITY_SECONDS
    via: Via = Via.DIRECT
    principal: str | None = None
    state_location: str | None = None

    def __post_init__(self) -> None:
        if self.queue.endswith(".fifo"):
            raise ConfigError(
                f"Queue {self.queue!r}: S3 and SNS announce objects to standard queues only. Leave '.fifo' out; "
                "the source reads each object once all the same."
            )
        for name in (self.queue, self.dead_letters):
            if not _QUEUE_NAME.fullmatch(name):
                raise ConfigError(f"{name!r} is no queue's name: up to 80 letters, digits, hyphens and underscores.")
        if self.queue == self.dead_letters:
            raise ConfigError(f"Queue {self.queue!r} cannot be its own dead-letter queue. Name another.")
        if "/" in self.bucket:
            raise ConfigError(f"--bucket {self.bucket!r}: give the bucket's name alone, and the rest as --prefix.")
        if self.principal is not None and not self.principal.startswith("arn:"):
            raise ConfigError(f"--principal {self.principal!r}: give the ARN of a role or user, arn:aws:iam::...")

    @property
    def dead_letters(self) -> str:
        """The dead-letter queue's name."""
        return self.dead_letter_queue or f"{self.queue}-dlq"

    @property
    def place(self) -> str:
        """What is announced, as people write it."""
        return f"s3://{self.bucket}/{self.prefix}{'*' if self.suffix else ''}{self.suffix}"

    @property
    def notification_id(self) -> str:
        """Our own entry in the bucket's configuration, among those of others."""
        return f"volley-{self.queue}"

    @property
    def token(self) -> str:
        """Tells what belongs to this bucket and queue from what belongs to another bucket with the same queue."""
        return hashlib.sha256(f"{self.bucket}/{self.queue}".encode()).hexdigest()[:8]

    @property
    def relay(self) -> str:
        """The name of the topic or rule in between. A rule's has at most 64 characters."""
        return f"volley-{self.token}-{self.queue}"[:64]
