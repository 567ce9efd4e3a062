"""What a task writes: Parquet files in the table's own storage, which nobody sees before the log names them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from volley_delta.partitions import Values, by_partition, folder
from volley_delta.statistics import measured, statistics

_ROW_GROUP_BYTES = 64 * 1024 * 1024
_POOLED_BYTES = 192 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class DataFile:
    """A finished file, as the log will name it."""

    path: str
    size: int
    partition_values: dict[str, str | None]
    modification_time: int
    stats: str
    null_columns: list[str]
    """The columns that hold a null: the driver knows which must not."""


class PartitionWriter:
    """The files of one partition, one after the other. Rows are pooled in memory until they make a row group."""

    def __init__(
        self, files: Any, schema: pa.Schema, partition_by: Sequence[str], values: Values, compression: str
    ) -> None:
        self.pooled_bytes = 0
        self._files = files
        self._schema = schema
        self._folder = folder(partition_by, values)
        self._values = dict(zip(partition_by, values, strict=True))
        self._compression = compression
        self._pool: list[pa.Table] = []
        self._nulls = {name for name, value in self._values.items() if value is None}
        self._file: _OpenFile | None = None

    def write(self, rows: pa.Table) -> None:
        self._pool.append(rows)
        self.pooled_bytes += rows.nbytes

    def spill(self) -> int:
        """Write what is pooled as a row group; the size of the open file then."""
        if self._pool:
            if self._file is None:
                path = f"{self._folder}part-{uuid.uuid4()}.{self._compression}.parquet"
                self._file = _OpenFile(self._files, path, self._schema, self._compression)
            self._file.write(pa.concat_tables(self._pool))
            self._pool, self.pooled_bytes = [], 0
        return self._file.size if self._file else 0

    def close(self) -> list[DataFile]:
        """Finish the open file, if there is one."""
        self.spill()
        if self._file is None:
            return []
        file, self._file = self._file, None
        stats = file.close()
        nulls = sorted(self._nulls | {name for name, count in file.null_counts.items() if count})
        return [DataFile(file.path, file.size, self._values, int(time.time() * 1000), stats, nulls)]


class TableWriter:
    """The open partitions of one task. Memory is bounded: the fullest pool is spilled first."""

    def __init__(
        self, files: Any, schema: pa.Schema, partition_by: Sequence[str], compression: str, target_bytes: int
    ) -> None:
        self._files = files
        self._inside = pa.schema([field for field in schema if field.name not in partition_by])
        self._partition_by = partition_by
        self._compression = compression
        self._target_bytes = target_bytes
        self._open: dict[Values, PartitionWriter] = {}
        self._finished: list[DataFile] = []
        self._pooled_bytes = 0

    def write(self, rows: pa.Table) -> None:
        for values, part in by_partition(rows, self._partition_by):
            writer = self._open.get(values)
            if writer is None:
                writer = PartitionWriter(self._files, self._inside, self._partition_by, values, self._compression)
                self._open[values] = writer
            before = writer.pooled_bytes
            writer.write(part)
            self._pooled_bytes += writer.pooled_bytes - before
            # A file may be meant to be smaller than a row group.
            if writer.pooled_bytes >= min(_ROW_GROUP_BYTES, self._target_bytes):
                self._spill(writer)
        while self._pooled_bytes > _POOLED_BYTES:
            self._spill(max(self._open.values(), key=lambda writer: writer.pooled_bytes))

    def close(self) -> list[DataFile]:
        for writer in self._open.values():
            self._finished += writer.close()
        self._open, self._pooled_bytes = {}, 0
        return self._finished

    def _spill(self, writer: PartitionWriter) -> None:
        self._pooled_bytes -= writer.pooled_bytes
        if writer.spill() >= self._target_bytes:
            self._finished += writer.close()


class _OpenFile:
    def __init__(self, files: Any, path: str, schema: pa.Schema, compression: str) -> None:
        self.path = path
        self.size = 0
        self.null_counts = dict.fromkeys(schema.names, 0)
        self._schema = schema
        self._out = files.open_output_stream(path)
        self._parquet = pq.ParquetWriter(
            self._out, schema, compression=compression, write_statistics=measured(schema) or False
        )

    def write(self, rows: pa.Table) -> None:
        self._parquet.write_table(rows, row_group_size=max(1, len(rows)))
        for name in rows.column_names:
            self.null_counts[name] += rows[name].null_count
        self.size = self._out.tell()

    def close(self) -> str:
        """Finish the file and return its statistics; it is stored then."""
        self._parquet.close()
        self.size = self._out.tell()
        self._out.close()
        return statistics(self._parquet.writer.metadata, self._schema, self.null_counts)
