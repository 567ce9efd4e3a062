"""One table in a folder, and what a host does to write epochs into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from volley_delta import DeltaSink, DeltaSinkConfig

from volley_core import EpochContext, StreamRecord

QUERY = "11111111-aaaa-4aaa-8aaa-111111111111"


class Writes:
    """Epochs as Spark writes them: tasks stage, another instance publishes."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def sink(self, epoch: int = 0, query_id: str = QUERY, **options: Any) -> DeltaSink:
        sink = DeltaSink(DeltaSinkConfig(**self.options | options))
        sink.begin(EpochContext(query_id, epoch))
        return sink

    def task(self, epoch: int, *rows: pa.Table, **options: Any) -> bytes:
        sink = self.sink(epoch, **options)
        for table in rows:
            for batch in table.to_batches():
                sink.write(StreamRecord(batch))
        sink.flush()
        return sink.staged()

    def driver(self, epoch: int, *messages: bytes, **options: Any) -> DeltaSink:
        sink = self.sink(epoch, **options)
        sink.adopt(messages)
        return sink

    def epoch(self, epoch: int, *rows: pa.Table, **options: Any) -> None:
        self.driver(epoch, self.task(epoch, *rows, **options), **options).on_checkpoint(epoch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def writes(path: Path) -> Callable[..., Writes]:
    return lambda **options: Writes(**{"table_uri": str(path)} | options)
