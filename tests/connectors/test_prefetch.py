"""Objects of a split are opened ahead, and nobody notices but by the time it takes."""

from __future__ import annotations

import io
import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from tests.connectors.conftest import Store
from volley_connectors.blob.config import BlobSourceConfig
from volley_connectors.blob.formats import Formats
from volley_connectors.blob.layout import Layout
from volley_connectors.blob.prefetch import Prefetch
from volley_connectors.blob.reading import SplitReading
from volley_connectors.blob.splits import BlobSplit, Portion
from volley_core import BlobNotFoundError, BlobRef, TransientError

MB = 1024 * 1024


class Slow(Store):
    """A store that takes its time, and knows which of its files are open and how much it was asked for at once."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.broken: dict[str, Exception] = {}
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.files: list[BinaryIO] = []

    def open(self, ref: BlobRef) -> BinaryIO:
        with self.lock:
            self.asked.append(ref.uri)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.seconds)
        with self.lock:
            self.at_once -= 1
            if ref.uri in self.broken:
                raise self.broken[ref.uri]
            self.files.append(super().open(ref))
            return self.files[-1]


@pytest.fixture
def store() -> Iterator[Slow]:
    store = Slow()
    yield store
    assert all(file.closed for file in store.files)
    assert [
        thread.name for thread in threading.enumerate() if thread.name.startswith(("volley-ranges", "volley-prefetch"))
    ] == []


def reading(store: Slow, refs: list[BlobRef], **options: Any) -> Iterator[list[int]]:
    config = BlobSourceConfig(schema="id bigint", delivery="at-least-once", **options)
    layout = Layout(config, "mem://b/")
    task = SplitReading("test", config, store, Formats("json", {}), layout, None, None)
    split = BlobSplit(tuple(map(Portion, refs)), pa.schema([("id", pa.int64())]))
    return (record.batch.column(0).to_pylist() for record in task.records(split))


def test_waiting_for_objects_overlaps_and_rows_keep_their_order(store: Slow) -> None:
    refs = [store.put(f"mem://b/{number}", number) for number in range(40)]
    store.seconds = 0.05
    began = time.monotonic()
    assert list(itertools.chain(*reading(store, refs))) == list(range(40))
    assert time.monotonic() - began < 1.5, "one after the other takes 2 s"
    assert store.most_at_once == 8
    assert sorted(store.asked) == sorted(ref.uri for ref in refs), "each is asked for once"


def test_objects_ahead_are_bounded_in_number_and_in_bytes(store: Slow) -> None:
    small = [store.put(f"mem://b/{number}", number) for number in range(40)]
    rows = reading(store, small)
    next(rows)
    time.sleep(0.1)
    assert len(store.asked) == 17
    rows.close()  # type: ignore[attr-defined]

    store.asked.clear()
    big = [store.put(f"mem://b/{number}", data=b"\n" * (10 * MB)) for number in range(10)]
    with Prefetch(store, big) as files:
        files.open(0).close()
        time.sleep(0.1)
        assert len(store.asked) == 4


def test_a_huge_object_is_opened_but_not_read_ahead(store: Slow) -> None:
    refs = [store.put(f"mem://b/{number}", data=b"\n" * (17 * MB)) for number in range(2)]
    with Prefetch(store, refs) as files:
        files.open(0).close()
        second = files.open(1)
        assert second in store.files
        second.close()


def test_an_object_that_is_larger_than_announced_is_not_read_whole(store: Slow) -> None:
    ref = store.put("mem://b/a", data=b"x" * MB)
    liar = BlobRef(ref.uri, 10, ref.version)
    with Prefetch(store, [liar, liar]) as files, files.open(0) as file:
        assert not isinstance(file, io.BytesIO) or file in store.files
        assert len(file.read()) == MB


def test_an_error_is_raised_at_its_object_and_only_if_that_is_reached(store: Slow) -> None:
    refs = [store.put(f"mem://b/{number}", number) for number in range(6)]
    store.broken = {"mem://b/2": TransientError("busy"), "mem://b/4": BlobNotFoundError("gone")}
    rows = reading(store, refs)
    assert (next(rows), next(rows)) == ([0], [1])
    with pytest.raises(TransientError, match="busy"):
        next(rows)
    del store.broken["mem://b/2"]
    assert list(itertools.chain(*reading(store, refs, on_missing_file="skip"))) == [0, 1, 2, 3, 5]


def test_leaving_early_closes_every_file_and_ends_every_thread(store: Slow) -> None:
    refs = [store.put(f"mem://b/{number}", number) for number in range(40)]
    store.seconds = 0.02
    rows = reading(store, refs)
    assert next(rows) == [0]
    rows.close()  # type: ignore[attr-defined]
    # What else must hold, the fixture checks.
    assert len(store.asked) < 40


def test_an_object_that_is_never_opened_is_let_go_of(store: Slow) -> None:
    refs = [store.put(f"mem://b/{number}", data=b"\n" * (17 * MB)) for number in range(4)]
    with Prefetch(store, refs) as files:
        files.open(0).close()
        files.open(3).close()
        time.sleep(0.1)
        assert all(file.closed for file in store.files)
