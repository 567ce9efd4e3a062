"""The first rows of a source, without Spark. Nothing is acknowledged, and nothing that the source keeps is changed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Generator
from contextlib import closing

import pyarrow as pa

from volley_connectors.conform import Conform
from volley_connectors.connection import Connection
from volley_connectors.polled import PolledSource
from volley_core import ConfigError, ReadLimit, Source, SplitSource, StreamRecord

MAX_FILES = 10
"""Enough to get past a few empty ones, few enough to be planned at once."""
POLL_PAUSE_SECONDS = 0.05


def preview(connection: Connection, rows: int, wait_seconds: float = 5.0) -> pa.Table:
    """Up to `rows` rows from where a new query would begin. A polled source is given `wait_seconds` to have some."""
    with tempfile.TemporaryDirectory(prefix="volley-preview-") as scratch:
        # What a real query of this source remembers stays untouched, and what the preview remembers is forgotten.
        config = connection.config.detached().with_state_location(scratch)
        source = connection.connector(config)
        if isinstance(source, SplitSource):
            with closing(source):
                return _table(source, _read(source, rows), rows)
        if isinstance(source, Source):
            with closing(PolledSource(source)):
                return _table(source, _poll(source, wait_seconds), rows)
        raise ConfigError(f"Connector {connection.name!r} is neither a Source nor a SplitSource.")


def _read(source: SplitSource, rows: int) -> Generator[StreamRecord]:
    source.freeze()
    start = source.initial_offset()
    # Asked once only: a second question, from the end of this answer, would acknowledge what was read.
    end = source.latest_offset(start, ReadLimit(max_files=MAX_FILES, max_rows=rows))
    for split in source.splits(start, end) if end != start else ():
        yield from source.read(split)


def _poll(source: Source, wait_seconds: float) -> Generator[StreamRecord]:
    deadline = time.monotonic() + wait_seconds
    while time.monotonic() < deadline:
        record = source.poll()
        if record is None:
            time.sleep(POLL_PAUSE_SECONDS)
        else:
            yield record


def _table(source: SplitSource | Source, records: Generator[StreamRecord], rows: int) -> pa.Table:
    conform = Conform(source.schema(), source.connector_id)
    batches: list[pa.RecordBatch] = []
    # A generator's own clean-up must run before the source is closed.
    with closing(records):
        for record in records:
            batches.append(conform(record.batch).slice(0, rows))
            rows -= batches[-1].num_rows
            if rows <= 0:
                break
    return pa.Table.from_batches(batches, source.schema())
