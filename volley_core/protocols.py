"""What a connector must do. Nothing here imports Spark, a cloud SDK, or a plugin.

A connector need not inherit from these classes: having the methods is enough. Each docstring states what the host
relies on, and `volley_core.conformance` has a test for each such sentence.

A connector is made as `Class(config)`, where `Class.Config` is its `SourceConfig` or `SinkConfig`. Constructors hold
the config and nothing else: Spark pickles connectors and builds them in several processes, so that clients and
connections are made where they are first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from volley_core.bad_records import BadRecords
from volley_core.blobs import BlobRef, Notification
from volley_core.records import StreamRecord

Offset: TypeAlias = dict[str, Any]
"""How far a source has been read: JSON of str, int, bool, lists and objects. Spark keeps it in its write-ahead log."""

Split: TypeAlias = Any
"""A picklable piece of one epoch's input that one task reads."""

Piece: TypeAlias = Any
"""Names a part of one object, small and picklable; only the decoder that cut the object knows what is in it."""


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """How much one epoch may take in. Every bound that is set holds; None is no bound."""

    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None

    def allows(self, files: int = 0, num_bytes: int = 0, rows: int = 0) -> bool:
        """Whether an epoch of this size keeps within every bound."""
        return (
            (self.max_files is None or files <= self.max_files)
            and (self.max_bytes is None or num_bytes <= self.max_bytes)
            and (self.max_rows is None or rows <= self.max_rows)
        )


@dataclass(frozen=True, slots=True)
class EpochContext:
    """Where in which query a sink is being used."""

    query_id: str
    """The same for all runs on one checkpoint; new with a new checkpoint, and new for every batch write."""
    epoch: int
    """Spark's batch id; 0 for a batch write."""
    partition: int | None = None
    """The task's partition; None on the driver."""
    attempt: int = 0
    """How often this task was tried before."""
    streaming: bool = True
    replace: bool = False
    """The epoch replaces what the sink held: a batch write in mode `overwrite`, or output mode `complete`."""


@runtime_checkable
class Source(Protocol):
    """The easy one: a single reader, polled on the driver.

    The host stores what it polled durably before Spark sees it, so that replays are exact without the source's help.
    """

    @property
    def connector_id(self) -> str:
        """Name this source in checkpoints and logs. The same in every run."""
        ...

    def schema(self) -> pa.Schema:
        """The schema of every record that `poll` will give."""
        ...

    def poll(self) -> StreamRecord | None:
        """Return the next record, or None if none is ready yet. None is not the end: the host will call again."""
        ...

    def on_checkpoint(self, epoch: int) -> None:
        """Everything polled before this call is durable: it may be acknowledged upstream. May be called twice."""
        ...


@runtime_checkable
class ResumableSource(Source, Protocol):
    """A `Source` that can be told where to go on.

    Without this, a crash between storing polled records and `on_checkpoint` reads those records again.
    """

    def position(self) -> Offset:
        """Where the next `poll` will read. Taken after each poll and stored with what was polled."""
        ...

    def seek(self, position: Offset) -> None:
        """Go on from a `position` of this or an earlier instance. Called before the first `poll`, if at all."""
        ...


@runtime_checkable
class SplitSource(Protocol):
    """The one that scales: the driver plans an epoch, tasks read its splits.

    All methods but `read` are called on the driver, on one instance; `read` is called on another instance, in a task.
    """

    @property
    def connector_id(self) -> str:
        """Name this source in checkpoints and logs. The same in every run."""
        ...

    def schema(self) -> pa.Schema:
        """The schema of every record that `read` will give. Must not change while the instance lives."""
        ...

    def initial_offset(self) -> Offset:
        """Where a query without a checkpoint begins."""
        ...

    def freeze(self) -> None:
        """From now on behave as if nothing new arrived: `latest_offset` must come to rest at what is there now."""
        ...

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        """How far to read in the epoch that begins at `start`, within `limit`; `start` itself if there is nothing.

        Everything before `start` is durable downstream when this is called, so it may be acknowledged here.
        When this returns, whatever `splits(start, end)` needs is durable, and the epoch holds at least one item
        even if that one alone exceeds the limit.
        """
        ...

    def splits(self, start: Offset, end: Offset) -> Sequence[Split]:
        """The pieces of the epoch. The same rows for the same two offsets, also on a new instance after a crash."""
        ...

    def read(self, split: Split) -> Iterator[StreamRecord]:
        """Read one piece, in a task. Reading a split again gives the same rows in the same order."""
        ...

    def close(self) -> None:
        """Let go of connections and threads. May be called twice, or never."""
        ...


@runtime_checkable
class Sink(Protocol):
    """Takes records and publishes them once per epoch."""

    @property
    def connector_id(self) -> str:
        """Name this sink in checkpoints and logs. The same in every run."""
        ...

    def write(self, record: StreamRecord) -> None:
        """Accept one record. May buffer it."""
        ...

    def flush(self) -> None:
        """Return only when every record accepted so far is stored outside this process."""
        ...

    def on_checkpoint(self, epoch: int) -> None:
        """Make everything flushed in this epoch visible, in one step.

        Called again with the same epoch after a crash; the second call changes nothing.
        """
        ...


