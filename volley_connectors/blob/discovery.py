"""How new objects are found: announced by a queue, by listing the store, or both.

The ledger judges what comes from either, so that the way may change from one run to the next.
"""

from __future__ import annotations

import time
from functools import cached_property

from volley_connectors.blob.deliveries import Item
from volley_connectors.blob.inbox import Inbox
from volley_connectors.blob.lister import Lister
from volley_connectors.state import StateStore

_FOLDER = "discovery"
_EXISTING = "existing.json"
_BEGUN = "begun.json"
_FETCH_SIZE = 1000
_MOST_IN_HAND = 10_000
"""A queue's messages that `freeze` takes at once; each must be kept hidden. Of a longer queue the rest comes later."""
_LISTING_SECONDS = 1.0
"""How long a listing may keep the queue waiting."""


class Marks:
    """What is remembered of the first start."""

    def __init__(self, state: StateStore) -> None:
        self._store = state / _FOLDER
        self._existing_are_planned: bool | None = None

    @cached_property
    def begun_ms(self) -> int:
        """When the first start was."""
        self._store.create(_BEGUN, b"%d" % _now_ms())
        return int(self._store.read(_BEGUN))

    @property
    def existing_are_planned(self) -> bool:
        """Whether what was there at the first start is in manifests, all of it."""
        if self._existing_are_planned is None:
            self._existing_are_planned = self._store.exists(_EXISTING)
        return self._existing_are_planned

    def set_existing_are_planned(self) -> None:
        self._store.create(_EXISTING, b"%d" % _now_ms())
        self._existing_are_planned = True


class Discovery:
    """Gives announced and listed objects alike."""

    def __init__(
        self, inbox: Inbox | None, lister: Lister | None, seconds_between_listings: float | None, marks: Marks
    ) -> None:
        """`seconds_between_listings`: None for a single listing, the one of what is there at the first start."""
        self._inbox = inbox
        self._lister = lister
        self._interval = seconds_between_listings
        self._marks = marks
        self._list_at = 0.0
        self._listings_turn = True
        self._frozen_ms: int | None = None
        self._queue_has_more = inbox is not None
        self._in_hand: list[Item] = []

    def freeze(self) -> None:
        """Take in hand what is there now, or as much of it as is wise, and never look for anything later."""
        if self._frozen_ms is not None:
            return
        if self._listing_is_due():
            self._lister_now.gather()
        self._frozen_ms = _now_ms()
        self._take_in_hand()

    def fetch(self, room: int) -> tuple[list[Item], bool]:
        """About `room` objects, and whether there may be more right now."""
        if self._frozen_ms is not None:
            return self._fetch_frozen(room)
        if self._inbox is None:
            return self._fetch_listed(room)
        # By turns, so that neither a long listing nor a busy queue starves the other; the queue first, because one that
        # watches for events must be watching before the listing begins.
        self._listings_turn = not self._listings_turn
        listed = self._fetch_listed(room, _LISTING_SECONDS)[0] if self._listings_turn else []
        if listed:
            return listed, True
        items, more = self._inbox.fetch(room)
        return (items, more) if items or self._listings_turn else self._fetch_listed(room, _LISTING_SECONDS)

    def settle(self) -> None:
        """What was fetched before is in manifests, as far as its deliveries say so."""
        if not self._list_at or self._lister is None or not self._lister.is_planned:
            return
        if self._lister.with_existing and not self._marks.existing_are_planned:
            self._marks.set_existing_are_planned()
        if self._interval is None:
            self._lister = None

    def close(self) -> None:
        if self._inbox is not None:
            self._inbox.close()

    @property
    def _lister_now(self) -> Lister:
        assert self._lister is not None
        return self._lister

    def _listing_is_due(self) -> bool:
        """Whether there is a pass to go on with; begins one if it is time."""
        if self._lister is None:
            return False
        if self._lister.is_under_way:
            return True
        if self._frozen_ms is not None or time.monotonic() < self._list_at:
            return False
        if self._interval is None and self._marks.existing_are_planned:
            self._lister = None
            return False
        self._lister.begin()
        self._list_at = float("inf") if self._interval is None else time.monotonic() + self._interval
        return True

    def _fetch_listed(self, room: int, seconds: float = float("inf")) -> tuple[list[Item], bool]:
        if not self._listing_is_due():
            return [], False
        return self._lister_now.fetch(room, seconds), self._lister_now.is_under_way

    def _fetch_frozen(self, room: int) -> tuple[list[Item], bool]:
        items, _ = self._fetch_listed(room)
        if items:
            return items, True
        if not self._in_hand and self._queue_has_more:
            self._take_in_hand()
        items, self._in_hand = self._in_hand[:room], self._in_hand[room:]
        return items, bool(items)

    def _take_in_hand(self) -> None:
        """Poll until the queue is empty, all that comes is later than the freeze, or it is enough for now."""
        while self._inbox is not None and self._queue_has_more and len(self._in_hand) < _MOST_IN_HAND:
            items, more = self._inbox.fetch(_FETCH_SIZE)
            self._in_hand += items
            # Messages that keep arriving would keep this loop alive; those in hand are a fair reading of "now".
            all_later = bool(items) and all(self._is_later(item) for item in items)
            self._queue_has_more = not all_later and (more or not self._inbox.is_empty())

    def _is_later(self, item: Item) -> bool:
        moment = item.blob.event_time_ms
        return moment is not None and self._frozen_ms is not None and moment > self._frozen_ms


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
