"""Comma-separated values, read block by block.

Arrow parses a block of whole records at once; a block that it refuses is halved until the bad record stands alone.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pc
from pydantic import Field, field_validator

from volley_connectors.decoders import lines
from volley_connectors.decoders.columns import plain
from volley_connectors.decoders.csv_blocks import CsvBlocks, CsvDialect
from volley_connectors.decoders.csv_rows import CsvParser
from volley_connectors.decoders.streams import Compression, Transcoded, decoding, decompressed
from volley_core import BadRecords, ByteSize, ConnectorConfig, DecodeError

_SAMPLE_BYTES = 8 * 1024 * 1024
_HEADER_BYTES = 64 * 1024


class CsvDecoderConfig(ConnectorConfig):
    """Options of the format `csv`."""

    EXAMPLE = {"delimiter": ";", "null_values": ["", "NULL"]}

    header: bool = Field(True, description="The first line names the columns. Without one they are taken in order.")
    delimiter: str = Field(",", min_length=1, max_length=1, description="The character between two values.")
    quote: str = Field('"', max_length=1, description="The character around a value; empty for none.")
    escape: str = Field("", max_length=1, description="The character before a quote inside a value; empty: doubled.")
    comment: str = Field("", max_length=1, description="Lines that begin with this character are left out.")
    null_values: list[str] = Field([""], description="Texts that mean null.")
    multiline: bool = Field(False, description="Quoted values may hold line ends.")
    encoding: str = Field("utf8", description="The text's encoding, as Python names it.")
    compression: Compression = Field("auto", description="How objects are compressed; auto: told by their first bytes.")
    block_bytes: ByteSize = Field(
        1024 * 1024,
        ge=1024,
        description="How much text is parsed at once; about one Arrow batch. A record longer than 128 MB is refused.",
    )

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, encoding: str) -> str:
        try:
            "".encode(encoding)
        except LookupError:
            raise ValueError("Python knows no such encoding") from None
        return encoding

    @field_validator("delimiter", "quote", "escape", "comment")
    @classmethod
    def _is_one_byte(cls, character: str) -> str:
        if not character.isascii():
            raise ValueError("must be an ASCII character")
        return character


class CsvDecoder:
    """CSV: separated values, plain or compressed. Columns are found by the names in the header."""

    Config = CsvDecoderConfig

    def __init__(self, config: CsvDecoderConfig, bounds: lines.ByteRange | None = None) -> None:
        self._config = config
        self._bounds = bounds

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        with decoding("CSV"):
            blocks = self._blocks(file, _SAMPLE_BYTES)
            block = next(iter(blocks), None)
            if block is None:
                return pa.schema([(name, pa.string()) for name in blocks.names or []])
            names = blocks.names or [f"_c{i}" for i in range(self._width(block))]
            table = pc.read_csv(
                io.BytesIO(block),
                pc.ReadOptions(use_threads=False, column_names=names, block_size=len(block) + 1),
                self._dialect.parse_options(),
                pc.ConvertOptions(null_values=self._config.null_values, strings_can_be_null=True),
            )
            return plain(table.schema)

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self.decode_tolerantly(file, schema, BadRecords(lines.refuse))

    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        for field in schema:
            if pa.types.is_nested(field.type):
                raise DecodeError(f"column {field.name!r}: CSV cannot hold values of type {field.type}")
        parser = None
        with decoding("CSV"):
            blocks = self._blocks(file, self._config.block_bytes)
            for block in blocks:
                if parser is None:
                    names = _named(blocks.names, schema) or _positions(schema, bad.extras, self._width(block))
                    parser = CsvParser(schema, bad, names, self._dialect, self._config.null_values)
                yield from parser.batches(block)

    def cut(self, file: BinaryIO, target_bytes: int) -> Sequence[lines.ByteRange]:
        config = self._config
        plain_text = config.compression in ("auto", "none") and _is_utf8(config.encoding)
        return lines.cut(file, target_bytes) if plain_text and not config.multiline else [(0, file.seek(0, 2))]

    def within(self, piece: lines.ByteRange) -> CsvDecoder:
        return CsvDecoder(self._config, (piece[0], piece[1]))

    def _width(self, block: bytes) -> int:
        begin, end = next(self._dialect.spans(block))
        options = pc.ReadOptions(use_threads=False, autogenerate_column_names=True)
        try:
            record = pc.read_csv(io.BytesIO(block[begin:end]), options, self._dialect.parse_options())
        except pa.ArrowInvalid:
            # A quote that is never closed.
            return len(self._dialect.values(block[begin:end]))
        return int(record.num_columns)

    @property
    def _dialect(self) -> CsvDialect:
        config = self._config
        return CsvDialect(config.delimiter, config.quote, config.escape, config.comment, config.multiline)

    def _blocks(self, file: BinaryIO, block_bytes: int) -> CsvBlocks:
        stream: Any = decompressed(file, self._config.compression)
        header = self._config.header
        if not _is_utf8(self._config.encoding):
            stream = Transcoded(stream, self._config.encoding)
        if self._bounds is None or stream is not file:
            return CsvBlocks(stream, self._dialect, block_bytes, header=header)
        start, end = self._bounds
        names = None
        if header:
            # It may stand behind comments that fill whole pieces.
            beginning = CsvBlocks(stream, self._dialect, _HEADER_BYTES, header=True)
            names = beginning.names
            start = max(start, beginning.header_end + lines.mark_bytes(file))
        return CsvBlocks(lines.LineRange(file, (start, end)), self._dialect, block_bytes, header=False, names=names)


def _is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("-", "").replace("_", "") in ("utf8", "ascii", "usascii", "utf8sig")


def _named(header: list[str] | None, schema: pa.Schema) -> list[str]:
    """The header with the schema's spelling: where a name is not in it, case and blanks around it do not count."""
    missing = {name.lower(): name for name in schema.names if name not in (header or [])}
    return [name if name in schema.names else missing.pop(name.strip().lower(), name) for name in header or []]


def _positions(schema: pa.Schema, extras: str | None, width: int) -> list[str]:
    """Names for a file without a header: the schema's in order, then names that no schema has."""
    names = [name for name in schema.names if name != extras][:width]
    return names + [f"_c{i}" for i in range(len(names), width)]
