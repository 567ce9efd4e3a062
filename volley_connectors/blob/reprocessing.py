"""Reads again what another query has read: its manifests take the place of queue and listing.

Objects are the very versions that were read then, and come in the same order and epochs, as far as the limits allow.
Which epochs are meant is written down at the first start, so that a restart means the same ones.
"""

from __future__ import annotations

import json
import logging
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from volley_connectors.blob.config import BlobSourceConfig
from volley_connectors.blob.deliveries import Delivery, Item
from volley_connectors.blob.history import History
from volley_connectors.blob.manifests import ManifestLog
from volley_connectors.moments import parse_moment
from volley_connectors.state import StateStore
from volley_core import BlobChangedError, BlobNotFoundError, BlobReader, BlobRef, ConfigError

log = logging.getLogger(__name__)

_MARK = "reprocessing.json"
_AT_ONCE = 32


class Past:
    """The epochs of another query that are to be read again."""

    def __init__(self, config: BlobSourceConfig) -> None:
        assert config.reprocess_state_location is not None
        self._config = config
        self.location = config.reprocess_state_location
        self.manifests = ManifestLog(StateStore(self.location))

    def numbers(self) -> list[int]:
        """As the options say, and as an earlier run with the same memory understood them."""
        location = self._config.state_location
        if location is None:
            return self.asked()
        found = self.remembered()
        if found is None:
            asked = self.asked()
            mark = self._told() | {"first": asked[0], "last": asked[-1]}
            StateStore(location).create(_MARK, json.dumps(mark).encode())
            found = self.remembered()
            assert found is not None
        first, last = found
        there = [number for number in self.manifests.numbers() if first <= number <= last]
        if len(there) <= last - first:
            log.warning("%s: epochs from %d on were asked for, but some are not kept any more", self.location, first)
        return there

    def remembered(self) -> tuple[int, int] | None:
        """The first and last epoch as an earlier run with the same memory understood them; None if there was none.

        Raises ConfigError if the memory is that of another query.
        """
        location = self._config.state_location
        if location is None:
            return None
        own = StateStore(location)
        try:
            mark = json.loads(own.read(_MARK))
        except FileNotFoundError:
            if not ManifestLog(own).last():
                return None
            raise ConfigError(
                f"state_location {location!r} belongs to a query that has read other objects. Reprocessing is a query "
                "of its own: give it a state_location, checkpoint and sink that are new."
            ) from None
        first, last = mark.pop("first"), mark.pop("last")
        if mark != self._told():
            said = ", ".join(f"{name} = {value}" for name, value in mark.items())
            raise ConfigError(
                f"state_location {location!r} belongs to another reprocessing ({said}). Give the same options to go on "
                "with it, or another state_location, checkpoint and sink."
            )
        return first, last

    def _told(self) -> dict[str, str | None]:
        names = ("reprocess_state_location", "reprocess_from", "reprocess_to")
        return {name: getattr(self._config, name) for name in names}

    def asked(self) -> list[int]:
        """The epochs as the options say them now. Raises ConfigError if there are none."""
        History(self.location).check()
        there = self.manifests.numbers()
        begin = self._bound(there, self._config.reprocess_from, bisect_left, 0)
        end = self._bound(there, self._config.reprocess_to, bisect_right, len(there))
        if begin >= end:
            raise ConfigError(
                f"{self.location!r} has no epochs in what 'reprocess_from' and 'reprocess_to' say. It has epochs "
                f"{there[0]} to {there[-1]}; see: volley files {self.location}"
            )
        return there[begin:end]

    def _bound(self, there: list[int], text: str | None, bisect: Callable[..., int], default: int) -> int:
        if text is None:
            return default
        if text.isdigit():
            return bisect(there, int(text))
        return bisect(there, parse_moment(text), key=lambda number: self.manifests.planned(number)[0])


class Reprocessing:
    """Stands for discovery: gives the objects of old epochs."""

    def __init__(self, past: Past, news: Callable[[list[BlobRef]], list[BlobRef]], *, keep_apart: bool) -> None:
        """`news`: which of these objects need reading. `keep_apart`: never two old epochs in a new one."""
        self._past = past
        self._news = news
        self._keep_apart = keep_apart
        self._numbers = deque(past.numbers())
        self._found: list[Item] = []
        self._given: list[Item] = []

    def freeze(self) -> None:
        """Nothing to do: the past does not grow."""

    def fetch(self, room: int) -> tuple[list[Item], bool]:
        """About `room` objects of one old epoch, and whether there may be more for the same new one."""
        while not self._found and self._numbers:
            # What is left of the epoch before goes first, alone.
            if self._keep_apart and any(item.delivery.undecided for item in self._given):
                return [], False
            self._found, self._given = self._items(self._numbers[0]), []
            self._numbers.popleft()
        items, self._found = self._found[:room], self._found[room:]
        self._given += items
        return items, bool(items)

    def settle(self) -> None:
        """Nothing to remember: the ledger knows what was planned."""

    def close(self) -> None:
        """Nothing to let go of."""

    def _items(self, number: int) -> list[Item]:
        entries = self._past.manifests.read(number)
        new = set(self._news([entry.blob for entry in entries]))
        return [Item(entry.blob, Delivery("", entry.message_id, 1)) for entry in entries if entry.blob in new]


@dataclass(slots=True)
class Survey:
    """What would be read again, and how much of it is gone."""

    location: str
    first: int
    last: int
    epochs: int = 0
    objects: int = 0
    bytes: int = 0
    rows: int = 0
    """As they were counted then."""
    uncounted: int = 0
    """Objects of which nobody reported how many rows they had."""
    missing: int = 0
    overwritten: int = 0
    """Objects that hold other bytes now, and whose old ones the store has not kept."""
    left_out: int = 0
    """Objects that the source's options do not select."""


def survey(past: Past, wants: Callable[[str], bool], reader: BlobReader, show: Callable[[int, int], None]) -> Survey:
    """Look at every object, many at once. `show` hears how many epochs of all are done."""
    numbers = past.numbers()
    found = Survey(past.location, numbers[0], numbers[-1], len(numbers))
    with ThreadPoolExecutor(_AT_ONCE, "volley-survey") as pool:
        for batch in History(past.location).batches_of(numbers, on_epoch=show):
            rows = [row for row in batch.to_pylist() if wants(row["uri"])]
            found.left_out += batch.num_rows - len(rows)
            found.objects += len(rows)
            found.bytes += sum(row["size"] for row in rows)
            found.rows += sum(row["rows"] or 0 for row in rows)
            found.uncounted += sum(row["rows"] is None for row in rows)
            blobs: Iterable[BlobRef] = (BlobRef(row["uri"], row["size"], row["version"]) for row in rows)
            states = list(pool.map(lambda blob: _look(reader, blob), blobs))
            found.missing += states.count("missing")
            found.overwritten += states.count("overwritten")
    return found


def _look(reader: BlobReader, blob: BlobRef) -> str:
    try:
        if reader.stat(blob).version == blob.version or not blob.version:
            return "there"
    except BlobNotFoundError:
        # Where the store keeps versions, it may still be there.
        if not blob.version:
            return "missing"
    try:
        reader.open(blob).close()
    except BlobNotFoundError:
        return "missing"
    except BlobChangedError:
        return "overwritten"
    return "there"
