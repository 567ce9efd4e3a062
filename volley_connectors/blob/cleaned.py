"""What `clean_source` took away: one small file for each epoch whose objects were all seen to.

The files are the mark of how far cleaning got. An epoch without one is gone through again, which changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from volley_connectors.state import StateStore
from volley_core import BlobRef

_FOLDER = "cleaned"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One epoch."""

    state: Literal["deleted", "archived"]
    """What became of its objects that were read."""
    kept: frozenset[tuple[str, str]] = frozenset()
    """Identities of those that were read and are where they were: overwritten since, or read in part."""


class CleaningLog:
    """The epochs at one state_location that are cleaned, by number of the manifest."""

    def __init__(self, state: StateStore) -> None:
        self._store = state / _FOLDER

    def numbers(self) -> set[int]:
        return {int(name.removesuffix(".json")) for name in self._store.names()}

    def read(self, number: int) -> Cleaned:
        """Raises FileNotFoundError."""
        values = json.loads(self._store.read(_name(number)))
        return Cleaned(values["state"], frozenset(map(tuple, values["kept"])))

    def write(self, number: int, state: Literal["deleted", "archived"], kept: Sequence[BlobRef]) -> None:
        cleaned = Cleaned(state, frozenset(blob.identity for blob in kept))
        self._store.replace(_name(number), json.dumps(asdict(cleaned) | {"kept": sorted(cleaned.kept)}).encode())

    def delete(self, number: int) -> None:
        self._store.delete(_name(number))


def _name(number: int) -> str:
    return f"{number:020d}.json"
