"""Where a CSV's records begin and end, and what its header says."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow.csv as pc

from volley_connectors.decoders import lines
from volley_core import DecodeError

_SPACES = re.compile(rb"\n[ \t]+\r?(?:\n|$)")


@dataclass(frozen=True)
class CsvDialect:
    """How values are separated and quoted."""

    delimiter: str
    quote: str
    escape: str
    comment: str
    multiline: bool

    def parse_options(self) -> pc.ParseOptions:
        return pc.ParseOptions(
            delimiter=self.delimiter,
            quote_char=self.quote or False,
            escape_char=self.escape or False,
            newlines_in_values=self.multiline,
        )

    def values(self, record: bytes) -> list[str]:
        """A record's values, as Python's parser sees them."""
        try:
            return next(self._reader(record.decode(), strict=False))
        except csv.Error as error:
            raise DecodeError(f"not valid CSV: {error}") from error

    def record(self, values: list[str]) -> bytes:
        """Values as a record, whose first is never taken for a comment."""
        text = io.StringIO()
        csv.writer(
            text,
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            quoting=csv.QUOTE_ALL if self.quote else csv.QUOTE_NONE,
            doublequote=not self.escape,
            escapechar=self.escape or None,
            lineterminator="\n",
        ).writerow(values)
        return text.getvalue().encode()

    def records(self, block: bytes) -> list[bytes]:
        """The records of a block, each with its line end; no comments, no blank lines."""
        return [block[begin:end] for begin, end in self.spans(block)]

    def spans(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Where the records of a block begin and end."""
        comment = self.comment.encode()
        begin = 0
        while begin < len(block):
            end = _line_end(block, begin)
            if block[begin:end].strip() and not (comment and block.startswith(comment, begin)):
                while self.multiline and end < len(block) and self.is_open(block[begin:end]):
                    end = _line_end(block, end)
                yield begin, end
            begin = end

    def without_gaps(self, block: bytes) -> bytes:
        """A block without comments and lines of white space. Empty lines may stay: Arrow skips them."""
        if self.comment or block[:1].isspace() or _SPACES.search(block):
            return b"".join(self.records(block))
        return block

    def last_end(self, text: bytes) -> int:
        """Where the last whole record of whole lines that begin with a record ends."""
        end = len(text)
        while self.multiline and end and self.is_open(text[:end]):
            end = text.rfind(b"\n", 0, end - 1) + 1
        return end

    def is_open(self, text: bytes) -> bool:
        """Whether a text that begins with a record ends inside quotes."""
        quote = self.quote.encode()
        if self.escape and self.escape != self.quote:
            text = text.replace(self.escape.encode() * 2, b"").replace(self.escape.encode() + quote, b"")
        if not quote or text.count(quote) % 2 == 0:
            return False
        # A quote within a value that has none around it is a character like others.
        try:
            for _ in self._reader(text.decode(errors="replace"), strict=True):
                pass
        except csv.Error as error:
            return "unexpected end" in str(error)
        return False

    def _reader(self, text: str, *, strict: bool) -> Iterator[list[str]]:
        return csv.reader(
            io.StringIO(text, newline="") if self.multiline else [line.rstrip("\r") for line in text.split("\n")],
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            doublequote=not self.escape,
            escapechar=self.escape or None,
            strict=strict,
        )


class CsvBlocks:
    """The records of a text in blocks, and the names of its columns if it tells them."""

    def __init__(
        self, stream: Any, dialect: CsvDialect, block_bytes: int, *, header: bool, names: list[str] | None = None
    ) -> None:
        self._dialect = dialect
        self._blocks = lines.blocks(stream, block_bytes, dialect.last_end)
        self._first = b""
        self.names = names
        self.header_end = 0
        """How many bytes of the text, without its byte order mark, end with the header."""
        if header:
            self._read_header()

    def __iter__(self) -> Iterator[bytes]:
        for block in chain([self._first], self._blocks):
            found = self._dialect.without_gaps(block)
            if found.strip():
                yield found

    def _read_header(self) -> None:
        for block in self._blocks:
            for begin, end in self._dialect.spans(block):
                self.names = self._dialect.values(block[begin:end])
                self.header_end += end
                self._first = block[end:]
                return
            self.header_end += len(block)


def _line_end(text: bytes, begin: int) -> int:
    end = text.find(b"\n", begin) + 1 or len(text)
    # A carriage return alone ends a line too, for Arrow and for Spark.
    lone = text.find(b"\r", begin, end) + 1
    return lone if lone and text[lone : lone + 1] != b"\n" else end
