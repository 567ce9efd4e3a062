"""The work of one task: objects or pieces of them, read one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from volley_core import BlobRef, Piece

OPENING_BYTES = 64 * 1024
"""What opening an object costs beside reading it, in bytes that could be read instead."""


@dataclass(frozen=True, slots=True)
class Portion:
    """One object, or one piece of a big one."""

    blob: BlobRef
    message_id: str = ""
    piece: Piece | None = None
    weight: int = 0
    """Bytes to be read; the object's size unless it was cut."""
    pieces: int = 1
    """How many pieces the object was cut into."""

    @property
    def cost(self) -> int:
        return max(self.weight or self.blob.size, OPENING_BYTES)


@dataclass(frozen=True, slots=True)
class BlobSplit:
    """Work for one task, with the schema that the driver decided on."""

    portions: tuple[Portion, ...]
    schema: pa.Schema
    manifest: int = 0
    index: int = 0
    """Which of the manifest's splits this is."""


def pack(portions: Iterable[Portion], target_bytes: int) -> Iterator[tuple[Portion, ...]]:
    """Portions in order, as many together as fit in `target_bytes`. The same packs for the same portions."""
    chosen: list[Portion] = []
    weight = 0
    for portion in portions:
        if chosen and weight + portion.cost > target_bytes:
            yield tuple(chosen)
            chosen, weight = [], 0
        chosen.append(portion)
        weight += portion.cost
    if chosen:
        yield tuple(chosen)
