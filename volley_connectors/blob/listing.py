"""Finds new objects by listing the store: a NotificationSource without a queue."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from volley_core import BlobReader, BlobRef, Notification

_LONGEST_REST_SECONDS = 1.0


class ListingSource:
    """Announces each object, and each new version of it, once per process. What was read earlier, the ledger knows.

    A poll that gives nothing is the end of one listing; the next poll begins another.
    """

    def __init__(self, reader: BlobReader, prefix: str) -> None:
        self._reader = reader
        self._prefix = prefix
        self._reported: dict[str, str] = {}
        self._found: deque[BlobRef] = deque()
        self._listed = False
        self._rest_until = 0.0

    def __reduce__(self) -> tuple[type[ListingSource], tuple[BlobReader, str]]:
        return (ListingSource, (self._reader, self._prefix))

    @property
    def connector_id(self) -> str:
        return f"listing:{self._prefix}"

    def poll(self, max_notifications: int) -> Sequence[Notification]:
        if not self._found and not self._listed:
            self._list()
        self._listed = bool(self._found)
        count = min(max_notifications, len(self._found))
        return [announce(self._found.popleft()) for _ in range(count)]

    def ack(self, receipts: Sequence[str]) -> None:
        """Nothing: a listing has no messages."""

    def extend(self, receipts: Sequence[str], seconds: float) -> None:
        """Nothing: a listing has no messages."""

    def release(self, receipts: Sequence[str]) -> None:
        """Nothing: a listing has no messages."""

    def close(self) -> None:
        """Nothing to let go of."""

    def is_news(self, blob: BlobRef) -> bool:
        """Whether this version was not reported before; from now on it was."""
        if self._reported.get(blob.uri) == blob.version:
            return False
        self._reported[blob.uri] = blob.version
        return True

    def _list(self) -> None:
        # Spark asks every few milliseconds: a long listing is not repeated at once, or it would never stop.
        time.sleep(max(0.0, self._rest_until - time.monotonic()))
        began = time.monotonic()
        news = [blob for blob in self._reader.list(self._prefix) if self.is_news(blob)]
        news.sort(key=lambda blob: (blob.event_time_ms or 0, blob.uri))
        self._found.extend(news)
        ended = time.monotonic()
        self._rest_until = ended + min(9 * (ended - began), _LONGEST_REST_SECONDS)


def announce(blob: BlobRef) -> Notification:
    """An object as a message that nobody needs to acknowledge."""
    return Notification(receipt=f"{blob.uri}\0{blob.version}", blobs=(blob,))
