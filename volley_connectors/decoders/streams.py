"""Bytes on their way into a decoder: decompressed as needed, with foreign errors translated in one place."""

from __future__ import annotations

import codecs
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal, TypeAlias

import pyarrow as pa

from volley_connectors.decoders.snappy import FramedSnappy
from volley_core import DecodeError

Compression: TypeAlias = Literal["auto", "none", "gzip", "bz2", "zstd", "lz4", "snappy", "xz"]
_READ_BYTES = 256 * 1024
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xff\x06\x00\x00sNaPpY": "snappy",
    b"\xfd7zXZ\x00": "xz",
}
_BZIP2_BLOCK = b"1AY&SY"


def codec_of(file: BinaryIO) -> str | None:
    """How a file is compressed, told by its first bytes: names lie, and a decoder does not see them."""
    file.seek(0)
    head = file.read(10)
    file.seek(0)
    # Three letters are too few to trust: a text may begin with them.
    if head.startswith(b"BZh") and head[4:] == _BZIP2_BLOCK:
        return "bz2"
    return next((codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None)


def decompressed(file: BinaryIO, compression: Compression = "auto") -> Any:
    """The file's content. With `auto`, how it is compressed is told by its first bytes."""
    codec = codec_of(file) if compression == "auto" else compression
    file.seek(0)
    if codec in (None, "none"):
        return file
    if codec == "xz":
        return _Decompressed(file, lzma.LZMADecompressor)
    if codec == "snappy":
        return FramedSnappy(file)
    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), codec)


class _Decompressed:
    """A file through one of the standard library's decompressors, stream after stream."""

    def __init__(self, file: BinaryIO, make: Callable[[], Any]) -> None:
        self._file = file
        self._make = make
        self._stream = make()
        self._fresh = True

    def read(self, size: int = -1) -> bytes:
        """Up to so many bytes; empty at the end."""
        while True:
            if self._stream.eof:
                rest = self._stream.unused_data.lstrip(b"\0") or self._file.read(_READ_BYTES).lstrip(b"\0")
                if not rest:
                    return b""
                self._stream, self._fresh = self._make(), False
                data = self._stream.decompress(rest, size)
            elif self._stream.needs_input:
                chunk = self._file.read(_READ_BYTES)
                if not chunk:
                    if self._fresh:
                        return b""
                    raise DecodeError("the compressed data ends too early")
                self._fresh = False
                data = self._stream.decompress(chunk, size)
            else:
                data = self._stream.decompress(b"", size)
            if data:
                return bytes(data)


class Transcoded:
    """A text of any encoding as UTF-8."""

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def read(self, size: int = -1) -> bytes:
        """About so many bytes; empty at the end."""
        while True:
            data = self._stream.read(size)
            text = self._decoder.decode(bytes(data), final=not data)
            if text or not data:
                return text.encode()


@contextmanager
def decoding(kind: str) -> Iterator[None]:
    """Turn what Arrow raises about bad bytes into DecodeError; what the store raises goes through as it is."""
    try:
        yield
    except (pa.ArrowException, UnicodeError, lzma.LZMAError) as error:
        raise DecodeError(f"not valid {kind}: {error}") from error
    except OSError as error:
        # Arrow reports a broken compressed stream as an OSError without a number; real input errors have one.
        if error.errno is not None:
            raise
        raise DecodeError(f"not valid {kind}: {error}") from error
