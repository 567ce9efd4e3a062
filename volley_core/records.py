"""What flows through a connector: Arrow batches, and the marks between them. All values are frozen and picklable."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, replace

import pyarrow as pa

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A W3C trace context: which distributed trace a record belongs to."""

    trace_id: str
    span_id: str
    sampled: bool = True
    state: str = ""
    """The `tracestate` header, carried along untouched."""

    @classmethod
    def new(cls) -> TraceContext:
        """Begin a trace."""
        return cls(secrets.token_hex(16), secrets.token_hex(8))

    @classmethod
    def from_traceparent(cls, header: str, state: str = "") -> TraceContext | None:
        """Read a `traceparent` header. None if it is malformed: the W3C rule is to start anew, not to fail."""
        match = _TRACEPARENT.fullmatch(header.strip())
        if match is None:
            return None
        version, trace_id, span_id, flags, rest = match.groups()
        forbidden = version == "ff" or not int(trace_id, 16) or not int(span_id, 16)
        if forbidden or (version == "00" and rest):
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & 1), state)

    def to_traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    def child(self) -> TraceContext:
        """The same trace, a new span under this one."""
        return replace(self, span_id=secrets.token_hex(8))


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """One Arrow batch of one or more rows on its way from a source to a sink."""

    batch: pa.RecordBatch
    event_time_ms: int | None = None
    """When what the rows tell of happened, in milliseconds since 1970 UTC."""
    trace: TraceContext | None = None

    @property
    def num_rows(self) -> int:
        return int(self.batch.num_rows)


@dataclass(frozen=True, slots=True)
class Data:
    """A record, in band."""

    record: StreamRecord


@dataclass(frozen=True, slots=True)
class Barrier:
    """The end of an epoch: everything before it belongs to `epoch` or earlier."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """No record older than this will come any more."""

    timestamp_ms: int


StreamElement = Data | Barrier | Watermark
"""What flows through a connector, in order."""
