"""Decides on the driver which objects make up the next epoch.

The argument for exactly-once, in the order of `next_manifest`: epochs up to `committed` are durable downstream, so
their messages may go. A manifest after `committed` that was there when this instance started is an epoch that was
planned but not finished: it comes first, as it is. Only when there is none is the queue read, so whatever the ledger
knows then is committed, and its redelivered messages may go too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from volley_connectors.blob.deliveries import Deliveries, Delivery
from volley_connectors.blob.ledger import Ledger, Verdict
from volley_connectors.blob.manifests import Entry, ManifestLog
from volley_core import (
    BlobNotFoundError,
    BlobReader,
    BlobRef,
    Notification,
    NotificationSource,
    ReadLimit,
)

POLL_SIZE = 1000
PLANNING_SECONDS = 10.0
"""A queue that always has one more message must not keep an epoch from starting."""


@dataclass(slots=True)
class _Epoch:
    """The objects chosen so far."""

    number: int
    limit: ReadLimit
    entries: list[Entry] = field(default_factory=list)
    identities: set[object] = field(default_factory=set)
    taken: list[tuple[Delivery, BlobRef]] = field(default_factory=list)
    """What leaves the waiting line with this epoch, duplicates included; goes back if the epoch comes to nothing."""
    num_bytes: int = 0

    def admits(self, blob: BlobRef) -> bool:
        """Whether one more object keeps within the limits. The first always does: an epoch must get on."""
        return not self.entries or self.limit.allows(len(self.entries) + 1, self.num_bytes + blob.size)

    @property
    def room(self) -> int:
        return POLL_SIZE if self.limit.max_files is None else self.limit.max_files - len(self.entries)


class EpochPlanner:
    """The driver side of a blob source."""

    def __init__(
        self,
        queue: NotificationSource,
        reader: BlobReader,
        manifests: ManifestLog,
        ledger: Ledger,
        wants: Callable[[str], bool],
        visibility_seconds: float,
        must_remember: bool,
    ) -> None:
        self._queue = queue
        self._reader = reader
        self._manifests = manifests
        self._empty_ledger = ledger
        self._wants = wants
        self._must_remember = must_remember
        self._deliveries = Deliveries(queue, visibility_seconds)
        self._waiting: deque[tuple[Delivery, BlobRef]] = deque()
        self._frozen = False
        self._written = 0

    def freeze(self) -> None:
        """Take in hand everything that is announced now, and never poll again."""
        if self._frozen:
            return
        frozen_ms = time.time_ns() // 1_000_000
        while notifications := self._queue.poll(POLL_SIZE):
            earlier = [n for n in notifications if not _is_after(n, frozen_ms)]
            for notification in notifications:
                self._receive(notification)
            # Messages that keep arriving would keep this loop alive; those in hand are a fair reading of "now".
            if not earlier:
                break
        self._frozen = True

    def next_manifest(self, committed: int, limit: ReadLimit) -> int:
        """The number of the manifest to read after `committed`; `committed` itself if there is nothing."""
        self._deliveries.settle(committed)
        if committed < max(self._found, self._written):
            return committed + 1
        if committed > max(self._found, self._written) and self._must_remember:
            self._manifests.read(committed)
        epoch = self._plan(committed + 1, limit)
        # What turned out to be read already, or not ours, need not wait for another epoch.
        self._deliveries.settle(committed)
        return committed + (1 if epoch.entries else 0)

    def close(self) -> None:
        self._deliveries.close(release_planned=not self._must_remember)

    @cached_property
    def _found(self) -> int:
        """The last manifest that was there when this instance started."""
        return self._manifests.last()

    @cached_property
    def _ledger(self) -> Ledger:
        self._empty_ledger.add(self._manifests.blobs())
        return self._empty_ledger

    def _plan(self, number: int, limit: ReadLimit) -> _Epoch:
        epoch = _Epoch(number, limit)
        try:
            self._fill(epoch)
            if epoch.entries:
                self._manifests.write(number, epoch.entries)
        except BaseException:
            # Otherwise their messages would be acknowledged with a later epoch that does not hold them.
            self._waiting.extendleft(reversed(epoch.taken))
            raise
        if epoch.entries:
            self._written = number
            self._ledger.add(entry.blob for entry in epoch.entries)
        for delivery, _ in epoch.taken:
            delivery.decide(number)
        return epoch

    def _fill(self, epoch: _Epoch) -> None:
        deadline = time.monotonic() + PLANNING_SECONDS
        while True:
            while self._waiting:
                if not self._decide(epoch, *self._waiting[0]):
                    return
                self._waiting.popleft()
            if self._frozen or epoch.room <= 0 or time.monotonic() > deadline:
                return
            notifications = self._queue.poll(min(epoch.room, POLL_SIZE))
            if not notifications:
                return
            for notification in notifications:
                self._receive(notification)

    def _receive(self, notification: Notification) -> None:
        delivery = self._deliveries.hold(notification)
        self._waiting.extend((delivery, blob) for blob in notification.blobs)

    def _decide(self, epoch: _Epoch, delivery: Delivery, blob: BlobRef) -> bool:
        """Put one object into the epoch, or find that it need not be read. False if the epoch is full."""
        if not self._wants(blob.uri):
            delivery.decide()
            return True
        blob = self._exact(blob)
        identity = self._ledger.identity(blob)
        if self._ledger.judge([blob]) != [Verdict.NEW]:
            delivery.decide()
            return True
        if identity not in epoch.identities:
            if not epoch.admits(blob):
                return False
            epoch.identities.add(identity)
            epoch.entries.append(Entry(blob, delivery.message_id))
            epoch.num_bytes += blob.size
        epoch.taken.append((delivery, blob))
        return True

    def _exact(self, blob: BlobRef) -> BlobRef:
        """The object with the version that it has now, where its announcement did not tell: replays must read it."""
        if blob.version:
            return blob
        try:
            return self._reader.stat(blob)
        except BlobNotFoundError:
            # Its reading follows `on_missing_file`.
            return blob


def _is_after(notification: Notification, moment_ms: int) -> bool:
    times = [blob.event_time_ms for blob in notification.blobs]
    return bool(times) and all(time_ms is not None and time_ms > moment_ms for time_ms in times)
