"""Input that could not be read, kept as Parquet files that any reader opens.

A task writes one file when its split was read to the end, under a name that the split alone decides: a replay writes
the same file again, so that every dead letter stands there once.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from volley_connectors.blob.splits import BlobSplit, Portion
from volley_connectors.state import StateStore
from volley_core import BadRecord

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
    """The dead letters of one split, held in memory until it is done."""

    def __init__(self, location: str, source: str, memory: str) -> None:
        """`memory` tells this query from others that use the same location."""
        self._location = location
        self._source = source
        self._memory = memory
        self._rows: list[dict[str, Any]] = []

    def add(self, portion: Portion, record: BadRecord) -> None:
        """Keep one record. Its row is counted from where the portion begins."""
        self._append(portion, record.error, record.raw, record.row)

    def add_object(self, portion: Portion, error: str, raw: bytes | None) -> None:
        """Keep a whole object that could not be read, or only its name where it is too big."""
        self._append(portion, error, raw, None)

    def write(self, split: BlobSplit) -> None:
        """Store what was kept."""
        if not self._rows:
            return
        found = pa.Table.from_pylist(
            [row | {"epoch": split.manifest, "source": self._source} for row in self._rows], schema=SCHEMA
        )
        buffer = pa.BufferOutputStream()
        pq.write_table(found, buffer, compression="zstd")
        owner = hashlib.sha256(f"{self._source}\0{self._memory}".encode()).hexdigest()[:12]
        name = f"{owner}-{split.manifest:010d}-{split.index:06d}.parquet"
        StateStore(self._location).replace(name, buffer.getvalue().to_pybytes())

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
            }
        )
