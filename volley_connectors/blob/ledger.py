"""Which objects have been taken in.

The recent ones are in memory; the others in segments, which housekeeping makes and forgets in another thread.

Nothing that was read may be read again, although not everything is remembered for good. So it holds: **nothing is
forgotten unless whatever has its event time, or an earlier one, is refused from then on**. `horizon_ms` is that bound;
it is durable, and it moves in one step with what is forgotten.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from volley_connectors.blob.identities import RECORD, Identity, Order, identify
from volley_connectors.blob.segments import Array, Segment
from volley_core import BlobRef


class Verdict(Enum):
    """What the ledger knows of an object that is announced."""

    NEW = "new"
    SEEN = "seen"
    """Taken in already, in this version or, without overwrites, in any."""
    STALE = "stale"
    """Not taken in, but a later version was."""
    TOO_OLD = "too_old"
    """So old that the ledger may have forgotten whether it was taken in, or will by the age that was set."""


@dataclass(slots=True)
class Recent:
    """Identities in memory, until they are folded into segments. Only the youngest of these changes."""

    known: dict[tuple[int, int], list[Identity]] = field(default_factory=dict)
    timed: list[Identity] = field(default_factory=list)
    timeless: list[Identity] = field(default_factory=list)
    newest_ms: int = 0
    first: int = 0
    last: int = 0
    """The manifests that they come from."""
    manifests: int = 0

    def add(self, blobs: Iterable[BlobRef]) -> None:
        for blob in blobs:
            identity = identify(blob)
            self.known.setdefault(identity.key, []).append(identity)
            if blob.event_time_ms is None:
                self.timeless.append(identity)
            else:
                self.timed.append(identity)
                self.newest_ms = max(self.newest_ms, blob.event_time_ms)

    def __len__(self) -> int:
        return len(self.timed) + len(self.timeless)


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a look-up sees; replaced as a whole."""

    recent: tuple[Recent, ...]
    segments: tuple[Segment, ...] = ()
    horizon_ms: int = 0


class Ledger:
    """A set of object identities. `add` and `judge` belong to one thread; another may replace what is older."""

    def __init__(self, by_version: bool, max_age_ms: int | None = None) -> None:
        """`max_age_ms`: how old an object may be when it is found; None for any age."""
        self._by_version = by_version
        self._max_age_ms = max_age_ms
        self._contents = _Contents((Recent(),))
        self._lock = threading.Lock()
        self.takes_any_age = False
        """While what was there before the first start is read, age does not matter: nothing is forgotten so long."""

    def can_tell(self, blob: BlobRef) -> bool:
        """Whether nothing of this object's age was forgotten."""
        return blob.event_time_ms is None or blob.event_time_ms >= self._contents.horizon_ms

    @property
    def youngest(self) -> Recent:
        return self._contents.recent[-1]

    def add(self, blobs: Iterable[BlobRef]) -> None:
        """Remember objects whose manifest is durable."""
        self.youngest.add(blobs)

    def judge(self, blobs: Sequence[BlobRef]) -> list[Verdict]:
        """One verdict for each object, in order. Many at once: a lookup costs less so."""
        contents = self._contents
        identities = [identify(blob) for blob in blobs]
        verdicts = [self._judge_recent(identity, contents.recent) for identity in identities]
        open_ = [number for number, verdict in enumerate(verdicts) if verdict is not Verdict.SEEN]
        if open_ and contents.segments:
            keys = np.array([identities[number].key for number in open_], np.uint64)
            high, low = keys[:, 0].copy(), keys[:, 1].copy()
            # All of them first, so that the disk works for all segments at once.
            likely = [segment.likely(high, low) for segment in contents.segments]
            for segment, numbers in zip(contents.segments, likely, strict=True):
                begins, ends = segment.find(high, low, numbers)
                for found in np.flatnonzero(begins < ends):
                    number = open_[numbers[found]]
                    if verdicts[number] is not Verdict.SEEN:
                        verdict = self._judge_records(identities[number], segment, int(begins[found]), int(ends[found]))
                        verdicts[number] = verdict if verdict is not Verdict.NEW else verdicts[number]
        floor_ms = self._floor_ms(contents)
        for number in open_:
            moment = blobs[number].event_time_ms
            if verdicts[number] is Verdict.NEW and moment is not None and moment < floor_ms:
                verdicts[number] = Verdict.TOO_OLD
        return verdicts

    def identity(self, blob: BlobRef) -> str | tuple[str, str]:
        """What counts once: an object's name, or each of its versions."""
        return blob.identity if self._by_version else blob.uri

    def order(self, blob: BlobRef) -> Order | None:
        """By which a version is earlier than another one of its name; None if only names count."""
        return identify(blob).order if self._by_version else None

    def seal(self) -> None:
        """Let housekeeping have the youngest identities; later ones go elsewhere."""
        with self._lock:
            contents = self._contents
            self._contents = _Contents((*contents.recent, Recent()), contents.segments, contents.horizon_ms)

    def sealed(self) -> tuple[Recent, ...]:
        """What is to be folded, oldest first."""
        return self._contents.recent[:-1]

    def replace(self, segments: Sequence[Segment], folded: int, horizon_ms: int) -> None:
        """These segments hold everything up to manifest `folded`, or what is left of it."""
        with self._lock:
            *sealed, youngest = self._contents.recent
            left = [recent for recent in sealed if recent.last > folded]
            self._contents = _Contents((*left, youngest), tuple(segments), horizon_ms)

    def _floor_ms(self, contents: _Contents) -> int:
        """What is older is refused."""
        if self.takes_any_age or self._max_age_ms is None:
            return contents.horizon_ms
        return max(contents.horizon_ms, time.time_ns() // 1_000_000 - self._max_age_ms)

    def _judge_recent(self, identity: Identity, recent: tuple[Recent, ...]) -> Verdict:
        found = [known for part in recent for known in part.known.get(identity.key, ())]
        if not self._by_version:
            return Verdict.SEEN if found else Verdict.NEW
        if any(known.version == identity.version for known in found):
            return Verdict.SEEN
        return Verdict.STALE if any(identity.order.is_before(known.order) for known in found) else Verdict.NEW

    def _judge_records(self, identity: Identity, segment: Segment, begin: int, end: int) -> Verdict:
        """By the records of its uri, which are sorted by version."""
        if not self._by_version:
            return Verdict.SEEN
        versions = segment.columns["version"][begin:end]
        place = int(np.searchsorted(versions, np.uint64(identity.version)))
        if place < len(versions) and int(versions[place]) == identity.version:
            return Verdict.SEEN
        if not identity.digits:
            return Verdict.NEW
        later = any(identity.order.is_before(order) for order in _latest(segment.records(begin, end)))
        return Verdict.STALE if later else Verdict.NEW


def _latest(records: Array) -> list[Order]:
    """The greatest sequencer of each length: any other of that length is before it however it is filled up."""
    found = []
    for digits in np.unique(records["digits"]):
        same = records[records["digits"] == digits]
        last = same[np.lexsort((same["order_low"], same["order_high"]))[-1]]
        found.append(Order(int(digits), int(last["order_high"]) << 64 | int(last["order_low"])))
    return found


def to_records(identities: Sequence[Identity]) -> Array:
    """As one array."""
    return np.array(identities, RECORD)
