"""A third party's connectors, as the tests see them: registered by metadata, imported by nobody until named."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pydantic import Field, SecretStr

from volley_core import Offset, ReadLimit, SinkConfig, SourceConfig, StreamRecord

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


class TickerConfig(SourceConfig):
    path: str = Field(description="A directory in which the file `rows` says how many rows there are.")
    batch: int = Field(10, description="Rows per record.")
    api_token: SecretStr | None = Field(None, description="A secret that must never be seen.")
    die_after_ack: bool = Field(False, description="Kill the process once, right after the first on_checkpoint.")


class Ticker:
    """A polled, resumable source of consecutive numbers."""

    Config = TickerConfig
    GUARANTEE: ClassVar[str] = "exactly-once"

    def __init__(self, config: TickerConfig) -> None:
        self._config = config
        self._next = 0

    @property
    def connector_id(self) -> str:
        return f"ticker:{self._config.path}"

    def schema(self) -> pa.Schema:
        return SCHEMA

    def poll(self) -> StreamRecord | None:
        available = int((Path(self._config.path) / "rows").read_text())
        ids = list(range(self._next, min(self._next + self._config.batch, available)))
        if not ids:
            return None
        self._next = ids[-1] + 1
        return StreamRecord(pa.record_batch([ids, [f"row {i}" for i in ids]], schema=SCHEMA))

    def on_checkpoint(self, epoch: int) -> None:
        with open(Path(self._config.path) / "acked", "a") as log:
            log.write(f"{epoch}\n")
        died = Path(self._config.path) / "died"
        if self._config.die_after_ack and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def position(self) -> Offset:
        return {"next": self._next}

    def seek(self, position: Offset) -> None:
        self._next = position["next"]


class RangeConfig(SourceConfig):
    rows: int = Field(100, description="How many rows there are in all.")
    wrong_type: bool = Field(False, description="Deliver another type than the schema says.")


class Range:
    """A split source of numbers that shows which limits it was given."""

    Config = RangeConfig

    def __init__(self, config: RangeConfig) -> None:
        self._config = config

    @property
    def connector_id(self) -> str:
        return "range"

    def schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))])

    def initial_offset(self) -> Offset:
        return {"row": 0}

    def freeze(self) -> None:
        pass

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        step = min(
            limit.max_rows or self._config.rows, (limit.max_bytes or 10**9) // 8, (limit.max_files or 10**9) * 100
        )
        return {"row": min(start["row"] + step, self._config.rows)}

    def splits(self, start: Offset, end: Offset) -> Sequence[tuple[int, int]]:
        middle = (start["row"] + end["row"]) // 2
        return [(start["row"], middle), (middle, end["row"])]

    def read(self, split: tuple[int, int]) -> Iterator[StreamRecord]:
        # Text or int32, and nanoseconds: not what the schema says, but what can be cast to it.
        ids = pa.array(range(*split), pa.int64()).cast(pa.string() if self._config.wrong_type else pa.int32())
        at = pa.array([1] * len(ids), pa.timestamp("us")).cast(pa.timestamp("ns"))
        yield StreamRecord(pa.record_batch([at, ids], names=["at", "id"]))

    def close(self) -> None:
        pass


class LogConfig(SinkConfig):
    path: str = Field(description="A directory that gets one JSON file per task.")


class Log:
    """A plain sink, which publishes in its tasks, idempotent by epoch and partition."""

    Config = LogConfig

    def __init__(self, config: LogConfig) -> None:
        self._config = config
        self._rows: list[object] = []

    @property
    def connector_id(self) -> str:
        return f"log:{self._config.path}"

    def begin(self, context: object) -> None:
        self._context = context

    def write(self, record: StreamRecord) -> None:
        self._rows.extend(record.batch.to_pylist())
        self._types = {field.name: str(field.type) for field in record.batch.schema}

    def flush(self) -> None:
        pass

    def on_checkpoint(self, epoch: int) -> None:
        context = self._context
        if not self._rows:
            return
        target = Path(self._config.path) / f"{epoch}-{context.partition}.json"
        facts = {"query_id": context.query_id, "executor": _executor(), "types": self._types, "rows": self._rows}
        target.write_text(json.dumps(facts, default=str))


def _executor() -> int:
    """The JVM that this worker serves: worker, its daemon, JVM."""
    daemon = os.getppid()
    return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
