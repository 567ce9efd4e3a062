"""Which of the objects that were found need reading."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from volley_connectors.blob.deliveries import Item
from volley_connectors.blob.ledger import Ledger, Verdict
from volley_connectors.blob.selection import Selection
from volley_core import BlobNotFoundError, BlobReader, BlobRef


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

    def sort(self, items: Sequence[Item]) -> list[Item]:
        """Those that need reading, with the version that they have now. The others are decided on."""
        wanted = [item for item in items if self._selection.wants(item.blob.uri)]
        exact = self._exact([item.blob for item in wanted])
        verdicts = self._ledger().judge(exact)
        # From here on nothing fails, so that no message is decided on halfway.
        for item in items:
            if not self._selection.wants(item.blob.uri):
                self._leave_out(item)
        new = []
        for item, blob, verdict in zip(wanted, exact, verdicts, strict=True):
            if verdict is Verdict.NEW:
                new.append(replace(item, blob=blob))
            else:
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
        verdicts = self._ledger().judge(wanted)
        return [blob for blob, verdict in zip(wanted, verdicts, strict=True) if verdict is Verdict.NEW]

    def waits_until_ms(self, blob: BlobRef) -> int:
        """Until when an object is too young to be read; 0 if it is not."""
        if not self._delay_ms or blob.event_time_ms is None:
            return 0
        ready_ms = blob.event_time_ms + self._delay_ms
        return ready_ms if ready_ms > time.time_ns() // 1_000_000 else 0

    def _leave_out(self, item: Item) -> None:
        is_foreign = not self._selection.is_ours(item.blob.uri)
        self.left_out["foreign" if is_foreign else "ignored"] += 1
        if is_foreign and self._leave_foreign:
            item.delivery.is_ours = False
        item.delivery.decide()

    def _exact(self, blobs: list[BlobRef]) -> list[BlobRef]:
        """Objects with the version of now, where their announcement did not tell: replays must read the same."""
        vague = [blob for blob in blobs if not blob.version]
        if not vague:
            return blobs
        with ThreadPoolExecutor(min(self._threads, len(vague))) as pool:
            found = iter(list(pool.map(self._stat, vague)))
        return [blob if blob.version else next(found) for blob in blobs]

    def _stat(self, blob: BlobRef) -> BlobRef:
        try:
            return self._reader.stat(blob)
        except BlobNotFoundError:
            # Its reading follows `on_missing_file`.
            return blob
