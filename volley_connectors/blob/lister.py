"""Finds objects by listing the store, a part at a time, so that a long listing holds nothing up."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator

from volley_connectors.blob.deliveries import Delivery, Item
from volley_core import BlobReader, BlobRef

_CHUNK = 1000
_MOST_IN_HAND = 100_000
"""Found objects are given oldest first among so many; a listing that finds more goes on later."""
_LONGEST_REST_SECONDS = 1.0


class Lister:
    """Goes through the store again and again; each time through is a pass."""

    def __init__(
        self, reader: BlobReader, prefix: str, news: Callable[[list[BlobRef]], list[BlobRef]], with_existing: bool
    ) -> None:
        """`news`: which of these objects need reading. `with_existing`: also what is older than the first start."""
        self.with_existing = with_existing
        self._reader = reader
        self._prefix = prefix
        self._news = news
        self._pass: Iterator[BlobRef] | None = None
        self._found: deque[BlobRef] = deque()
        self._delivery = Delivery("", "", 0)
        self._began = self._rest_until = 0.0

    @property
    def is_under_way(self) -> bool:
        """Whether the pass that was begun has something left to list or to give."""
        return self._pass is not None or bool(self._found)

    @property
    def is_planned(self) -> bool:
        """Whether everything that the finished pass found is in a manifest or needs none."""
        return not self.is_under_way and not self._delivery.undecided

    def begin(self) -> None:
        """Begin a pass from the first object on."""
        # Spark asks every few milliseconds: a long listing is not repeated at once, or it would never stop.
        time.sleep(max(0.0, self._rest_until - time.monotonic()))
        self._began = time.monotonic()
        self._pass = iter(self._reader.list(self._prefix))

    def fetch(self, room: int, seconds: float = float("inf")) -> list[Item]:
        """Up to `room` objects of the pass under way, after listing for about so long at most."""
        if len(self._found) < room:
            self._list(time.monotonic() + seconds)
        blobs = [self._found.popleft() for _ in range(min(room, len(self._found)))]
        self._delivery.undecided += len(blobs)
        return [Item(blob, self._delivery) for blob in blobs]

    def gather(self) -> None:
        """List as much of the pass as is kept in hand, now."""
        self._list(float("inf"))

    def _list(self, deadline: float) -> None:
        found: list[BlobRef] = []
        while self._pass is not None and len(self._found) + len(found) < _MOST_IN_HAND:
            try:
                if chunk := list(itertools.islice(self._pass, _CHUNK)):
                    found += self._news(chunk)
            except BaseException:
                # An iterator that has raised looks like one that is at its end, and what is left would never be found.
                self._pass = iter(self._reader.list(self._prefix))
                raise
            if len(chunk) < _CHUNK:
                self._end()
            elif time.monotonic() > deadline:
                break
        found.sort(key=lambda blob: (blob.event_time_ms or 0, blob.uri))
        self._found.extend(found)

    def _end(self) -> None:
        self._pass = None
        ended = time.monotonic()
        self._rest_until = ended + min(9 * (ended - self._began), _LONGEST_REST_SECONDS)
