"""Reads Avro records by datafusion, whose reader is written in Rust.

It loops for ever over a block whose records end before the block does, and gives fewer rows, without a word, of a file
that is cut. So it is never given a file: many blocks become one record, which holds an array of all their rows and a
text that must come out again at the end. An Avro array is written as blocks of a count and so many items, just as a
file is, so that this only needs other words around the same bytes.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from volley_connectors.decoders.avro_container import MAGIC, Block, varint
from volley_core import ConfigError, DecodeError

END = b"volley: the end."
"""Stands behind the rows. If it comes out again, every row before it was read as it was written."""

_MOST_BUFFERS = 1000
"""How many may be written at once; 1024 on Linux."""


def enclosed(rows: Any) -> dict[str, Any]:
    """The schema of many rows as one record."""
    end = {"type": "fixed", "name": "volley_end", "size": len(END)}
    fields = [{"name": "rows", "type": {"type": "array", "items": rows}}, {"name": "end", "type": end}]
    return {"type": "record", "name": "volley_rows", "fields": fields}


def enclose(blocks: Sequence[Block]) -> list[bytes]:
    """Many blocks as one record, in parts."""
    parts: list[bytes] = []
    for count, data in blocks:
        parts += (varint(count), data)
    parts.append(b"\0" + END)
    return parts


class NativeReader:
    """Gives rows as Arrow batches, in the types that datafusion has for Avro's."""

    def __init__(self, rows: Any) -> None:
        """`rows`: the schema of a row, in words that datafusion reads rightly."""
        try:
            import datafusion
        except ImportError as error:
            raise ConfigError(
                "Format 'avro' needs the package datafusion. Run: pip install 'volley-connectors[file-formats]'"
            ) from error
        config = datafusion.SessionConfig().with_target_partitions(1).with_batch_size(1)
        self._session = datafusion.SessionContext(config)
        schema = json.dumps(enclosed(rows)).encode()
        key = b"avro.schema"
        self._header = MAGIC + varint(1) + varint(len(key)) + key + varint(len(schema)) + schema + b"\0" + END

    def read(self, blocks: Sequence[Block]) -> pa.RecordBatch:
        parts = enclose(blocks)
        with _scratch_file() as (number, path):
            _write(number, [self._header, varint(1), varint(sum(map(len, parts))), *parts, END])
            found = self._first_batch(path)
        rows = found.column("rows")
        if found.column("end")[0].as_py() != END or len(rows.values) != sum(count for count, _ in blocks):
            raise DecodeError("not valid Avro: a block holds more or less than its records")
        return pa.RecordBatch.from_struct_array(rows.values)

    def _first_batch(self, path: str) -> pa.RecordBatch:
        try:
            stream = self._session.read_avro(path, file_extension="").execute_stream()
            return next(iter(stream)).to_pyarrow()
        # datafusion raises nothing more precise.
        except Exception as error:
            raise DecodeError(f"not valid Avro: {str(error).splitlines()[0]}") from error


@contextmanager
def _scratch_file() -> Iterator[tuple[int, str]]:
    """A file in memory where the system has such; datafusion reads by path alone."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("volley-avro")
        try:
            yield number, f"/proc/self/fd/{number}"
        finally:
            os.close(number)
    else:
        with tempfile.NamedTemporaryFile() as file:
            yield file.fileno(), file.name


def _write(number: int, parts: list[bytes]) -> None:
    for first in range(0, len(parts), _MOST_BUFFERS):
        rest = parts[first : first + _MOST_BUFFERS]
        written = os.writev(number, rest)
        if written != sum(map(len, rest)):
            left = memoryview(b"".join(rest))[written:]
            while left:
                left = left[os.write(number, left) :]
