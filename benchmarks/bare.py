"""The least that a Python source and sink for Spark can do: what Volley's overhead is measured against."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

SCHEMA_DDL = "id bigint, key bigint, value double"


def events(rows: int, first: int = 0) -> pa.RecordBatch:
    """One batch of the benchmark's three columns."""
    ids = list(range(first, first + rows))
    columns = [ids, [i % 1000 for i in ids], [i * 0.5 for i in ids]]
    kinds = (pa.int64(), pa.int64(), pa.float64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["id", "key", "value"])


class BareStreamReader(DataSourceStreamReader):
    """Maps files of batches and yields them again and again, split over two tasks."""

    def __init__(self, options: dict[str, str]) -> None:
        self._files = sorted(str(path) for path in Path(options["path"]).glob("*.arrow"))
        self._rows_per_batch = int(options["rowsperbatch"])
        self._rows_per_epoch = int(options["rowsperepoch"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._rows_per_epoch)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"row": start["row"] + self._rows_per_epoch}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        batches = (end["row"] - start["row"]) // self._rows_per_batch
        return [InputPartition(batches // 2), InputPartition(batches - batches // 2)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        mapped = [pa.ipc.open_file(pa.memory_map(file)).get_batch(0) for file in self._files]
        for number in range(partition.value):
            yield mapped[number % len(mapped)]


class Counted(WriterCommitMessage):
    def __init__(self, rows: int) -> None:
        self.rows = rows


class BareStreamWriter(DataSourceStreamArrowWriter):
    """Counts rows in tasks, and stores each epoch's count as one file."""

    def __init__(self, options: dict[str, str]) -> None:
        self._path = options["path"]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Counted:
        return Counted(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        rows = sum(message.rows for message in messages if isinstance(message, Counted))
        (Path(self._path) / f"{batchId}.count").write_bytes(pickle.dumps((rows, time.time())))


class BareDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> str:
        return SCHEMA_DDL

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802
        return BareStreamReader(dict(self.options))

    def streamWriter(self, schema: object, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return BareStreamWriter(dict(self.options))
