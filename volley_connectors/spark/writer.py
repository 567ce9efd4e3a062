"""Writes a Spark stream or DataFrame into a Volley sink.

Tasks call `write`, the driver `commit` or `abort`, each on a writer and in a process of its own: nothing survives on
`self`. What a task staged travels to the driver in its commit message, and the query's id with it, because only
tasks are told that.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from volley_connectors import hooks
from volley_connectors.conform import Conform
from volley_connectors.connection import Connection
from volley_connectors.spark.types import arrow_schema
from volley_core import EpochContext, EpochSink, PreparedSink, Sink, StagingSink, StreamRecord

log = logging.getLogger(__name__)


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote."""

    query_id: str
    rows: int
    staged: bytes | None
    """None if the sink published in the task itself."""


class _Writer:
    """What a stream and a batch have in common."""

    def __init__(self, options: dict[str, str], schema: StructType, replace: bool) -> None:
        self._options = options
        self._schema = schema
        self._replace = replace
        # Parsed here and not only where it is used, so that wrong options fail the query and not a task.
        _ = self._connection

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_connection"}

    @cached_property
    def _connection(self) -> Connection:
        return Connection.parse("sinks", self._options)

    def prepare(self) -> None:
        """Runs on the driver before the first task."""
        self._prepare(self._connection.sink())

    def _prepare(self, sink: Sink) -> None:
        if isinstance(sink, PreparedSink):
            sink.prepare(arrow_schema(self._schema))

    def _write(self, batches: Iterator[pa.RecordBatch], context: EpochContext) -> Written:
        sink = self._begun(context)
        # Spark sends timestamps in the session's time zone; sinks get UTC.
        conform = Conform(arrow_schema(self._schema), sink.connector_id)
        rows = 0
        for batch in batches:
            if batch.num_rows:
                sink.write(StreamRecord(conform(batch)))
                rows += batch.num_rows
        sink.flush()
        if isinstance(sink, StagingSink):
            return Written(context.query_id, rows, sink.staged())
        # A sink that cannot hand its work to another process publishes where it wrote.
        sink.on_checkpoint(context.epoch)
        return Written(context.query_id, rows, None)

    def _publish(self, written: Sequence[Written], context: EpochContext) -> None:
        started = time.monotonic()
        sink = self._begun(context)
        if isinstance(sink, StagingSink):
            sink.adopt([message.staged for message in written if message.staged is not None])
            sink.on_checkpoint(context.epoch)
        hooks.fire(
            "epoch_committed",
            connector_id=sink.connector_id,
            query_id=context.query_id,
            epoch=context.epoch,
            rows=sum(message.rows for message in written),
            seconds=time.monotonic() - started,
        )

    def _discard(self, written: Sequence[Written], context: EpochContext) -> None:
        try:
            sink = self._begun(context)
            if isinstance(sink, StagingSink):
                sink.adopt([message.staged for message in written if message.staged is not None])
                sink.discard()
        except Exception:
            # The query has failed already; the reason for that is what the user must see.
            log.exception("Could not remove what failed epoch %s had staged; it stays invisible", context.epoch)

    def _begun(self, context: EpochContext) -> Sink:
        sink = self._connection.sink()
        if isinstance(sink, EpochSink):
            sink.begin(context)
        return sink


class VolleyStreamWriter(_Writer, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = TaskContext.get()
        assert task is not None, "write runs in a task"
        context = EpochContext(
            query_id=task.getLocalProperty("sql.streaming.queryId") or "",
            epoch=int(task.getLocalProperty("streaming.sql.batchId") or 0),
            partition=task.partitionId(),
            attempt=task.attemptNumber(),
            replace=self._replace,
        )
        return self._write(iterator, context)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = _written(messages)
        # An epoch without a task has nothing to publish, and nobody told its query's id.
        if written:
            self._publish(written, self._driver_context(written, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = _written(messages)
        if written:
            self._discard(written, self._driver_context(written, batchId))

    def _driver_context(self, written: Sequence[Written], epoch: int) -> EpochContext:
        return EpochContext(written[0].query_id, epoch, replace=self._replace)


class VolleyWriter(_Writer, DataSourceArrowWriter):
    def __init__(self, options: dict[str, str], schema: StructType, replace: bool) -> None:
        super().__init__(options, schema, replace)
        self._write_id = f"batch-{uuid.uuid4().hex}"

    def prepare(self) -> None:
        # Unlike a stream, whose query nobody names before its tasks run, a batch knows here already what it is.
        self._prepare(self._begun(self._context()))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = TaskContext.get()
        assert task is not None, "write runs in a task"
        return self._write(iterator, self._context(task.partitionId(), task.attemptNumber()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._publish(_written(messages), self._context())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._discard(_written(messages), self._context())

    def _context(self, partition: int | None = None, attempt: int = 0) -> EpochContext:
        return EpochContext(self._write_id, 0, partition, attempt, streaming=False, replace=self._replace)


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """The messages of tasks that finished: Spark puts None for those that did not."""
    return [message for message in messages if isinstance(message, Written)]
