"""Cuts a big object into pieces of about one size."""

from __future__ import annotations

from itertools import pairwise


def evenly(parts: int, num_bytes: int, target_bytes: int) -> list[tuple[int, int]]:
    """Ranges of an object's parts (its stripes, batches or bytes), where each part is about as large as the others."""
    count = max(1, min(parts, round(num_bytes / target_bytes)))
    bounds = [parts * number // count for number in range(count + 1)]
    return list(pairwise(bounds))
