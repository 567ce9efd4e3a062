"""Decides on the driver which objects make up the next epoch.

The argument for exactly-once, in the order of `next_manifest`: epochs up to `committed` are durable downstream, so
their messages may go. A manifest after `committed` that was there when this instance started is an epoch that was
planned but not finished: it comes first, as it is. Only when there is none is the queue read, so whatever the ledger
knows then is committed, and its redelivered messages may go too.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections import deque
from dataclasses import dataclass, field
from functools import cached_property

from volley_connectors.blob.bookkeeping import Bookkeeper
from volley_connectors.blob.deliveries import Deliveries, Item
from volley_connectors.blob.discovery import Discovery
from volley_connectors.blob.identities import Order
from volley_connectors.blob.ledger import Ledger, Verdict
from volley_connectors.blob.manifests import Entry, ManifestLog
from volley_connectors.blob.reprocessing import Reprocessing
from volley_connectors.blob.triage import Triage
from volley_core import BlobRef, ReadLimit

log = logging.getLogger(__name__)

POLL_SIZE = 1000
PLANNING_SECONDS = 10.0
"""A queue that always has one more message must not keep an epoch from starting."""
_MOST_DELAYED = 10_000


@dataclass(slots=True)
class _Epoch:
    """The objects chosen so far."""

    number: int
    limit: ReadLimit
    entries: list[Entry] = field(default_factory=list)
    identities: set[object] = field(default_factory=set)
    orders: dict[str, list[Order]] = field(default_factory=dict)
    """By the names of its objects, where versions count."""
    taken: list[Item] = field(default_factory=list)
    """What leaves the waiting line with this epoch, duplicates included; goes back if the epoch comes to nothing."""
    num_bytes: int = 0

    def admits(self, blob: BlobRef) -> bool:
        """Whether one more object keeps within the limits. The first always does: an epoch must get on."""
        return not self.entries or self.limit.allows(len(self.entries) + 1, self.num_bytes + blob.size)

    def holds_later(self, blob: BlobRef, order: Order | None) -> bool:
        """Whether it has a later version of this object."""
        return order is not None and any(order.is_before(other) for other in self.orders.get(blob.uri, ()))

    @property
    def room(self) -> int:
        return POLL_SIZE if self.limit.max_files is None else self.limit.max_files - len(self.entries)


class EpochPlanner:
    """The driver side of a blob source."""

    def __init__(
        self,
        discovery: Discovery | Reprocessing,
        deliveries: Deliveries,
        triage: Triage,
        manifests: ManifestLog,
        bookkeeper: Bookkeeper,
        must_remember: bool,
    ) -> None:
        self._discovery = discovery
        self._deliveries = deliveries
        self._triage = triage
        self._manifests = manifests
        self._bookkeeper = bookkeeper
        self._must_remember = must_remember
        self._unsorted: list[Item] = []
        self._waiting: deque[Item] = deque()
        self._delayed: list[tuple[int, int, Item]] = []
        self._tickets = itertools.count()
        self._frozen = False
        self._written = 0

    def freeze(self) -> None:
        """Take in hand what is there now, and plan nothing later."""
        self._discovery.freeze()
        self._frozen = True

    def next_manifest(self, committed: int, limit: ReadLimit) -> int:
        """The number of the manifest to read after `committed`; `committed` itself if there is nothing."""
        self._deliveries.settle(committed)
        if committed < max(self._found, self._written):
            if committed < self._found:
                # One that expired ends the query here, where nothing of it has begun.
                self._manifests.require(committed + 1)
            return committed + 1
        if committed > max(self._found, self._written) and self._must_remember:
            self._manifests.read(committed)
        epoch = self._plan(committed + 1, limit)
        # What turned out to be read already, or not ours, need not wait for another epoch.
        self._deliveries.settle(committed)
        self._discovery.settle()
        self._bookkeeper.tend()
        return committed + (1 if epoch.entries else 0)

    def close(self) -> None:
        self._discovery.close()
        self._deliveries.close(release_planned=not self._must_remember)
        self._bookkeeper.close()

    @cached_property
    def _found(self) -> int:
        """The last manifest that was there when this instance started."""
        return self._bookkeeper.last()

    @cached_property
    def ledger(self) -> Ledger:
        """What every manifest so far holds."""
        return self._bookkeeper.load()

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
            self._bookkeeper.add(number, [entry.blob for entry in epoch.entries])
        for item in epoch.taken:
            item.delivery.decide(number)
        return epoch

    def _fill(self, epoch: _Epoch) -> None:
        # What is frozen has an end; an epoch that came to nothing before it would be taken for that end.
        deadline = float("inf") if self._frozen else time.monotonic() + PLANNING_SECONDS
        # What waits may have been read in the meantime, by another announcement.
        self._sort_in([*self._waiting, *self._unsorted])
        more = True
        while self._admit(epoch):
            if not more or epoch.room <= 0 or len(self._delayed) >= _MOST_DELAYED or time.monotonic() > deadline:
                return
            items, more = self._discovery.fetch(min(epoch.room, POLL_SIZE))
            self._sort_in([*self._waiting, *items])

    def _sort_in(self, items: list[Item]) -> None:
        """Bring items into the waiting line, or put them off, or let them go."""
        # Kept until they are sorted: what fails here is tried again.
        self._waiting, self._unsorted = deque(), items
        for item in self._triage.sort([*items, *self._due()]):
            ready_ms = self._triage.waits_until_ms(item.blob)
            if ready_ms:
                heapq.heappush(self._delayed, (ready_ms, next(self._tickets), item))
            else:
                self._waiting.append(item)
        self._unsorted = []

    def _due(self) -> list[Item]:
        """Those whose delay is over."""
        now_ms, due = time.time_ns() // 1_000_000, []
        while self._delayed and self._delayed[0][0] <= now_ms:
            due.append(heapq.heappop(self._delayed)[2])
        return due

    def _admit(self, epoch: _Epoch) -> bool:
        """Put what waits into the epoch. False if it is full."""
        while self._waiting:
            item = self._waiting[0]
            identity, order = self.ledger.identity(item.blob), self.ledger.order(item.blob)
            if identity not in epoch.identities and epoch.holds_later(item.blob, order):
                self._triage.left_out[Verdict.STALE.value] += 1
            elif identity not in epoch.identities:
                if not epoch.admits(item.blob):
                    return False
                epoch.identities.add(identity)
                if order is not None:
                    epoch.orders.setdefault(item.blob.uri, []).append(order)
                epoch.entries.append(Entry(item.blob, item.delivery.message_id))
                epoch.num_bytes += item.blob.size
            epoch.taken.append(self._waiting.popleft())
        return True
