"""What became of each object: one small file per task, written when its split was read to the end.

Reports tell; nothing depends on them. A task that cannot write one warns and goes on, and a replayed task writes the
same file again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from volley_connectors.state import StateStore
from volley_core import VolleyError

log = logging.getLogger(__name__)

_FOLDER = "reports"
_WORST_FIRST = ("corrupt", "missing", "read")


@dataclass(frozen=True, slots=True)
class BlobReport:
    """One object, or one piece of it, as a task read it."""

    uri: str
    version: str = ""
    rows: int = 0
    bad: int = 0
    """Records that were dropped, rescued or put among the dead letters."""
    state: str = "read"
    """read, corrupt (skipped or put among the dead letters) or missing"""
    error: str = ""
    """Of the first bad record, or why the object could not be read."""
    pieces: int = 1
    """How many pieces the object was cut into: so many reports tell of it."""
    read_ms: int = 0
    """When the task stored the report."""


class Reports:
    """The reports at one state_location, by number of the manifest."""

    def __init__(self, state: StateStore) -> None:
        self._store = state / _FOLDER

    def write(self, number: int, split: int, reports: Sequence[BlobReport]) -> None:
        """Store what one task read."""
        now_ms = time.time_ns() // 1_000_000
        lines = (json.dumps(asdict(report) | {"read_ms": now_ms}, separators=(",", ":")) for report in reports)
        try:
            self._store.replace(f"{number:020d}/{split:06d}.json", "".join(f"{line}\n" for line in lines).encode())
        except (VolleyError, OSError) as error:
            log.warning("Reports of manifest %d could not be stored: %s", number, error)

    def read(self, number: int) -> list[BlobReport]:
        """What the tasks of one manifest reported so far."""
        folder = self._store / f"{number:020d}"
        return [BlobReport(**json.loads(line)) for name in folder.names() for line in folder.read(name).splitlines()]

    def outcomes(self, number: int) -> dict[tuple[str, str], BlobReport]:
        """One report for each object of a manifest, by its identity. Of one in pieces the worst tells.

        An object is `planned` until all of its pieces are reported, unless one of them went wrong.
        """
        pieces: dict[tuple[str, str], list[BlobReport]] = {}
        for report in self.read(number):
            pieces.setdefault((report.uri, report.version), []).append(report)
        return {identity: _together(reports) for identity, reports in pieces.items()}

    def delete(self, number: int) -> None:
        """Forget a manifest's reports."""
        (self._store / f"{number:020d}").clear()


def _together(reports: Sequence[BlobReport]) -> BlobReport:
    state = min((report.state for report in reports), key=_WORST_FIRST.index)
    if state == "read" and len(reports) < max(report.pieces for report in reports):
        state = "planned"
    return replace(
        reports[0],
        rows=sum(report.rows for report in reports),
        bad=sum(report.bad for report in reports),
        state=state,
        error=next((report.error for report in reports if report.error), ""),
        read_ms=max(report.read_ms for report in reports),
    )
