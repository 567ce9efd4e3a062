"""One batch read of a polled `Source`: a single task polls it until it has nothing more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volley_connectors.polled import PolledSource
from volley_core import Offset, ReadLimit, StreamRecord


class DrainSource(PolledSource):
    """A SplitSource whose only epoch is everything that the polled source has. Nothing is acknowledged."""

    def initial_offset(self) -> Offset:
        return {"drained": False}

    def freeze(self) -> None:
        """Nothing to do: the first poll that gives None is the end."""

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        return {"drained": True}

    def splits(self, start: Offset, end: Offset) -> Sequence[None]:
        return [None]

    def read(self, split: None) -> Iterator[StreamRecord]:
        while (record := self._polled.poll()) is not None:
            yield record
