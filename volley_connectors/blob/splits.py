"""The work of one task: some objects, read one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from volley_core import BlobRef

OPENING_BYTES = 64 * 1024
"""What opening an object costs beside reading it, in bytes that could be read instead."""


@dataclass(frozen=True, slots=True)
class BlobSplit:
    """Objects for one task, with the schema that the driver decided on."""

    blobs: tuple[BlobRef, ...]
    schema: pa.Schema


def pack(blobs: Iterable[BlobRef], schema: pa.Schema, target_bytes: int) -> Iterator[BlobSplit]:
    """Objects in order, as many to a split as fit in `target_bytes`. The same splits for the same objects."""
    chosen: list[BlobRef] = []
    weight = 0
    for blob in blobs:
        added = max(blob.size, OPENING_BYTES)
        if chosen and weight + added > target_bytes:
            yield BlobSplit(tuple(chosen), schema)
            chosen, weight = [], 0
        chosen.append(blob)
        weight += added
    if chosen:
        yield BlobSplit(tuple(chosen), schema)
