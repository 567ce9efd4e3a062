"""What a queue announces, fetched with several polls at once.

A single poll of a cloud queue gives few messages after a round trip. So the first one tells whether there is more, and
only then others run beside it, in threads that may outlive the fetch: what they bring comes with the next one.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from volley_connectors.blob.deliveries import Deliveries, Item
from volley_core import Notification, NotificationSource

PROBE_SIZE = 10
_GRACE_SECONDS = 0.1
"""How long the other polls are waited for once one of them found the queue empty."""
_QUICK_SECONDS = 0.2
_EMPTY_ANSWERS = 3
_CLOSING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came of one poll."""

    asked: int
    items: list[Item]
    messages: int = 0
    error: BaseException | None = None


class Inbox:
    """The driver's end of a queue. Its methods belong to one thread; polls run in others."""

    def __init__(self, source: NotificationSource, deliveries: Deliveries, threads: int) -> None:
        self._source = source
        self._deliveries = deliveries
        self._threads = threads
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._threads_under_way: list[threading.Thread] = []
        self._owed = 0
        """Answers that are still to come."""
        self._left: list[Item] = []
        self._closed = threading.Event()

    def fetch(self, room: int) -> tuple[list[Item], bool]:
        """About `room` objects, fewer if the queue gives no more at once; and whether it may have more right now."""
        found, self._left = self._left, []
        quiet = False
        try:
            if not self._owed and not found:
                quiet = self._take(self._poll(min(room, PROBE_SIZE)), found)
            while not quiet and len(found) < room:
                if not self._owed:
                    self._poll_beside(room - len(found))
                quiet = self._take(self._next(), found)
            self._take_what_is_there(found, _GRACE_SECONDS if quiet else 0.0)
        except BaseException:
            # They stay in hand, and come with the next fetch.
            self._left = found
            raise
        return found, not quiet

    def is_empty(self) -> bool:
        """Poll until the queue is surely empty or has something, which the next fetch gives."""
        for _ in range(_EMPTY_ANSWERS):
            began = time.monotonic()
            items, _ = self.fetch(PROBE_SIZE)
            if items:
                self._left = items
                return False
            # A queue may look at some of its servers only when it answers at once.
            if time.monotonic() - began > _QUICK_SECONDS:
                return True
        return True

    def close(self) -> None:
        """Let the polls under way come to their end; what they bring goes back."""
        self._closed.set()
        deadline = time.monotonic() + _CLOSING_SECONDS
        for thread in self._threads_under_way:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._threads_under_way.clear()

    def _take(self, answer: _Answer, found: list[Item]) -> bool:
        """Add what a poll brought. True if it shows that the queue has no more for now."""
        if answer.error is not None:
            raise answer.error
        found += answer.items
        return answer.messages < answer.asked

    def _next(self, seconds: float | None = None) -> _Answer:
        answer = self._answers.get(timeout=seconds)
        self._owed -= 1
        return answer

    def _take_what_is_there(self, found: list[Item], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._owed:
            try:
                answer = self._next(max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return
            self._take(answer, found)

    def _poll_beside(self, room: int) -> None:
        share = max(PROBE_SIZE, -(-room // self._threads))
        threads = [
            threading.Thread(target=self._answer, args=(share,), name="volley-poll", daemon=True)
            for _ in range(min(self._threads, -(-room // share)))
        ]
        self._threads_under_way, self._owed = threads, len(threads)
        for thread in threads:
            thread.start()

    def _answer(self, asked: int) -> None:
        self._answers.put(self._poll(asked))

    def _poll(self, asked: int) -> _Answer:
        try:
            notifications = self._source.poll(asked)
        except BaseException as error:
            return _Answer(asked, [], error=error)
        if self._closed.is_set():
            self._deliveries.give_back([notification.receipt for notification in notifications])
            return _Answer(asked, [])
        return _Answer(asked, self._hold(notifications), len(notifications))

    def _hold(self, notifications: Sequence[Notification]) -> list[Item]:
        held = [(self._deliveries.hold(notification), notification.blobs) for notification in notifications]
        return [Item(blob, delivery) for delivery, blobs in held for blob in blobs]
