"""One batch read of a polled `Source`: a single task polls it until it has nothing more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from volley_core import Offset, ReadLimit, Source, StreamRecord


class DrainSource:
    """A SplitSource whose only epoch is everything that the polled source has. Nothing is acknowledged."""

    def __init__(self, source: Source) -> None:
        self._polled = source

    @property
    def connector_id(self) -> str:
        return self._polled.connector_id

    def schema(self) -> pa.Schema:
        return self._polled.schema()

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

    def close(self) -> None:
        close_polled(self._polled)


def close_polled(source: Source) -> None:
    """A polled source need not have anything to close."""
    close = getattr(source, "close", None)
    if close is not None:
        close()
