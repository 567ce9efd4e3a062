"""The frame of an Avro file: its header, and the blocks of records with a marker after each.

Blocks are found, checked and decompressed here, whoever reads the records in them.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

from volley_connectors.decoders.streams import decompressed
from volley_core import DecodeError

inflating: ModuleType = zlib
with suppress(ImportError):
    from isal import isal_zlib

    # Twice as fast as zlib, and of the same interface but for its error.
    inflating = isal_zlib

ByteRange: TypeAlias = tuple[int, int]
"""Where a piece of a file begins and ends. A block belongs to the piece in which the marker before it begins."""

Block: TypeAlias = tuple[int, bytes]
"""The number of its records, and their bytes."""

MAGIC = b"Obj\x01"
MARKER_BYTES = 16
_FIRST_READ_BYTES = 16 * 1024
_MOST_READ_BYTES = 512 * 1024
_MOST_VARINT_BYTES = 10
_BROKEN: tuple[type[Exception], ...] = (
    inflating.error,
    lzma.LZMAError,
    ValueError,
    EOFError,
    IndexError,
    OSError,
    pa.ArrowException,
)
"""What decompressors raise."""


class Container:
    """One file, or one piece of it, opened: the header is read, the blocks are not."""

    def __init__(self, file: BinaryIO, bounds: ByteRange | None = None) -> None:
        stream = decompressed(file)
        source = _Bytes(stream)
        if source.take(len(MAGIC), "the header") != MAGIC:
            raise DecodeError("not valid Avro: the file does not begin as an Avro file does")
        header = _header(source)
        self._marker = source.take(MARKER_BYTES, "the header")
        self.schema: Any = _json(header.get("avro.schema", b""))
        codec = header.get("avro.codec", b"null").decode()
        if codec not in _CODECS:
            raise DecodeError(f"the Avro file is compressed with {codec!r}; known are {', '.join(_CODECS)}")
        self._decompress = _CODECS[codec]
        self._end = None
        if bounds is not None and stream is file:
            first, self._end = bounds
            if first > source.position - MARKER_BYTES:
                file.seek(first)
                source = _Bytes(file, first)
                source.skip_behind(self._marker)
        self._source = source

    def blocks(self) -> Iterator[Block]:
        """Raises DecodeError at the first block that is not as it was written."""
        source = self._source
        while not source.at_end() and (self._end is None or source.position - MARKER_BYTES < self._end):
            start = source.position
            count, size = source.long(), source.long()
            if count < 0 or size < 0:
                raise DecodeError(f"not valid Avro: the block at byte {start} has a negative size")
            data = source.take(size, f"the block at byte {start}")
            if source.take(MARKER_BYTES, f"the block at byte {start}") != self._marker:
                raise DecodeError(
                    f"not valid Avro: the block at byte {start} is not followed by the file's sync marker"
                )
            try:
                yield count, self._decompress(data)
            except _BROKEN as error:
                raise DecodeError(f"not valid Avro: the block at byte {start} is corrupt: {error}") from error


def varint(number: int) -> bytes:
    """A whole number as Avro writes it."""
    number = (number << 1) ^ (number >> 63)
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _header(source: _Bytes) -> dict[str, bytes]:
    header: dict[str, bytes] = {}
    while count := source.long():
        if count < 0:
            source.long()
        for _ in range(abs(count)):
            key = source.take(source.long(), "the header")
            header[key.decode()] = source.take(source.long(), "the header")
    return header


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DecodeError(f"not valid Avro: the header holds no schema ({error})") from error


class _Bytes:
    """Reads a stream in large parts, and gives it out in small ones."""

    def __init__(self, stream: Any, position: int = 0) -> None:
        self._stream = stream
        self._data = b""
        self._at = 0
        self._read_bytes = _FIRST_READ_BYTES
        self._before = position
        """Where in the file `_data` begins."""

    @property
    def position(self) -> int:
        return self._before + self._at

    def at_end(self) -> bool:
        return self._at == len(self._data) and not self._fill(1)

    def take(self, size: int, what: str) -> bytes:
        first, end = self._at, self._at + size
        if size < 0 or (end > len(self._data) and not self._fill(size)):
            raise DecodeError(f"not valid Avro: {what} ends too early")
        if self._at != first:
            first, end = self._at, self._at + size
        self._at = end
        return self._data[first:end]

    def long(self) -> int:
        number = 0
        for index in range(_MOST_VARINT_BYTES):
            if self._at == len(self._data) and not self._fill(1):
                raise DecodeError("not valid Avro: the file ends too early")
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise DecodeError("not valid Avro: a number is longer than numbers are")

    def skip_behind(self, marker: bytes) -> None:
        """Go on after the next marker, or at the end."""
        while (found := self._data.find(marker, self._at)) < 0:
            self._at = max(self._at, len(self._data) - len(marker) + 1)
            if not self._fill(len(self._data) - self._at + 1):
                self._at = len(self._data)
                return
        self._at = found + len(marker)

    def _fill(self, size: int) -> bool:
        """Have so many bytes at hand, if the stream has them. A size that is a lie costs no memory."""
        parts = [self._data[self._at :]]
        have = len(parts[0])
        while have < size:
            part = self._stream.read(self._read_bytes)
            self._read_bytes = min(2 * self._read_bytes, _MOST_READ_BYTES)
            if not part:
                break
            parts.append(part)
            have += len(part)
        self._before += self._at
        self._data, self._at = b"".join(parts), 0
        return have >= size


def _deflate(data: bytes) -> bytes:
    return bytes(inflating.decompress(data, -zlib.MAX_WBITS))


def _snappy(data: bytes) -> bytes:
    size = shift = at = 0
    while True:
        byte = data[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    content, checksum = memoryview(data)[:-4], data[-4:]
    # Snappy makes of a byte at most 22; a size beyond that is a lie, and would be allocated.
    if size > 64 * len(data):
        raise ValueError("it claims to be larger than it can be")
    found: bytes = pa.decompress(content, size, "snappy", asbytes=True)
    if zlib.crc32(found) != int.from_bytes(checksum, "big"):
        raise ValueError("its checksum is wrong")
    return found


def _zstandard(data: bytes) -> bytes:
    return bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read())


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
}
