"""Counts rows and forgets them: the cheapest sink that is still exactly-once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from volley_connectors.memory.staging import ChannelSink, ChannelSinkConfig, SinkHandle, Staged


class CountSinkConfig(ChannelSinkConfig):
    """Options of the count sink."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"name": "events"}


class CountSink(ChannelSink):
    """Counts rows, batches and bytes of every epoch, and keeps no data."""

    Config: ClassVar[type[CountSinkConfig]] = CountSinkConfig
    GUARANTEE: ClassVar[str] = (
        "exactly-once: an epoch is counted in one step, and a replayed epoch is not counted again."
    )
    KIND: ClassVar[str] = "count"

    def __init__(self, config: CountSinkConfig) -> None:
        super().__init__(config)
        self._rows = self._batches = self._bytes = 0

    @staticmethod
    def handle(name: str) -> CountSinkHandle:
        """The counts, for any process."""
        return CountSinkHandle(name)

    def _accept(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        self._batches += 1
        self._bytes += batch.nbytes

    def _stage(self) -> Staged | None:
        # The counts travel in the staged message itself: there is nothing else to store.
        staged = Staged(self._rows, self._batches, self._bytes)
        self._rows = self._batches = self._bytes = 0
        return staged if staged.batches else None


class CountSinkHandle(SinkHandle):
    """What a count sink has counted."""

    def __init__(self, name: str) -> None:
        super().__init__("count", name)

    @property
    def batches(self) -> int:
        """How many batches the counted rows came in."""
        return sum(commit.batches for commit in self._log.visible())

    @property
    def num_bytes(self) -> int:
        """How many bytes of Arrow data the counted rows took."""
        return sum(commit.num_bytes for commit in self._log.visible())
