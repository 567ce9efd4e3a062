"""Input that could not be read, kept as Parquet files that any reader opens.

A task writes one file when its split was read to the end, under a name that the split alone decides: a replay writes
the same file again, so that every dead letter stands there once.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from volley_connectors.blob.splits import BlobSplit, Portion
from volley_connectors.state import StateStore
from volley_core import BadRecord

_MOST_HELD_BYTES = 16 * 1024 * 1024
_ROW_BYTES = 1000
"""About what a letter takes beside its raw bytes."""
SCHEMA = pa.schema(
    [
        ("object", pa.string()),
        ("version", pa.string()),
        ("piece", pa.string()),
        ("row", pa.int64()),
        ("raw", pa.binary()),
        ("error", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("epoch", pa.int64()),
        ("source", pa.string()),
    ]
)


class DeadLetters:
    """The dead letters of one split. A few are held in memory, more in a temporary file, until the split is done."""

    def __init__(self, location: str, source: str, memory: str, split: BlobSplit) -> None:
        """`memory` tells this query from others that use the same location."""
        self._location = location
        self._source = source
        self._epoch = split.manifest
        owner = hashlib.sha256(f"{source}\0{memory}".encode()).hexdigest()[:12]
        self._name = f"{owner}-{split.manifest:010d}-{split.index:06d}.parquet"
        self._rows: list[dict[str, Any]] = []
        self._held_bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: Any = None

    def add(self, portion: Portion, record: BadRecord) -> None:
        """Keep one record. Its row is counted from where the portion begins."""
        self._append(portion, record.error, record.raw, record.row)

    def add_object(self, portion: Portion, error: str, raw: bytes | None) -> None:
        """Keep a whole object that could not be read, or only its name where it is too big."""
        self._append(portion, error, raw, None)

    def write(self) -> None:
        """Store what was kept."""
        if not self._rows and self._file is None:
            return
        self._spill()
        assert self._file is not None
        self._writer.close()
        self._file.seek(0)
        StateStore(self._location).replace(self._name, self._file)

    def close(self) -> None:
        """Let go of what was not written."""
        if self._file is not None:
            self._writer.close()
            self._file.close()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="volley-letters-")  # noqa: SIM115 - closed by `close`
            self._writer = pq.ParquetWriter(self._file, SCHEMA, compression="zstd")
        self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, schema=SCHEMA))
        self._rows, self._held_bytes = [], 0

    def _append(self, portion: Portion, error: str, raw: bytes | None, row: int | None) -> None:
        self._rows.append(
            {
                "object": portion.blob.uri,
                "version": portion.blob.version,
                "piece": None if portion.piece is None else str(portion.piece),
                "row": row,
                "raw": raw,
                "error": error,
                "time": time.time_ns() // 1000,
                "epoch": self._epoch,
                "source": self._source,
            }
        )
        self._held_bytes += _ROW_BYTES + len(raw or b"")
        if self._held_bytes > _MOST_HELD_BYTES:
            self._spill()
