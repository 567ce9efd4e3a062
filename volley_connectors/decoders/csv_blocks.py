"""Where a CSV's records begin and end, and what its header says."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.csv as pc

from volley_connectors.decoders import lines


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

    def values(self, block: bytes) -> list[str]:
        """The first record's values."""
        text = self.records(block)[0].decode()
        rows = csv.reader(
            [text],
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            doublequote=not self.escape,
            escapechar=self.escape or None,
        )
        return next(rows)

    def records(self, block: bytes) -> list[bytes]:
        """The records of a block, each with its line end, without comments."""
        found: list[bytes] = []
        open_quote = False
        for part in block.split(b"\n"):
            line = part + b"\n"
            if open_quote:
                found[-1] += line
            elif self.comment and part.startswith(self.comment.encode()):
                continue
            elif part.strip(b"\r"):
                found.append(line)
            else:
                continue
            open_quote = self.multiline and self._is_open(found[-1])
        return found

    def last_end(self, text: bytes) -> int:
        """Where the last whole record of a text that begins with a record ends."""
        end = lines.last_line_end(text)
        while self.multiline and end and self._is_open(text[:end]):
            end = text.rfind(b"\n", 0, end - 1) + 1
        return end

    def _is_open(self, text: bytes) -> bool:
        quote = self.quote.encode()
        if self.escape and self.escape != self.quote:
            text = text.replace(self.escape.encode() * 2, b"").replace(self.escape.encode() + quote, b"")
        return bool(quote) and text.count(quote) % 2 == 1


class CsvBlocks:
    """The records of a text in blocks, and the names of its columns if it tells them."""

    def __init__(
        self, stream: Any, dialect: CsvDialect, block_bytes: int, *, header: bool, names: list[str] | None = None
    ) -> None:
        self._dialect = dialect
        self._found = self._blocks(stream, block_bytes)
        self._first: bytes | None = None
        self.names = names
        if header:
            self._read_header()

    def __iter__(self) -> Iterator[bytes]:
        if self._first:
            yield self._first
        yield from self._found

    def _blocks(self, stream: Any, block_bytes: int) -> Iterator[bytes]:
        for block in lines.blocks(stream, block_bytes, self._dialect.last_end):
            found = b"".join(self._dialect.records(block)) if self._dialect.comment else block
            if found.strip():
                yield found

    def _read_header(self) -> None:
        block = next(self._found, None)
        if block is None:
            return
        self.names = self._dialect.values(block)
        header = self._dialect.records(block)[0]
        rest = block[block.index(header.rstrip(b"\n")) + len(header) :]
        self._first = rest if rest.strip() else None
