"""Read one made-up object of a remote store in a task, and say how many rows it had and how much memory that took.

    python read_huge_object.py FORMAT SIZE_BYTES

FORMAT is a decoder's name, with `.gz` if the object is to be compressed.
"""

from __future__ import annotations

import gzip
import json
import resource
import sys
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from volley_connectors.blob.config import BlobSourceConfig
from volley_connectors.blob.formats import Formats
from volley_connectors.blob.layout import Layout
from volley_connectors.blob.ranged_file import Part, open_ranged
from volley_connectors.blob.reading import SplitReading
from volley_connectors.blob.splits import BlobSplit, Portion
from volley_core import BlobRef

MB = 1024 * 1024
LINE = {
    "text": b"x" * 1023 + b"\n",
    "json": b'{"id":1,"name":"%s"}\n' % (b"x" * 1004),
    "csv": b"1,%s\n" % (b"x" * 1021),
}
SCHEMA = {"text": "value string", "json": "id bigint, name string", "csv": "id bigint, name string"}


class Endless:
    """One object: a pattern again and again. Any range of it is a part of a pattern that is held twice over."""

    def __init__(self, pattern: bytes, size: int) -> None:
        self.width, self.size = len(pattern), size
        self.pattern = memoryview(pattern * (9 * MB // len(pattern) + 2))

    def open(self, ref: BlobRef) -> BinaryIO:
        return open_ranged(self.fetch, ref, 8 * MB)

    def fetch(self, start: int, length: int, version: str) -> Part:
        first = start % self.width
        # A copy, as a download is one.
        return Part(bytes(self.pattern[first : first + min(length, self.size - start)]), self.size, "v")

    def list(self, prefix: str) -> Iterator[BlobRef]:
        return iter(())

    def stat(self, ref: BlobRef) -> BlobRef:
        return ref


def main(name: str, size: int) -> None:
    kind = name.removesuffix(".gz")
    lines = LINE[kind] * (MB // len(LINE[kind]))
    pattern = gzip.compress(lines, 1) if name.endswith(".gz") else LINE[kind]
    whole = size // len(lines) * len(pattern) if name.endswith(".gz") else size // len(pattern) * len(pattern)
    reader = Endless(pattern, whole)
    options = {"header": False} if kind == "csv" else {}
    config = BlobSourceConfig(format=kind, schema=SCHEMA[kind], delivery="at-least-once")
    task = SplitReading("test", config, reader, Formats(kind, options), Layout(config, "mem://"), None, None)
    schema: pa.Schema = config.schema
    split = BlobSplit((Portion(BlobRef("mem://huge", whole, "v")),), schema)
    rows = sum(record.batch.num_rows for record in task.records(split))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"rows": rows, "peak_bytes": peak}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
