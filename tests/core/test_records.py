"""The values that flow through a connector."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from volley_core import Barrier, Data, ReadLimit, StreamElement, StreamRecord, TraceContext, Watermark

BATCH = pa.record_batch({"id": [1, 2, 3]})
TRACE = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_traceparent_round_trip() -> None:
    assert TraceContext.from_traceparent(HEADER) == TRACE
    assert TRACE.to_traceparent() == HEADER


def test_traceparent_keeps_the_sampled_flag_and_the_state() -> None:
    found = TraceContext.from_traceparent(HEADER[:-2] + "00", "vendor=1")
    assert found == dataclasses.replace(TRACE, sampled=False, state="vendor=1")
    assert found is not None
    assert found.to_traceparent().endswith("-00")


def test_traceparent_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert TraceContext.from_traceparent("cc" + HEADER[2:] + "-what-is-new") == TRACE


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        "ff" + HEADER[2:],
        HEADER + "-more",
        HEADER.upper(),
        HEADER.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        HEADER.replace("b7ad6b7169203331", "0" * 16),
        HEADER[:-1],
    ],
)
def test_a_malformed_traceparent_is_none_and_no_error(header: str) -> None:
    assert TraceContext.from_traceparent(header) is None


def test_a_new_trace_is_valid_and_not_like_another() -> None:
    first, second = TraceContext.new(), TraceContext.new()
    assert first.trace_id != second.trace_id
    assert TraceContext.from_traceparent(first.to_traceparent()) == first


def test_a_child_is_another_span_of_the_same_trace() -> None:
    child = dataclasses.replace(TRACE, state="vendor=1").child()
    assert (child.trace_id, child.sampled, child.state) == (TRACE.trace_id, True, "vendor=1")
    assert child.span_id != TRACE.span_id


def test_a_record_tells_its_rows() -> None:
    assert StreamRecord(BATCH).num_rows == 3


@pytest.mark.parametrize(
    "value", [StreamRecord(BATCH, 5, TRACE), Data(StreamRecord(BATCH)), Barrier(7), Watermark(1_700_000_000_000), TRACE]
)
def test_values_are_frozen_and_picklable(value: Any) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, None)


def test_elements_are_told_apart_by_their_class() -> None:
    elements: list[StreamElement] = [Data(StreamRecord(BATCH)), Barrier(0), Watermark(5)]
    words = []
    for element in elements:
        match element:
            case Data(record):
                words.append(f"data {record.num_rows}")
            case Barrier(epoch):
                words.append(f"barrier {epoch}")
            case Watermark(timestamp_ms):
                words.append(f"watermark {timestamp_ms}")
    assert words == ["data 3", "barrier 0", "watermark 5"]


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        (ReadLimit(), True),
        (ReadLimit(max_files=2, max_bytes=20, max_rows=200), True),
        (ReadLimit(max_files=1), False),
        (ReadLimit(max_bytes=19), False),
        (ReadLimit(max_files=2, max_bytes=20, max_rows=199), False),
    ],
)
def test_a_limit_allows_what_keeps_within_every_bound(limit: ReadLimit, allowed: bool) -> None:
    assert limit.allows(files=2, num_bytes=20, rows=200) is allowed


def test_the_core_imports_neither_pytest_nor_spark_nor_the_suites() -> None:
    code = (
        "import sys, volley_core\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in ('pytest', '_pytest', 'pyspark', 'boto3', 'obstore')]\n"
        "bad += [m for m in sys.modules if m.startswith('volley_core.conformance')]\n"
        "sys.exit(', '.join(bad) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
