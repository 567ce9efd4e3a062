"""The pushing end of a memory source: numbered Arrow IPC files, one per pushed batch."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from volley_connectors.memory.channel import Channel, ChannelHandle, FileSequence
from volley_core.errors import ConfigError


class MemorySourceHandle(ChannelHandle):
    """The pushing end of a memory source. As a context manager it removes the channel at the end."""

    def __init__(self, name: str) -> None:
        super().__init__(Channel("source", name))

    def push(self, data: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]) -> None:
        """Add batches. All of a channel have one schema; a batch without rows only tells that schema."""
        if isinstance(data, pa.RecordBatch):
            data = [data]
        elif isinstance(data, pa.Table):
            self._settle_schema(data.schema)
            data = data.to_batches()
        for batch in data:
            self._settle_schema(batch.schema)
            if batch.num_rows:
                draft = self._files.draft()
                with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
                    writer.write_batch(batch)
                self._files.append(draft)

    @property
    def schema(self) -> pa.Schema:
        """The schema of what was pushed."""
        try:
            return pa.ipc.read_schema(pa.py_buffer(self._schemas.path(0).read_bytes()))
        except FileNotFoundError:
            raise ConfigError(
                f"Nothing was pushed to memory channel {self._channel.name!r} yet, so that its schema is unknown. Push "
                f"a batch with MemorySource.handle({self._channel.name!r}).push(...), or set the option 'schema'."
            ) from None

    def count(self) -> int:
        """How many batches were pushed."""
        return self._files.count()

    def batch(self, number: int) -> pa.RecordBatch:
        """One pushed batch, mapped into memory."""
        try:
            mapped = pa.memory_map(str(self._files.path(number)))
        except FileNotFoundError:
            raise ConfigError(
                f"Batch {number} of memory channel {self._channel.name!r} is gone: the channel was cleared under a "
                "query that still reads it. Begin the query anew, with a new checkpoint."
            ) from None
        return pa.ipc.open_file(mapped).get_batch(0)

    def size(self, number: int) -> int:
        """How many bytes a pushed batch takes."""
        return self._files.path(number).stat().st_size

    @property
    def _files(self) -> FileSequence:
        return FileSequence(self._channel.path / "batches", ".arrow")

    @property
    def _schemas(self) -> FileSequence:
        return FileSequence(self._channel.path / "schema", ".arrow")

    def _settle_schema(self, schema: pa.Schema) -> None:
        if not self._schemas.path(0).exists():
            draft = self._schemas.draft()
            draft.write_bytes(schema.serialize())
            if not self._schemas.claim(0, draft):
                draft.unlink()
        if not schema.equals(self.schema):
            raise ConfigError(
                f"Memory channel {self._channel.name!r} holds batches of another schema.\n"
                f"It holds: {self.schema.to_string()}\nPushed: {schema.to_string()}\n"
                f"Use another name, or MemorySource.handle({self._channel.name!r}).clear() first."
            )
