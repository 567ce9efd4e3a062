"""Framed Snappy: chunks of compressed or plain bytes, each with a type, a length and a checksum."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import pyarrow as pa

from volley_core import ConfigError, DecodeError

_COMPRESSED, _PLAIN, _PADDING, _IDENTIFIER = 0x00, 0x01, 0xFE, 0xFF
_LARGEST_CHUNK = 65536
_CRC_BYTES = 4
_MASK_DELTA = 0xA282EAD8


class FramedSnappy:
    """A file's content, chunk by chunk. That whole chunks are missing at the end, the format does not tell."""

    # Arrow asks; whoever opened the file closes it.
    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._crc32c = _crc32c()
        self._codec = pa.Codec("snappy")
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Up to so many bytes; empty at the end."""
        parts, length = [self._rest], len(self._rest)
        while size < 0 or length < size:
            chunk = self._chunk()
            if chunk is None:
                break
            parts.append(chunk)
            length += len(chunk)
        data = b"".join(parts)
        end = len(data) if size < 0 else size
        self._rest = data[end:]
        return data[:end]

    def _chunk(self) -> bytes | None:
        """The next chunk's bytes; empty for one that holds none, None at the end."""
        head = self._file.read(4)
        if not head:
            return None
        kind, length = head[0], int.from_bytes(head[1:4], "little")
        body = self._file.read(length)
        if len(head) < 4 or len(body) < length:
            raise DecodeError("the framed Snappy data ends too early")
        if kind == _COMPRESSED:
            return self._checked(self._decompress(body[_CRC_BYTES:]), body)
        if kind == _PLAIN:
            return self._checked(body[_CRC_BYTES:], body)
        if kind == _IDENTIFIER or 0x80 <= kind <= _PADDING:
            return b""
        raise DecodeError(f"not framed Snappy: a chunk of type {kind:#04x}")

    def _checked(self, data: bytes, body: bytes) -> bytes:
        crc = self._crc32c(data)
        # The format stores sums rotated and shifted, so that a sum over sums stays strong.
        masked = ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF
        if masked != int.from_bytes(body[:_CRC_BYTES], "little"):
            raise DecodeError("the framed Snappy data is damaged: a checksum differs")
        return data

    def _decompress(self, data: bytes) -> bytes:
        length = shift = 0
        for byte in data[:5]:
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if length > _LARGEST_CHUNK:
            raise DecodeError(f"not framed Snappy: a chunk of {length} bytes")
        try:
            return bytes(self._codec.decompress(data, decompressed_size=length, asbytes=True))
        except (OSError, pa.ArrowException) as error:
            raise DecodeError(f"not framed Snappy: {error}") from error


def _crc32c() -> Callable[[bytes], int]:
    try:
        from google_crc32c import value
    except ImportError as error:
        raise ConfigError(
            "Framed Snappy needs the package google-crc32c. Run: pip install 'volley-connectors[file-formats]'"
        ) from error
    found: Callable[[bytes], int] = value
    return found
