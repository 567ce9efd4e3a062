"""Keeps the ledger small and its start quick: folds, merges, forgets, and deletes manifests that nobody needs.

The manifests are the durable memory, until their objects are in a segment: folding may fail, be repeated or be cut off
at any point, and costs no more than a longer start. It runs in a thread beside the planning, and never fails a query.

Identities are folded every so many; of segments of one level, so many become one of the next. So an identity is
written once per level, and few segments are looked at, however long the history is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from volley_connectors.blob.identities import Identity
from volley_connectors.blob.ledger import Ledger, to_records
from volley_connectors.blob.manifests import ManifestLog
from volley_connectors.blob.reports import Reports
from volley_connectors.blob.segment_index import Index, SegmentEntry, SegmentIndex
from volley_connectors.blob.segments import Segment, StoppedError, merge, write
from volley_connectors.state import StateStore
from volley_core import BlobRef, ConfigError, VolleyError

log = logging.getLogger(__name__)

MARGIN_MS = 24 * 3600 * 1000
"""How much later than in its manifest an object's time may be in another announcement or a listing of it: a store
may tell there when its upload began, here when it ended."""
_KEPT_MANIFESTS = 1000
"""Spark keeps the offsets of 100 epochs (spark.sql.streaming.minBatchesToRetain), any of which may be replayed."""
_READ_AT_ONCE = 16
_CLOSING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Rules:
    """When what is done."""

    max_age_ms: int
    """How long after its event time an identity is remembered."""
    manifest_age_ms: int
    """How long a manifest is kept."""
    fold_identities: int = 1 << 15
    fold_manifests: int = 256
    """Of few objects each: a start reads all that are not folded."""
    fan_out: int = 8
    largest: int = 1 << 26
    """A merge does not make bigger segments: they expire whole."""
    kept_manifests: int = _KEPT_MANIFESTS
    seconds_between_cleanings: float = 3600.0
    seconds_between_attempts: float = 60.0


class Bookkeeper:
    """The durable side of a ledger. Its methods belong to the planning thread."""

    def __init__(
        self,
        state: StateStore,
        ledger: Ledger,
        rules: Rules,
        existing_are_planned: Callable[[], bool] = lambda: True,
    ) -> None:
        """`existing_are_planned`: whether all that was there before the first start is in manifests. Nothing is
        forgotten before, or a listing that a crash cut off could not tell what it had given."""
        self.ledger = ledger
        self._location = state.shown
        self._index = SegmentIndex(state)
        self._manifests = ManifestLog(state)
        self._reports = Reports(state)
        self._rules = rules
        self._existing_are_planned = existing_are_planned
        self._contents: Index | None = None
        self._open: dict[str, Segment] = {}
        self._last = 0
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._clean_at = self._try_at = 0.0

    def last(self) -> int:
        """The highest manifest that is there; 0 if there is none. Lists only what was written since the last fold."""
        return self._manifests.last(after=self._now.folded)

    def load(self) -> Ledger:
        """Remember everything that was ever taken in and not forgotten."""
        self.ledger.takes_any_age = not self._existing_are_planned()
        self._open_segments()
        for number, blobs in self._unfolded():
            self.add(number, blobs)
            if self._is_due():
                # A history from before there was a ledger is not held in memory.
                self._attempt(self.work)
        return self.ledger

    def add(self, number: int, blobs: Iterable[BlobRef]) -> None:
        """Remember the objects of a manifest that is durable."""
        self.ledger.add(blobs)
        recent = self.ledger.youngest
        recent.first, recent.last = recent.first or number, number
        recent.manifests += 1
        self._last = number
        if len(recent) >= self._rules.fold_identities or recent.manifests >= self._rules.fold_manifests:
            self.ledger.seal()

    def tend(self) -> None:
        """Begin what is due, if anything is, without waiting for it."""
        self.ledger.takes_any_age = not self._existing_are_planned()
        if self._is_due() and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(
                target=self._attempt, args=(self.work,), name="volley-bookkeeping", daemon=True
            )
            self._thread.start()

    def work(self) -> None:
        """Do what is due, now."""
        for recent in self.ledger.sealed():
            self._fold(recent.timed, recent.timeless, recent.newest_ms, recent.first, recent.last)
        while (group := self._mergeable()) and not self._stopped.is_set():
            self._merge(group)
        if time.monotonic() >= self._clean_at:
            self.clean()
            self._clean_at = time.monotonic() + self._rules.seconds_between_cleanings

    def clean(self) -> None:
        """Forget what is older than is remembered, and delete what nobody needs."""
        if self._existing_are_planned():
            self._forget()
        self._delete_manifests()
        self._index.sweep()

    def close(self) -> None:
        """Stop. What is cut off is done again by the next start."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_CLOSING_SECONDS)
        self._index.close()

    @property
    def _now(self) -> Index:
        if self._contents is None:
            self._contents = self._index.last()
        return self._contents

    def _is_due(self) -> bool:
        now = time.monotonic()
        return now >= self._try_at and (bool(self.ledger.sealed()) or now >= self._clean_at)

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except StoppedError:
            return
        except Exception as error:
            self._try_at = time.monotonic() + self._rules.seconds_between_attempts
            # A planner that was closed takes its scratch state with it.
            if not self._stopped.is_set():
                log.warning("The ledger at %r could not be tended, which is tried again: %s", self._location, error)

    def _open_segments(self) -> None:
        for attempt in range(3):
            self._contents = self._index.last()
            try:
                self._show()
                return
            except ConfigError:
                # Another writer may have replaced a segment since the index was read.
                if attempt == 2 or self._index.last() == self._contents:
                    raise

    def _show(self) -> None:
        """Let the ledger see what the index names."""
        self._open = {entry.name: self._open.get(entry.name) or self._index.open(entry) for entry in self._now.segments}
        self.ledger.replace(list(self._open.values()), self._now.folded, self._now.horizon_ms)

    def _unfolded(self) -> Iterator[tuple[int, list[BlobRef]]]:
        folded = self._now.folded
        numbers = self._manifests.numbers(after=folded)
        if numbers and numbers[0] != folded + 1:
            raise ConfigError(
                f"The memory of what was read is incomplete: state_location {self._location!r} has manifests from "
                f"{numbers[0]} on, but its ledger only knows those up to {folded}. Restore the folders 'ledger' and "
                "'manifests' there, or begin with a new checkpoint and a new state_location."
            )
        with ThreadPoolExecutor(_READ_AT_ONCE, "volley-manifests") as pool:
            for begin in range(0, len(numbers), _READ_AT_ONCE):
                wave = numbers[begin : begin + _READ_AT_ONCE]
                for number, entries in zip(wave, pool.map(self._manifests.read, wave), strict=True):
                    yield number, [entry.blob for entry in entries]

    def _fold(self, timed: list[Identity], timeless: list[Identity], newest_ms: int, first: int, last: int) -> None:
        added = [
            self._index.add(partial(_write_identities, found), len(found), first, last, moment, level=0)
            for found, moment in ((timed, newest_ms), (timeless, None))
            if found
        ]
        self._commit((*self._now.segments, *added), folded=last)

    def _mergeable(self) -> list[SegmentEntry]:
        """The oldest neighbours of the lowest level that are enough for one of the next; empty if there are none.

        What expires before long is left alone: merged with younger ones it would be kept for longer.
        """
        oldest_ms = 0
        if self._existing_are_planned():
            oldest_ms = time.time_ns() // 1_000_000 - self._rules.max_age_ms // 2
        size = self._rules.fan_out
        groups = []
        for is_timeless in (False, True):
            alike = [entry for entry in self._now.segments if (entry.newest_ms is None) == is_timeless]
            for begin in range(len(alike) - size + 1):
                group = alike[begin : begin + size]
                is_one_level = len({entry.level for entry in group}) == 1
                is_young = all(entry.newest_ms is None or entry.newest_ms >= oldest_ms for entry in group)
                if is_one_level and is_young and sum(entry.count for entry in group) <= self._rules.largest:
                    groups.append(group)
        return min(groups, key=lambda group: group[0].level, default=[])

    def _merge(self, group: list[SegmentEntry]) -> None:
        segments = [self._open[entry.name] for entry in group]
        moments = [entry.newest_ms for entry in group if entry.newest_ms is not None]
        merged = self._index.add(
            partial(merge, segments=segments, is_stopped=self._stopped.is_set),
            sum(entry.count for entry in group),
            group[0].first,
            group[-1].last,
            max(moments, default=None),
            group[0].level + 1,
        )
        entries = [entry for entry in self._now.segments if entry not in group[1:]]
        self._commit(tuple(merged if entry == group[0] else entry for entry in entries), gone=group)

    def _forget(self) -> None:
        horizon_ms = time.time_ns() // 1_000_000 - self._rules.max_age_ms
        gone = [
            entry
            for entry in self._now.segments
            if entry.newest_ms is not None and entry.newest_ms + MARGIN_MS < horizon_ms
        ]
        if not gone:
            return
        kept = tuple(entry for entry in self._now.segments if entry not in gone)
        # Not later than needed: by a greater max_file_age more can be told then.
        newest_ms = max(entry.newest_ms or 0 for entry in gone)
        self._commit(kept, horizon_ms=max(self._now.horizon_ms, newest_ms + MARGIN_MS + 1), gone=gone)

    def _commit(
        self,
        segments: tuple[SegmentEntry, ...],
        *,
        folded: int | None = None,
        horizon_ms: int | None = None,
        gone: list[SegmentEntry] | None = None,
    ) -> None:
        before = self._now
        after = replace(
            before,
            number=before.number + 1,
            folded=before.folded if folded is None else folded,
            horizon_ms=before.horizon_ms if horizon_ms is None else horizon_ms,
            segments=segments,
        )
        # Opened first, so that what is committed can be used.
        opened = {entry.name: self._index.open(entry) for entry in segments if entry.name not in self._open}
        if not self._index.commit(after):
            # An earlier run of this query was still at it, or a rival that the manifests will tell of.
            self._open_segments()
            raise VolleyError("another writer was quicker")
        self._open |= opened
        self._contents = after
        self._show()
        if gone:
            self._index.delete(gone)

    def _delete_manifests(self) -> None:
        limit = min(self._now.folded, self._last - self._rules.kept_manifests)
        if limit <= 0:
            return
        old_ms = time.time_ns() // 1_000_000 - max(self._rules.manifest_age_ms, self._rules.max_age_ms + MARGIN_MS)
        for number in self._manifests.older(limit, old_ms):
            if self._stopped.is_set():
                return
            self._reports.delete(number)
            self._manifests.delete(number)


def _write_identities(identities: list[Identity], path: Path) -> None:
    write(path, to_records(identities))
