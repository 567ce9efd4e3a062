"""Reads a Volley source as a Spark stream or DataFrame.

Spark makes a reader twice: one lives in a driver-side process for as long as the query does and plans epochs, the
other is pickled to the tasks and only reads. So a reader holds options, and makes its source where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from volley_connectors import hooks
from volley_connectors.conform import Conform, check_schema
from volley_connectors.connection import Connection
from volley_connectors.spark.types import arrow_schema
from volley_core import Offset, SplitSource
from volley_core import ReadLimit as VolleyReadLimit


class _Reader:
    """What a stream and a batch have in common."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema
        # Parsed here and not only where it is used, so that wrong options fail the query and not a task.
        _ = self._connection

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema}

    @cached_property
    def _connection(self) -> Connection:
        return Connection.parse("sources", self._options, arrow_schema(self._schema))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        source = self._connection.source()
        conform = Conform(arrow_schema(self._schema), source.connector_id)
        try:
            for record in source.read(partition.value):
                if record.batch.num_rows:
                    yield conform(record.batch)
        finally:
            source.close()


class VolleyStreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    @cached_property
    def _source(self) -> SplitSource:
        source = self._connection.source()
        check_schema(arrow_schema(self._schema), source.schema(), source.connector_id)
        return source

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark's limits cannot be combined: one stands for all, and `latestOffset` applies the user's bounds together.
        bounds = self._connection.read_limit
        if bounds.max_files is not None:
            return ReadMaxFiles(bounds.max_files)
        if bounds.max_bytes is not None:
            return ReadMaxBytes(bounds.max_bytes)
        if bounds.max_rows is not None:
            return ReadMaxRows(bounds.max_rows)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._source.freeze()

    def initialOffset(self) -> Offset:
        return self._source.initial_offset()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        # Spark asks for what follows `start` only once the epoch that ended there is in its commit log, also while
        # idle. `commit` would come later, or never for the last epoch: sources acknowledge in `latest_offset`.
        bounds = VolleyReadLimit() if isinstance(limit, ReadAllAvailable) else self._connection.read_limit
        return self._source.latest_offset(start, bounds)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        splits = self._source.splits(start, end) if start != end else []
        hooks.fire("epoch_planned", connector_id=self._source.connector_id, start=start, end=end, splits=len(splits))
        return [InputPartition(split) for split in splits]

    def commit(self, end: Offset) -> None:
        """Nothing: see `latestOffset`."""

    def stop(self) -> None:
        if "_source" in self.__dict__:
            self._source.close()


class VolleyReader(_Reader, DataSourceReader):
    @cached_property
    def _connection(self) -> Connection:
        return super()._connection.for_batch()

    def partitions(self) -> Sequence[InputPartition]:
        source = self._connection.source()
        try:
            check_schema(arrow_schema(self._schema), source.schema(), source.connector_id)
            source.freeze()
            start = source.initial_offset()
            end = source.latest_offset(start, VolleyReadLimit())
            splits = source.splits(start, end) if start != end else []
        finally:
            source.close()
        # Spark would turn an empty list into one partition that holds None.
        return [InputPartition(split) for split in splits] or [InputPartition(_Nothing())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(()) if isinstance(partition.value, _Nothing) else super().read(partition)


class _Nothing:
    """The split of a source that has no rows."""
