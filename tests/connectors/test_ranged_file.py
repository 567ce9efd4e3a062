"""A file over ranged requests: the right bytes, few requests, bounded memory, one version."""

from __future__ import annotations

import io
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from volley_connectors.blob.ranged_file import MOST_AHEAD, Part, open_ranged
from volley_connectors.decoders.lines import LineRange
from volley_core import BlobChangedError, BlobRef, TransientError

KB, MB = 1024, 1024 * 1024


class Remote:
    """An object behind ranged requests."""

    def __init__(self, data: bytes, seconds: float = 0.0) -> None:
        self.data = data
        self.version = "v1"
        self.seconds = seconds
        self.ranges: list[tuple[int, int]] = []
        self.versions: list[str] = []
        self.fails_from: int | None = None
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    def __call__(self, start: int, length: int, version: str) -> Part:
        with self.lock:
            self.ranges.append((start, start + length))
            self.versions.append(version)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.seconds)
        with self.lock:
            self.at_once -= 1
        if self.fails_from is not None and start >= self.fails_from:
            raise TransientError("busy")
        return Part(memoryview(self.data)[start : start + length], len(self.data), self.version)

    def open(self, block_bytes: int = MB, known: bool = True, version: str = "") -> BinaryIO:
        return open_ranged(self, BlobRef("mem://a", len(self.data) if known else 0, version), block_bytes)

    @property
    def fetched_bytes(self) -> int:
        return sum(min(end, len(self.data)) - start for start, end in self.ranges)


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("volley-ranges")] == []


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("size", [0, 1, 300 * KB, MB, MB + 1, 7 * MB])
@pytest.mark.parametrize("known", [True, False])
def test_any_access_gives_the_right_bytes(size: int, known: bool) -> None:
    remote = Remote(noise(size))
    chance, model = random.Random(1), io.BytesIO(remote.data)
    with remote.open(known=known) as file:
        assert file.read() == remote.data
        for _ in range(300):
            if chance.random() < 0.4:
                place = chance.randrange(size + 10)
                assert file.seek(place) == model.seek(place)
            length = chance.choice([1, 100, 70 * KB, 400 * KB, 3 * MB])
            assert file.read(length) == model.read(length)
            assert file.tell() == model.tell()
        assert (file.seek(0), b"".join(file)) == (0, remote.data)


@pytest.mark.parametrize("known", [True, False])
def test_an_object_within_a_block_costs_one_request(known: bool) -> None:
    sink = io.BytesIO()
    table = pa.table({"id": list(range(100_000))})
    pq.write_table(table, sink)
    remote = Remote(sink.getvalue())
    with remote.open(known=known) as file:
        assert pq.read_table(file).equals(table)
    assert remote.ranges == [(0, MB)]


@pytest.mark.parametrize("step", [-1, 4 * MB, 64 * KB])
def test_reading_on_fetches_blocks_in_parallel_and_none_twice(step: int) -> None:
    remote = Remote(noise(20 * MB + 5), seconds=0.03)
    with remote.open() as file:
        data = file.read() if step < 0 else b"".join(iter(lambda: file.read(step), b""))
    assert data == remote.data
    assert remote.fetched_bytes == len(data)
    assert len(remote.ranges) <= 23
    assert remote.most_at_once == MOST_AHEAD + 1


def test_a_reader_that_stands_still_makes_the_file_hold_a_few_blocks_only() -> None:
    remote = Remote(noise(40 * MB))
    with remote.open() as file:
        file.read(10 * MB)
        time.sleep(0.1)
        assert remote.fetched_bytes <= (10 + MOST_AHEAD + 2) * MB
        assert len(file.raw._segments) <= MOST_AHEAD + 1  # type: ignore[attr-defined]


def test_a_look_at_a_big_object_fetches_little() -> None:
    remote = Remote(noise(40 * MB))
    with remote.open(8 * MB) as file:
        assert file.seek(0, io.SEEK_END) == 40 * MB
        for place in (0, 30 * MB, 40 * MB - 100, 20 * MB):
            file.seek(place)
            assert file.read(100) == remote.data[place : place + 100]
    assert remote.fetched_bytes <= 4 * 256 * KB


def test_a_big_read_after_a_jump_fetches_what_it_asks_for() -> None:
    remote = Remote(noise(40 * MB))
    with remote.open() as file:
        file.seek(10 * MB)
        assert file.read(6 * MB) == remote.data[10 * MB : 16 * MB]
        assert remote.fetched_bytes <= 6 * MB + 2 * 256 * KB


def test_the_end_of_a_piece_ends_reading_ahead() -> None:
    remote = Remote(b"0123456789abcde\n" * (2 * MB))
    with remote.open() as file:
        lines = LineRange(file, (10 * MB + 3, 14 * MB))
        data = b"".join(iter(lambda: lines.read(64 * KB), b""))
    assert len(data) == 4 * MB - 16
    assert remote.fetched_bytes <= 4 * MB + 4 * 256 * KB


def test_what_was_asked_for_ahead_raises_only_where_it_is_read() -> None:
    remote = Remote(noise(8 * MB))
    remote.fails_from = 4 * MB
    got = b""
    with remote.open() as file:
        with suppress(TransientError):
            while chunk := file.read(64 * KB):
                got += chunk
    assert len(got) == min(start for start, _ in remote.ranges if start >= 4 * MB)
    assert remote.data.startswith(got)


def test_an_error_of_the_first_request_is_raised_at_once() -> None:
    remote = Remote(b"x")
    remote.fails_from = 0
    with pytest.raises(TransientError, match="busy"):
        remote.open()


def test_every_range_is_of_the_version_that_the_first_answer_was_of() -> None:
    remote = Remote(noise(4 * MB))
    with remote.open() as file:
        file.read(2 * MB)
        assert set(remote.versions[1:]) == {"v1"}
        remote.version = "v2"
        with pytest.raises(BlobChangedError, match="mem://a"):
            file.read()
    assert remote.versions[0] == ""
    remote.versions.clear()
    with remote.open(version="v2") as file:
        file.read()
    assert set(remote.versions) == {"v2"}


def test_an_answer_that_is_too_short_is_an_error_not_a_short_file() -> None:
    remote = Remote(noise(4 * MB))
    with remote.open() as file:
        answers = Part(b"", 4 * MB, "v1")
        file.raw._fetch = lambda *asked: answers  # type: ignore[attr-defined]
        with pytest.raises(TransientError, match="0 of"):
            file.read()


def test_bytes_are_passed_on_without_a_copy() -> None:
    remote = Remote(noise(MB))
    with remote.open() as file:
        data: Any = file.raw._some(MB)  # type: ignore[attr-defined]
        assert data.obj is remote.data


def test_closing_waits_for_what_is_under_way() -> None:
    remote = Remote(noise(20 * MB), seconds=0.05)
    file = remote.open()
    file.read(3 * MB)
    file.close()
    assert remote.at_once == 0
    with pytest.raises(ValueError, match="closed"):
        file.read(1)
