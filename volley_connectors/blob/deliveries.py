"""Queue messages that were received and not yet acknowledged, and the heartbeat that keeps them hidden.

Receipts live in memory only: after a crash the queue delivers the messages again, and the ledger knows their objects.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from volley_core import BlobRef, Notification, NotificationSource

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Delivery:
    """One received message. It may go once all of its objects are decided on and their epochs are committed."""

    receipt: str
    message_id: str
    undecided: int
    """How many of its objects are still waiting for an epoch."""
    manifest: int = 0
    """The last manifest that holds one of its objects; 0 if none does."""
    is_ours: bool = True
    """False if it must stay in the queue, for whoever its other objects are meant for."""

    def decide(self, manifest: int = 0) -> None:
        """One object less to wait for: in this manifest, or in none because it needs no reading."""
        self.undecided -= 1
        self.manifest = max(self.manifest, manifest)


@dataclass(frozen=True, slots=True)
class Item:
    """One announced object, and the message that brought it."""

    blob: BlobRef
    delivery: Delivery


class Deliveries:
    """The messages in hand. Used by the planning thread and those that poll; the heartbeat only reads along."""

    def __init__(self, queue: NotificationSource, visibility_seconds: float) -> None:
        self._queue = queue
        self._seconds = visibility_seconds
        self._held: dict[str, Delivery] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._heartbeat: threading.Thread | None = None

    def hold(self, notification: Notification) -> Delivery:
        delivery = Delivery(notification.receipt, notification.message_id, len(notification.blobs))
        with self._lock:
            self._held[delivery.receipt] = delivery
            self._start_heartbeat()
        return delivery

    def give_back(self, receipts: list[str]) -> None:
        """Show messages again at once."""
        self._attempt("release", self._queue.release, receipts)
        self._forget(receipts)

    def settle(self, manifest: int) -> None:
        """Acknowledge what is wholly contained in manifests up to this one, which are committed."""
        with self._lock:
            done = [d for d in self._held.values() if not d.undecided and d.manifest <= manifest]
        # Those of others show again once their time is over: at once, they would come back in a circle.
        self._forget(delivery.receipt for delivery in done if not delivery.is_ours)
        ours = [delivery.receipt for delivery in done if delivery.is_ours]
        if self._attempt("acknowledge", self._queue.ack, ours):
            self._forget(ours)

    def close(self, release_planned: bool) -> None:
        """Stop the heartbeat; give back what no manifest holds, or everything if the manifests will not last."""
        self._stopped.set()
        if self._heartbeat is not None:
            self._heartbeat.join(timeout=5)
        self.give_back(self._receipts(lambda delivery: release_planned or bool(delivery.undecided)))
        self._forget(self._receipts(lambda delivery: True))

    def _receipts(self, wanted: Callable[[Delivery], bool]) -> list[str]:
        with self._lock:
            return [delivery.receipt for delivery in self._held.values() if wanted(delivery)]

    def _forget(self, receipts: Iterable[str]) -> None:
        with self._lock:
            for receipt in receipts:
                self._held.pop(receipt, None)

    def _attempt(self, verb: str, call: Callable[[list[str]], None], receipts: list[str]) -> bool:
        """A queue that does not answer costs a redelivery, which is recognised: never a reason to fail the query.

        Whatever a connector raises is caught, or a heartbeat would end unnoticed.
        """
        if not receipts:
            return True
        try:
            call(receipts)
        except Exception as error:
            log.warning("%s: could not %s %d messages: %s", self._queue.connector_id, verb, len(receipts), error)
            return False
        return True

    def _start_heartbeat(self) -> None:
        if self._heartbeat is None:
            self._heartbeat = threading.Thread(target=self._beat, name="volley-heartbeat", daemon=True)
            self._heartbeat.start()

    def _beat(self) -> None:
        # A third, so that one lost call does not show the messages.
        while not self._stopped.wait(self._seconds / 3):
            held = self._receipts(lambda delivery: True)
            self._attempt("extend", lambda receipts: self._queue.extend(receipts, self._seconds), held)


class NoQueue:
    """Stands for the queue where objects are found by listing alone."""

    connector_id = "none"

    def poll(self, max_notifications: int) -> Sequence[Notification]:
        return ()

    def ack(self, receipts: Sequence[str]) -> None:
        """Nothing: there are no messages."""

    def extend(self, receipts: Sequence[str], seconds: float) -> None:
        """Nothing: there are no messages."""

    def release(self, receipts: Sequence[str]) -> None:
        """Nothing: there are no messages."""

    def close(self) -> None:
        """Nothing to let go of."""
