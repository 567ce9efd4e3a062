"""Which objects have been taken in, ever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from volley_core import BlobRef


class Verdict(Enum):
    """What the ledger knows of an object that is announced."""

    NEW = "new"
    SEEN = "seen"
    """Taken in already, in this version or, without overwrites, in any."""


class Ledger:
    """A set of object identities, in memory, filled from the manifests when a query starts."""

    def __init__(self, by_version: bool) -> None:
        self._by_version = by_version
        self._known: set[str | tuple[str, str]] = set()

    def add(self, blobs: Iterable[BlobRef]) -> None:
        """Remember objects whose manifest is durable."""
        self._known.update(map(self.identity, blobs))

    def judge(self, blobs: Sequence[BlobRef]) -> list[Verdict]:
        """One verdict for each object, in order. Many at once: a lookup costs less so."""
        return [Verdict.SEEN if self.identity(blob) in self._known else Verdict.NEW for blob in blobs]

    def identity(self, blob: BlobRef) -> str | tuple[str, str]:
        """What counts once: an object's name, or each of its versions."""
        return blob.identity if self._by_version else blob.uri
