"""Text formats in which a line is a record: cut into ranges of lines, read in blocks, and searched for a bad one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

from volley_connectors.decoders.streams import Compression, codec_of, decompressed
from volley_core import BadRecord, DecodeError

ByteRange: TypeAlias = tuple[int, int]
"""Where a piece of a text begins and ends. A line belongs to the piece in which it begins."""

LONGEST_RECORD_BYTES = 128 * 1024 * 1024
"""A longer record is refused: of bytes that are no text of lines, a task would else hold as much as there is."""
_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")
_SCAN_BYTES = 64 * 1024


def cut(file: BinaryIO, target_bytes: int) -> Sequence[ByteRange]:
    """Ranges of about `target_bytes`; one if the text is compressed, or its characters are wider than a byte."""
    size = file.seek(0, 2)
    file.seek(0)
    if file.read(2) in _WIDE_BOMS or codec_of(file) is not None:
        return [(0, size)]
    count = max(1, round(size / target_bytes))
    bounds = [size * number // count for number in range(count + 1)]
    return list(pairwise(bounds))


def mark_bytes(file: BinaryIO) -> int:
    """How many bytes the byte order mark takes."""
    file.seek(0)
    return len(_BOM) if file.read(len(_BOM)) == _BOM else 0


class LineRange:
    """Reads the lines that begin within a range of bytes, as a file that cannot be sought."""

    def __init__(self, file: BinaryIO, bounds: ByteRange) -> None:
        self._file = file
        start, self._end = bounds
        self._position = start
        self._open = True
        if start:
            # The line that begins at `start` has its predecessor's end just before it.
            self._position = start - 1
            self._skip_line()
        file.seek(self._position)
        self._open = self._position < self._end
        # A file of a remote store reads ahead: not what another piece will read.
        expect_end = getattr(getattr(file, "raw", None), "expect_end", None)
        if expect_end is not None:
            expect_end(self._end)

    def read(self, size: int = -1) -> bytes:
        """Up to so many bytes; empty at the end of the last line that begins in the range."""
        if not self._open or size == 0:
            return b""
        data = self._file.read(size if size > 0 else _SCAN_BYTES)
        position, self._position = self._position, self._position + len(data)
        # The newline that ends the last line stands at `end` - 1 or later.
        found = data.find(b"\n", max(0, self._end - 1 - position)) if self._position >= self._end else -1
        self._open = bool(data) and found < 0
        return data if found < 0 else data[: found + 1]

    def _skip_line(self) -> None:
        begin = self._position
        self._file.seek(self._position)
        while data := self._file.read(_SCAN_BYTES):
            found = data.find(b"\n")
            if found >= 0:
                self._position += found + 1
                return
            self._position += len(data)
            _refuse_endless(self._position - begin)


def opened(file: BinaryIO, compression: Compression, bounds: ByteRange | None) -> Any:
    """The text to read: all of it, decompressed, or the lines of one piece. A compressed text is one piece."""
    stream = decompressed(file, compression)
    return LineRange(file, bounds) if bounds is not None and stream is file else stream


def blocks(stream: Any, block_bytes: int, last_end: Callable[[bytes], int] = len) -> Iterator[bytes]:
    """A text in pieces that end where a record does: at a line's end, or where `last_end` finds it in whole lines.

    The byte order mark is left out.
    """
    parts: list[bytes | memoryview] = []
    held = 0
    first = True
    while chunk := stream.read(block_bytes):
        if first:
            chunk, first = chunk.removeprefix(_BOM), False
        held += len(chunk)
        # Only a newline in the new chunk can be an end that was not there before.
        line_end = chunk.rfind(b"\n") + 1
        if not line_end:
            _refuse_endless(held)
            parts.append(chunk)
            continue
        # Blocks are big: nothing is copied twice.
        view = memoryview(chunk)
        text = b"".join((*parts, view[:line_end]))
        parts = [view[line_end:]]
        end = last_end(text)
        if end < len(text):
            parts.insert(0, text[end:])
        held = len(chunk) - line_end + len(text) - end
        if end:
            yield text[:end] if end < len(text) else text
        _refuse_endless(held)
    rest = b"".join(parts)
    if rest:
        yield rest


def _refuse_endless(length: int) -> None:
    if length > LONGEST_RECORD_BYTES:
        raise DecodeError(
            f"a record does not end within {LONGEST_RECORD_BYTES // (1024 * 1024)} MB. If these are lines at all, "
            "option 'quote', 'escape' or 'multiline' may be wrong"
        )


def refuse(record: BadRecord) -> None:
    """What plain `decode` does about a bad record."""
    raise DecodeError(record.error)


class RowCounter:
    """How many records of a text were seen, good and bad."""

    def __init__(self) -> None:
        self.rows = 0


def parse_tolerantly(
    records: Sequence[bytes],
    parse: Callable[[bytes, int], pa.RecordBatch],
    bad: Callable[[bytes, int, DecodeError], pa.RecordBatch | None],
    count: RowCounter,
) -> Iterator[pa.RecordBatch]:
    """The rows of `records` by `parse`, which takes a block and the number of rows before it.

    A block that it refuses is halved until the bad record stands alone. That one goes to `bad`, with its number, which
    may still make rows of it. So a bad record costs its neighbours nothing but a second look.
    """
    try:
        batch = parse(b"".join(records), count.rows)
    except DecodeError as error:
        if len(records) > 1:
            middle = len(records) // 2
            yield from parse_tolerantly(records[:middle], parse, bad, count)
            yield from parse_tolerantly(records[middle:], parse, bad, count)
            return
        count.rows += 1
        rescued = bad(records[0], count.rows, error)
        if rescued is not None:
            yield rescued
        return
    count.rows += batch.num_rows
    if batch.num_rows:
        yield batch
