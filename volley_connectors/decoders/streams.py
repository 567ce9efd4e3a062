"""Bytes on their way into a decoder: decompressed as needed, with foreign errors translated in one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa

from volley_core import DecodeError

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
_BZIP2_BLOCK = b"1AY&SY"


def decompressed(file: BinaryIO) -> Any:
    """The file's content. Compression is told by the first bytes: names lie, and a decoder does not see them."""
    file.seek(0)
    head = file.read(10)
    file.seek(0)
    codec = next((codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None)
    # Three letters are too few to trust: a text may begin with them.
    if head.startswith(b"BZh") and head[4:] == _BZIP2_BLOCK:
        codec = "bz2"
    return file if codec is None else pa.CompressedInputStream(pa.PythonFile(file, mode="r"), codec)


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
