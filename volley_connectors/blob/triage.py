"""Which of the objects that were found need reading."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import compress

from volley_connectors.blob.deliveries import Item
from volley_connectors.blob.ledger import Ledger, Verdict
from volley_connectors.blob.selection import Selection
from volley_core import BlobNotFoundError, BlobReader, BlobRef

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_WARNINGS = 60.0
_MOST_REMEMBERED = 100_000


_TOO_OLD = Verdict.TOO_OLD


class Triage:
    """Judges found objects, many at once, and counts those that it leaves out."""

    def __init__(
        self,
        selection: Selection,
        reader: BlobReader,
        ledger: Callable[[], Ledger],
        delay_seconds: float,
        leave_foreign: bool,
        threads: int,
    ) -> None:
        self._selection = selection
        self._reader = reader
        self._ledger = ledger
        self._delay_ms = int(delay_seconds * 1000)
        self._leave_foreign = leave_foreign
        self._threads = threads
        self.left_out: Counter[str] = Counter()
        """How many were not read, by reason. Those that were read before count as `seen`."""
        self._reported: set[str] = set()
        self._unsaid = 0
        self._warn_at = 0.0

    def sort(self, items: Sequence[Item]) -> list[Item]:
        """Those that need reading, with the version that they have now. The others are decided on."""
        chosen = [self._selection.wants(item.blob.uri) for item in items]
        wanted = list(compress(items, chosen))
        exact = self._exact([item.blob for item in wanted])
        verdicts = self._ledger().judge(exact)
        # From here on nothing fails, so that no message is decided on halfway.
        for item, is_wanted in zip(items, chosen, strict=True):
            if not is_wanted:
                self._leave_out(item)
        new = []
        self._report_too_old([blob for blob, verdict in zip(exact, verdicts, strict=True) if verdict is _TOO_OLD])
        for item, blob, verdict in zip(wanted, exact, verdicts, strict=True):
            if verdict is Verdict.NEW:
                new.append(replace(item, blob=blob))
                continue
            if verdict is not _TOO_OLD:
                self.left_out[verdict.value] += 1
            item.delivery.decide()
        return new

    def news(self, blobs: list[BlobRef], *, since_ms: int = 0, with_young: bool = False) -> list[BlobRef]:
        """Those of a listing that need reading. Young ones are found again by the next listing."""
        wanted = [
            blob
            for blob in blobs
            if self._selection.wants(blob.uri)
            and (blob.event_time_ms is None or blob.event_time_ms >= since_ms)
            and (with_young or not self.waits_until_ms(blob))
        ]
        ledger = self._ledger()
        judged = list(zip(wanted, ledger.judge(wanted), strict=True))
        # Those that may have been forgotten were mostly read, long ago, and every listing finds them again.
        missed = [blob for blob, verdict in judged if verdict is _TOO_OLD and ledger.can_tell(blob)]
        self._report_too_old([blob for blob in missed if blob.uri not in self._reported])
        self._reported.update(blob.uri for blob in missed[: _MOST_REMEMBERED - len(self._reported)])
        return [blob for blob, verdict in judged if verdict is Verdict.NEW]

    def waits_until_ms(self, blob: BlobRef) -> int:
        """Until when an object is too young to be read; 0 if it is not."""
        if not self._delay_ms or blob.event_time_ms is None:
            return 0
        ready_ms = blob.event_time_ms + self._delay_ms
        return ready_ms if ready_ms > time.time_ns() // 1_000_000 else 0

    def _report_too_old(self, blobs: list[BlobRef]) -> None:
        """Say at a limited rate what is not read although it may never have been."""
        if not blobs:
            return
        self.left_out[_TOO_OLD.value] += len(blobs)
        self._unsaid += len(blobs)
        if time.monotonic() < self._warn_at:
            return
        log.warning(
            "%d objects were not read, because they were older than max_file_age when they were found, so that it may "
            "be forgotten whether they were read before; for one, %s. To have such objects read, set max_file_age "
            "higher before they are found, or write them anew.",
            self._unsaid,
            blobs[0].uri,
        )
        self._unsaid, self._warn_at = 0, time.monotonic() + _SECONDS_BETWEEN_WARNINGS

    def _leave_out(self, item: Item) -> None:
        is_foreign = not self._selection.is_ours(item.blob.uri)
        self.left_out["foreign" if is_foreign else "ignored"] += 1
        if is_foreign and self._leave_foreign:
            item.delivery.is_ours = False
        item.delivery.decide()

    def _exact(self, blobs: list[BlobRef]) -> list[BlobRef]:
        """Objects with the version of now, where their announcement did not tell: replays must read the same.

        And with their time, or one whose time the ledger knew would count as new once it is forgotten.
        """
        vague = [blob for blob in blobs if _is_vague(blob)]
        if not vague:
            return blobs
        with ThreadPoolExecutor(min(self._threads, len(vague))) as pool:
            found = iter(list(pool.map(self._stat, vague)))
        return [next(found) if _is_vague(blob) else blob for blob in blobs]

    def _stat(self, blob: BlobRef) -> BlobRef:
        try:
            found = self._reader.stat(blob)
        except BlobNotFoundError:
            # Its reading follows `on_missing_file`.
            return blob
        return replace(blob, event_time_ms=found.event_time_ms) if blob.version else found


def _is_vague(blob: BlobRef) -> bool:
    return not blob.version or blob.event_time_ms is None
