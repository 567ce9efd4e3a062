"""One Parquet file that a task writes, with batches pooled into row groups."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from volley_core import EpochContext, SinkError


class PartWriter:
    """A staged file. Its name tells whose it is: query, epoch, partition, attempt, and a random part."""

    def __init__(
        self, folder: Path, context: EpochContext, schema: pa.Schema, compression: str, pool_bytes: int
    ) -> None:
        partition = f"{context.partition or 0:05d}-{context.attempt}"
        self._name = f"{self.prefix(context)}{context.epoch}-{partition}-{secrets.token_hex(8)}.parquet"
        self._file = folder / self._name
        self._schema = schema
        self._writer = pq.ParquetWriter(self._file, schema, compression=compression)
        self._pool_bytes = pool_bytes
        self._pool: list[pa.RecordBatch] = []
        self._pooled_bytes = 0

    @staticmethod
    def prefix(context: EpochContext) -> str:
        return f"part-{re.sub(r'[^A-Za-z0-9]', '', context.query_id)}-"

    @staticmethod
    def epoch_of(name: str) -> int:
        return int(name.split("-")[2])

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.schema.equals(self._schema):
            raise SinkError(f"A batch has schema {batch.schema} where those before it had {self._schema}.")
        self._pool.append(batch)
        self._pooled_bytes += batch.nbytes
        if self._pooled_bytes >= self._pool_bytes:
            self._write_row_group()

    def close(self) -> str:
        """Finish the file and return its name; it is on disk then."""
        self._write_row_group()
        self._writer.close()
        with open(self._file, "rb") as file:
            os.fsync(file.fileno())
        return self._name

    def _write_row_group(self) -> None:
        if self._pool:
            table = pa.Table.from_batches(self._pool)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
            self._pool, self._pooled_bytes = [], 0
