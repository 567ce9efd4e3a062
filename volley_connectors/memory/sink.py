"""Rows that a test or a notebook reads back, as a sink.

A task writes an Arrow IPC file that nothing names; an epoch becomes visible when the log names its files.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from volley_connectors.memory.staging import ChannelSink, ChannelSinkConfig, SinkHandle, Staged
from volley_core.errors import SinkError


class MemorySinkConfig(ChannelSinkConfig):
    """Options of the memory sink."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"name": "results"}


class MemorySink(ChannelSink):
    """Batches that a test or a notebook reads back."""

    Config: ClassVar[type[MemorySinkConfig]] = MemorySinkConfig
    GUARANTEE: ClassVar[str] = (
        "exactly-once: an epoch becomes visible in one step, and a replayed epoch changes nothing."
    )
    KIND: ClassVar[str] = "memory"

    def __init__(self, config: MemorySinkConfig) -> None:
        super().__init__(config)
        self._batches: list[pa.RecordBatch] = []

    @staticmethod
    def handle(name: str) -> MemorySinkHandle:
        """The published rows, for any process."""
        return MemorySinkHandle(name)

    def _accept(self, batch: pa.RecordBatch) -> None:
        if self._batches and not batch.schema.equals(self._batches[0].schema):
            raise SinkError(
                f"Memory sink {self.config.name!r} was given batches of two schemas in one epoch: "
                f"{self._batches[0].schema.to_string()} and {batch.schema.to_string()}. Make the query's rows alike."
            )
        self._batches.append(batch)

    def _stage(self) -> Staged | None:
        if not self._batches:
            return None
        batches, self._batches = self._batches, []
        name = f"{uuid.uuid4().hex}.arrow"
        path = self._channel.folder("staged") / name
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        rows = sum(batch.num_rows for batch in batches)
        return Staged(rows, len(batches), sum(batch.nbytes for batch in batches), name)


class MemorySinkHandle(SinkHandle):
    """The rows that a memory sink published."""

    def __init__(self, name: str) -> None:
        super().__init__("memory", name)

    def table(self) -> pa.Table:
        """All rows, oldest epoch first. A column that some epochs lack is null there."""
        tables = [pa.Table.from_batches(batches, schema) for schema, batches in self._files()]
        return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})

    def batches(self) -> list[pa.RecordBatch]:
        """All rows in the batches that were written, mapped into memory."""
        return [batch for _, batches in self._files() for batch in batches]

    def _files(self) -> list[tuple[pa.Schema, list[pa.RecordBatch]]]:
        commits = self._log.visible()
        while True:
            try:
                return [self._file(file) for commit in commits for file in commit.files]
            except FileNotFoundError:
                # An epoch that replaces all rows removes the files of those before it.
                newer = self._log.visible()
                if newer == commits:
                    raise
                commits = newer

    def _file(self, name: str) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        reader = pa.ipc.open_file(pa.memory_map(str(self._channel.path / "staged" / name)))
        return reader.schema, [reader.get_batch(index) for index in range(reader.num_record_batches)]
