"""Batches repeated without end, counted by row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate


class Rounds:
    """Where a row number lies when batches of these lengths are read over and over."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = lengths
        self._starts = [0, *accumulate(lengths)]
        self._total = self._starts.pop()

    def batch_start(self, row: int) -> int:
        """The row at which the batch that holds `row` begins."""
        place = row % self._total
        return row - place + self._starts[bisect_right(self._starts, place) - 1]

    def pieces(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """The rows from `first` up to `last`, as batch index, rows to skip, rows to take."""
        row = first
        while row < last:
            place = row % self._total
            index = bisect_right(self._starts, place) - 1
            skip = place - self._starts[index]
            length = min(self._lengths[index] - skip, last - row)
            yield index, skip, length
            row += length
