"""Rows for the suites to send through a connector, and how to compare what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import pyarrow as pa

from volley_core.records import StreamRecord

T = TypeVar("T")


def sample(first: int, count: int) -> pa.Table:
    """`count` rows that no other call gives: their ids begin at `first`."""
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([f"name {i}" for i in ids], pa.string())})


def records(table: pa.Table, rows_per_batch: int = 1000) -> list[StreamRecord]:
    """A table as the records that a host would write; one without rows gives one record without rows."""
    batches = table.to_batches(max_chunksize=rows_per_batch)
    return [StreamRecord(batch) for batch in batches or [pa.RecordBatch.from_pylist([], schema=table.schema)]]


def in_order(rows: Iterable[StreamRecord | pa.RecordBatch] | pa.Table) -> list[str]:
    """Rows as text, one each: equal for NaN too, and readable where two lists differ."""
    if isinstance(rows, pa.Table):
        return [repr(row) for row in rows.to_pylist()]
    batches = [row.batch if isinstance(row, StreamRecord) else row for row in rows]
    return [repr(row) for batch in batches for row in batch.to_pylist()]


def in_any_order(rows: Iterable[StreamRecord | pa.RecordBatch] | pa.Table) -> list[str]:
    return sorted(in_order(rows))


def eventually(look: Callable[[], T], wanted: Callable[[T], bool], patience_seconds: float) -> T:
    """Look again until it is as wanted, or patience ends; gives what was seen last."""
    deadline = time.monotonic() + patience_seconds
    while True:
        seen = look()
        if wanted(seen) or time.monotonic() > deadline:
            return seen
        time.sleep(0.02)
