"""Which objects have been taken in, ever."""

from __future__ import annotations

from collections.abc import Iterable

from volley_core import BlobRef


class Ledger:
    """A set of object identities, in memory, filled from the manifests when a query starts."""

    def __init__(self, by_version: bool) -> None:
        self._by_version = by_version
        self._known: set[str | tuple[str, str]] = set()

    def add(self, blobs: Iterable[BlobRef]) -> None:
        self._known.update(map(self.identity, blobs))

    def seen(self, blob: BlobRef) -> bool:
        return self.identity(blob) in self._known

    def identity(self, blob: BlobRef) -> str | tuple[str, str]:
        """What counts once: an object's name, or each of its versions."""
        return blob.identity if self._by_version else blob.uri
