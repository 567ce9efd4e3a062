"""Opens a split's objects ahead of whoever decodes them, so that waiting for a store overlaps with work.

Threads of a task: they ask the reader at once, and end with the split, however it ends.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import BinaryIO, Self

from volley_core import BlobReader, BlobRef

_THREADS = 8
_MOST_OBJECTS = 16
_MOST_BYTES = 32 * 1024 * 1024
"""How much is held of objects that are not yet being decoded."""
_LARGEST_WHOLE_BYTES = 16 * 1024 * 1024
"""Bigger objects are only opened: their files read ahead by themselves, if they are of a remote store."""


class Prefetch:
    """The files of some objects, each opened before its turn. What goes wrong with one is raised at its turn."""

    def __init__(self, reader: BlobReader, blobs: Sequence[BlobRef]) -> None:
        self._reader = reader
        self._blobs = blobs
        self._begun = 0
        self._ahead: dict[int, Future[BinaryIO]] = {}
        # With one object there is nothing to overlap.
        self._pool = ThreadPoolExecutor(_THREADS, "volley-prefetch") if len(blobs) > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._discard_before(len(self._blobs))
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def open(self, index: int) -> BinaryIO:
        """The file of one object, which the caller closes. Indexes rise; those that are left out are let go of."""
        if self._pool is None:
            return self._reader.open(self._blobs[index])
        self._discard_before(index)
        self._begun = max(self._begun, index)
        if index not in self._ahead:
            self._begin(self._pool)
        file = self._ahead.pop(index)
        while self._has_room():
            self._begin(self._pool)
        return file.result()

    def _has_room(self) -> bool:
        if self._begun == len(self._blobs) or len(self._ahead) >= _MOST_OBJECTS:
            return False
        return sum(_held_bytes(self._blobs[index]) for index in (*self._ahead, self._begun)) <= _MOST_BYTES

    def _begin(self, pool: ThreadPoolExecutor) -> None:
        self._ahead[self._begun] = pool.submit(self._fetch, self._blobs[self._begun])
        self._begun += 1

    def _fetch(self, blob: BlobRef) -> BinaryIO:
        file = self._reader.open(blob)
        if not 0 < blob.size <= _LARGEST_WHOLE_BYTES:
            return file
        try:
            data = file.read(blob.size + 1)
            if len(data) > blob.size:
                # It is another version than the one that was announced, and may be of any size.
                file.seek(0)
                return file
        except BaseException:
            file.close()
            raise
        file.close()
        return io.BytesIO(data)

    def _discard_before(self, index: int) -> None:
        for unused in [number for number in self._ahead if number < index]:
            file = self._ahead.pop(unused)
            if not file.cancel():
                file.add_done_callback(_close)


def _held_bytes(blob: BlobRef) -> int:
    # A size of zero may mean that nobody knows it.
    return min(blob.size or _LARGEST_WHOLE_BYTES, _LARGEST_WHOLE_BYTES)


def _close(file: Future[BinaryIO]) -> None:
    if file.exception() is None:
        file.result().close()
