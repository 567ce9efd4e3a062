"""An object of a remote store as a file: read by ranges, ahead of whoever reads on, every range of the same version.

A file belongs to one reader. Its own threads, which fetch ahead, end with it.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias, cast

from volley_core import BlobChangedError, BlobRef, TransientError

MOST_AHEAD = 3
"""How many blocks beyond the one in use are under way or held, when a file is read from front to back."""
_FIRST_LOOK_BYTES = 256 * 1024
"""How much is asked for where little may be wanted: at the beginning of a big object, and after a jump."""
_BUFFER_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    """What a store answers to one ranged request."""

    data: Any
    """The bytes, as any object with a buffer: it is never copied whole."""
    size: int
    """Of the whole object."""
    version: str
    """Spelled as in `BlobRef.version`; empty if the store tells none."""


Fetch: TypeAlias = Callable[[int, int, str], Part]
"""Start, length, and the version to be read, or empty for the newest. Called from several threads.

The answer is shorter than asked for only where the object ends; of an empty object it is empty. Errors are ours.
"""


def open_ranged(fetch: Fetch, ref: BlobRef, block_bytes: int) -> BinaryIO:
    """The object as a buffered file. An object within one block costs one request, which is made at once."""
    return cast(BinaryIO, io.BufferedReader(RangedFile(fetch, ref, block_bytes), _BUFFER_BYTES))


class RangedFile(io.RawIOBase):
    """Holds a few blocks at most: the one in use and those that come next."""

    def __init__(self, fetch: Fetch, ref: BlobRef, block_bytes: int) -> None:
        super().__init__()
        self._fetch = fetch
        self._uri = ref.uri
        self._block_bytes = block_bytes
        self._pool: ThreadPoolExecutor | None = None
        self._segments: deque[_Segment] = deque()
        # The reader of a big object may want one piece of it.
        length = block_bytes if ref.size <= block_bytes else min(block_bytes, _FIRST_LOOK_BYTES)
        first = fetch(0, length, ref.version)
        self._size = self._until = first.size
        self._first_version = first.version
        # What follows must be of the same version, also where none was asked for.
        self._version = ref.version or first.version
        self._segments.append(_held(memoryview(first.data)))
        self._position = self._run_start = self._read_to = self._call_end = 0
        self._ahead = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._position = base + offset
        return self._position

    def expect_end(self, end: int) -> None:
        """Fetch nothing ahead that lies much beyond `end`. It can be read all the same."""
        self._until = min(self._size, end + _FIRST_LOOK_BYTES)

    def readinto(self, buffer: Any) -> int:
        data = self._some(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        # The inherited one asks for 8 KB at a time.
        return b"".join(iter(lambda: self._some(self._size - self._position), b""))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._segments.clear()
        super().close()

    def _some(self, wanted: int) -> memoryview:
        """One to `wanted` bytes from the position on, without a copy; none at the end."""
        wanted = min(wanted, self._size - self._position)
        if wanted <= 0:
            return memoryview(b"")
        self._look_ahead(wanted)
        segment = self._segment()
        offset = self._position - segment.start
        data = segment.data.result()[offset : offset + wanted]
        self._position = self._read_to = self._position + len(data)
        return data

    def _look_ahead(self, wanted: int) -> None:
        """Judge by what was read so far how many blocks are worth fetching ahead."""
        if self._position + wanted == self._call_end:
            # The rest of a read that a segment's end interrupted.
            return
        self._call_end = self._position + wanted
        if self._position != self._read_to:
            self._run_start = self._position
        run = self._position - self._run_start
        self._ahead = 0 if run < _FIRST_LOOK_BYTES else min(MOST_AHEAD, 1 + run // self._block_bytes)

    def _segment(self) -> _Segment:
        """The one at the position, with what follows under way."""
        segments, block = self._segments, self._block_bytes
        while segments and not segments[0].start <= self._position < segments[0].end:
            segments.popleft().data.cancel()
        if not segments:
            self._ask(self._position, block if self._ahead else self._call_end - self._position)
        while (end := segments[-1].end) < self._call_end and len(segments) <= MOST_AHEAD:
            self._ask(end, block if self._ahead else self._call_end - end)
        while (end := segments[-1].end) < self._until and len(segments) <= self._ahead:
            self._ask(end, min(block, self._until - end))
        return segments[0]

    def _ask(self, start: int, length: int) -> None:
        length = min(max(length, _FIRST_LOOK_BYTES), self._block_bytes, self._size - start)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(MOST_AHEAD + 1, "volley-ranges")
        self._segments.append(_Segment(start, start + length, self._pool.submit(self._get, start, length)))

    def _get(self, start: int, length: int) -> memoryview:
        part = self._fetch(start, length, self._version)
        if part.version != self._first_version:
            raise BlobChangedError(f"Reading {self._uri}: the object was overwritten while it was read")
        if len(part.data) != length:
            raise TransientError(
                f"Reading {self._uri}: the store gave {len(part.data)} of {length} bytes at {start}. "
                "Trying again later may help."
            )
        return memoryview(part.data)


@dataclass(frozen=True, slots=True)
class _Segment:
    start: int
    end: int
    data: Future[memoryview]


def _held(data: memoryview) -> _Segment:
    done: Future[memoryview] = Future()
    done.set_result(data)
    return _Segment(0, len(data), done)