@runtime_checkable
class StagingSink(Sink, Protocol):
    """A sink whose flushed data is invisible until `on_checkpoint`, perhaps on another machine.

    In one process the order is write, flush, on_checkpoint. On Spark it is write, flush, staged in each task, then
    adopt, on_checkpoint on the driver, on another instance. What was staged but never adopted must stay invisible
    by itself, for a task may die at any point.
    """

    def staged(self) -> bytes:
        """Describe what was flushed but not published. Called once, after `flush`."""
        ...

    def adopt(self, staged: Sequence[bytes]) -> None:
        """Take over what other instances staged. Called once, before `on_checkpoint` or `discard`."""
        ...

    def discard(self) -> None:
        """Give up what was adopted: the epoch failed and will be written again. Must not raise if it is gone."""
        ...


@runtime_checkable
class EpochSink(Sink, Protocol):
    """A sink that wants to know its epoch, query and task, for instance to tag what it commits."""

    def begin(self, context: EpochContext) -> None:
        """Called once on each instance, in tasks before the first `write`, on the driver before `adopt`."""
        ...


@runtime_checkable
class PreparedSink(Sink, Protocol):
    """A sink that checks its target before any row flows."""

    def prepare(self, schema: pa.Schema) -> None:
        """Check that the target can take this schema, and make the target if need be.

        Called on the driver before a query's first task, for a batch write after `begin`; raises ConfigError if the
        query cannot work. Safe to repeat.
        """
        ...


@runtime_checkable
class NotificationSource(Protocol):
    """Reads object notifications from a queue, on the driver, from several threads; deletes them once told to."""

    @property
    def connector_id(self) -> str:
        """Name this queue in checkpoints and logs. The same in every run."""
        ...

    def poll(self, max_notifications: int) -> Sequence[Notification]:
        """Return up to `max_notifications`; an empty sequence if the queue gave none.

        A returned message stays in the queue, hidden, until `ack`. A message that cannot be parsed is never an error:
        it is logged and left for the queue's own dead-letter rule.
        """
        ...

    def ack(self, receipts: Sequence[str]) -> None:
        """Delete these messages. An unknown or expired receipt is not an error."""
        ...

    def extend(self, receipts: Sequence[str], seconds: float) -> None:
        """Keep these messages hidden for so long from now. An unknown or expired receipt is not an error."""
        ...

    def release(self, receipts: Sequence[str]) -> None:
        """Show these messages again at once. An unknown or expired receipt is not an error."""
        ...

    def close(self) -> None:
        """Let go of connections. May be called twice, or never."""
        ...


@runtime_checkable
class BlobReader(Protocol):
    """Reads objects. Used on the driver and in tasks, from several threads at once.

    A file that it gave belongs to one thread at a time, which need not be the one that opened it.
    """

    def open(self, ref: BlobRef) -> BinaryIO:
        """Return the object as a seekable binary file that the caller will close.

        Raises BlobNotFoundError if the object is gone, BlobChangedError if it is no longer the version that was named.
        """
        ...

    def list(self, prefix: str) -> Iterator[BlobRef]:
        """Every object whose uri starts with `prefix`, in any order, with the version and size that it has now."""
        ...

    def stat(self, ref: BlobRef) -> BlobRef:
        """The object as it is now, with size and version. Raises BlobNotFoundError if it is gone."""
        ...


@runtime_checkable
class Decoder(Protocol):
    """Turns an object's bytes into Arrow batches."""

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        """A schema that this file can be decoded with. Raises DecodeError if the bytes are not in the format."""
        ...

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        """The file's rows in order, in batches of exactly `schema`, never holding the whole file if the format permits.

        A column that the file lacks is null; one that the schema lacks is left out. Raises DecodeError if the bytes
        are not in the format or do not fit the schema. A file without rows gives no rows, not an error.
        """
        ...


@runtime_checkable
class TolerantDecoder(Decoder, Protocol):
    """A decoder for which one bad record does not cost its neighbours."""

    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterable[pa.RecordBatch]:
        """Like `decode`, but each record that cannot be read or does not fit goes to `bad.add`; the others come out.

        `BadRecords` says what else is asked for. Bytes that are not in the format at all still raise DecodeError.
        """
        ...


@runtime_checkable
class CuttingDecoder(Decoder, Protocol):
    """A decoder that can read parts of an object, so that several tasks share a big one."""

    def cut(self, file: BinaryIO, target_bytes: int) -> Sequence[Piece]:
        """The object's pieces in order, each about `target_bytes`; one piece if it cannot be cut. Reads little of it.

        Called on the driver. The same pieces for the same bytes.
        """
        ...

    def within(self, piece: Piece) -> Decoder:
        """This decoder for one piece of the object alone: the rows of all pieces in order are the object's rows."""
        ...


@runtime_checkable
class BlobRemover(BlobReader, Protocol):
    """A reader that can also take objects away once their rows are safe. Used on the driver, from several threads.

    What a crash cut short is called again, and then ends as if there had been no crash.
    """

    def delete(self, ref: BlobRef) -> bool:
        """Delete the object, if it still is this version; an overwritten one is left alone. True if it is gone now.

        One that was gone before is not an error.
        """
        ...

    def move(self, ref: BlobRef, uri: str) -> bool:
        """Copy the object to `uri`, then delete it. True if it is gone now and its copy is there.

        An overwritten one is left alone, and so is another object that stands at `uri`. One that is gone is not an
        error.
        """
        ...
