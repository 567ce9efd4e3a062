"""Bytes on their way into a decoder: decompressed as needed, with foreign errors translated in one place."""

from __future__ import annotations

import codecs
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
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
        return _Decompressed(file, lzma.LZMADecompressor, lzma.LZMAError)
    if codec == "gzip" and (igzip := _igzip()) is not None:
        return _Decompressed(file, partial(igzip.IgzipDecompressor, flag=igzip.DECOMP_GZIP), igzip.IsalError)
    if codec == "snappy":
        return FramedSnappy(file)
    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), codec)


def _igzip() -> Any:
    """The fastest reader of gzip, of the extra file-formats. Without it Arrow's takes twice the time."""
    try:
        from isal import igzip_lib
    except ImportError:
        return None
    return igzip_lib


class _Decompressed:
    """A file through a decompressor of one stream, stream after stream: gzip and xz files may hold several."""

    # Arrow asks; whoever opened the file closes it.
    closed = False

    def __init__(self, file: BinaryIO, make: Callable[[], Any], error: type[Exception]) -> None:
        self._file = file
        self._make = make
        self._error = error
        self._stream: Any = None

    def read(self, size: int = -1) -> bytes:
        """So many bytes; fewer only at the end."""
        parts: list[bytes] = []
        missing = size
        while missing and (data := self._some(missing)):
            parts.append(data)
            missing -= len(data) if size >= 0 else 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, most: int) -> bytes:
        while True:
            chunk = b""
            if self._stream is None or self._stream.eof:
                chunk = self._next_stream()
                if not chunk:
                    return b""
                self._stream = self._make()
            elif self._stream.needs_input:
                chunk = self._file.read(_READ_BYTES)
                if not chunk:
                    raise DecodeError("the compressed data ends too early")
            try:
                data = self._stream.decompress(chunk, most)
            except self._error as error:
                raise DecodeError(f"the compressed data is damaged: {error}") from error
            if data:
                return bytes(data)

    def _next_stream(self) -> bytes:
        """Bytes that the next stream begins with; empty at the end. Zeros between streams are padding."""
        rest = b"" if self._stream is None else self._stream.unused_data.lstrip(b"\0")
        while not rest:
            chunk = self._file.read(_READ_BYTES)
            if not chunk:
                return b""
            rest = chunk if self._stream is None else chunk.lstrip(b"\0")
        return rest


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
    except (pa.ArrowException, UnicodeError) as error:
        raise DecodeError(f"not valid {kind}: {error}") from error
    except OSError as error:
        # Arrow reports a broken compressed stream as an OSError without a number; real input errors have one.
        if error.errno is not None:
            raise
        raise DecodeError(f"not valid {kind}: {error}") from error
