"""JSON: one object per line, or one document.

The file is cut into blocks at line ends. Arrow parses a block at once; of a block that it refuses, the part at fault is
read again line by line, which knows more types and spellings and can name the row that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Literal

import pyarrow as pa
import pyarrow.json as pj
from pydantic import Field

from volley_connectors.decoders import lines
from volley_connectors.decoders.columns import fit, plain
from volley_connectors.decoders.json_document import elements
from volley_connectors.decoders.json_rows import RowParser
from volley_connectors.decoders.streams import Compression, decoding
from volley_core import BadRecord, BadRecords, ByteSize, ConnectorConfig, DecodeError

_FEW_LINES = 256
"""So many lines at most are read one by one; of more, the part at fault is looked for first."""


class JsonLinesDecoderConfig(ConnectorConfig):
    """Options of the format `json`."""

    EXAMPLE = {"block_bytes": "8 MiB"}

    multiline: bool = Field(False, description="The object is one document, an array or an object, over many lines.")
    epoch_timestamps: Literal["none", "seconds", "milliseconds", "microseconds"] = Field(
        "none", description="What a number in a timestamp column counts since 1970; none: a number is a bad value."
    )
    compression: Compression = Field("auto", description="How objects are compressed; auto: told by their first bytes.")
    block_bytes: ByteSize = Field(
        4 * 1024 * 1024,
        ge=1024,
        description="How much text is parsed at once; about one Arrow batch. A record longer than 128 MB is refused.",
    )


class JsonLinesDecoder:
    """JSON: one object per line, or one document; plain or compressed."""

    Config = JsonLinesDecoderConfig

    def __init__(self, config: JsonLinesDecoderConfig, bounds: lines.ByteRange | None = None) -> None:
        self._config = config
        self._bounds = bounds

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        found: list[pa.Schema] = []
        with decoding("JSON lines"):
            for block in self._blocks(file):
                _refuse_other_values(block)
                found.append(_infer_types(pj.read_json(pa.BufferReader(block), _options(block)).schema))
            return plain(pa.unify_schemas([pa.schema([]), *found], promote_options="permissive"))

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self.decode_tolerantly(file, schema, BadRecords(lines.refuse))

    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        parser = _BlockParser(schema, bad, self._config.epoch_timestamps)
        with decoding("JSON lines"):
            for block in self._blocks(file):
                yield from parser.batches(block)

    def cut(self, file: BinaryIO, target_bytes: int) -> Sequence[lines.ByteRange]:
        if self._config.multiline or self._config.compression not in ("auto", "none"):
            return [(0, file.seek(0, 2))]
        return lines.cut(file, target_bytes)

    def within(self, piece: lines.ByteRange) -> JsonLinesDecoder:
        return JsonLinesDecoder(self._config, (piece[0], piece[1]))

    def _blocks(self, file: BinaryIO) -> Iterable[bytes]:
        """The file in pieces that end at a line's end."""
        stream = lines.opened(file, self._config.compression, self._bounds)
        if self._config.multiline:
            return elements(stream, self._config.block_bytes)
        return (block for block in lines.blocks(stream, self._config.block_bytes) if not block.isspace())


class _BlockParser:
    """Makes batches of blocks of lines, for one schema."""

    def __init__(self, schema: pa.Schema, bad: BadRecords, epoch_timestamps: str) -> None:
        self._schema = schema
        self._bad = bad
        known = pa.schema([field for field in schema if field.name != bad.extras])
        self._readable = None if epoch_timestamps != "none" and _has_timestamps(known) else _readable(known)
        # What a record holds and the schema lacks, Arrow would infer anew in every block: such rows go the slow way.
        self._unexpected = "ignore" if bad.extras is None else "error"
        self._rows = RowParser(schema, bad.extras, epoch_timestamps)
        self._count = lines.RowCounter()

    def batches(self, block: bytes) -> Iterator[pa.RecordBatch]:
        found = self._parse_fast(block)
        if found is not None:
            self._count.rows += found.num_rows
            parts = [found]
        else:
            parts = list(lines.parse_tolerantly(_split(block), self._parse, self._bad_line, self._count))
        # Many small parts are dear for whoever comes next.
        whole = parts[0] if len(parts) == 1 else pa.concat_batches(parts) if parts else None
        if whole is not None and whole.num_rows:
            yield whole

    def _parse(self, block: bytes, rows_before: int) -> pa.RecordBatch:
        found = self._parse_fast(block)
        if found is not None:
            return found
        if self._readable is not None and block.count(b"\n") > _FEW_LINES:
            raise DecodeError("to be looked at in parts")
        return self._rows.parse(block, rows_before)

    def _bad_line(self, line: bytes, row: int, error: DecodeError) -> pa.RecordBatch | None:
        self._bad.add(BadRecord(line.strip(), str(error), row))
        return self._rows.rescue(line) if self._bad.rescue else None

    def _parse_fast(self, block: bytes) -> pa.RecordBatch | None:
        """The block as Arrow reads it; None if it needs the slow way."""
        # Arrow crashes the process if a block's first value is `null`.
        if self._readable is None or block.lstrip()[:1] != b"{":
            return None
        options = pj.ParseOptions(explicit_schema=self._readable, unexpected_field_behavior=self._unexpected)
        try:
            table = pj.read_json(pa.BufferReader(block), _options(block), options)
            # Arrow does not look whether the texts are UTF-8.
            table.validate(full=True)
            return fit(table.combine_chunks().to_batches()[0], self._schema)
        except (pa.ArrowException, DecodeError):
            return None


def _split(block: bytes) -> list[bytes]:
    """Lines, which end in \\n alone: bytes.splitlines would also end them at a carriage return."""
    parts = block.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _has_timestamps(schema: pa.Schema) -> bool:
    return "timestamp" in str(schema)


def _options(block: bytes) -> pj.ReadOptions:
    return pj.ReadOptions(use_threads=False, block_size=len(block) + 1)


def _readable(schema: pa.Schema) -> pa.Schema | None:
    """The schema as Arrow's JSON parser can fill it, for a cast to follow; None if it has a type that it cannot."""
    fields = [(field, _readable_type(field.type)) for field in schema]
    if any(kind is None for _, kind in fields):
        return None
    return pa.schema([pa.field(field.name, kind, field.nullable) for field, kind in fields])


def _readable_type(kind: pa.DataType) -> Any:
    # Arrow would move a text with a zone to UTC, even where the column keeps none.
    if pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and not kind.tz):
        return pa.string()
    if pa.types.is_struct(kind):
        children = [(child, _readable_type(child.type)) for child in kind]
        if any(inner is None for _, inner in children):
            return None
        return pa.struct([pa.field(child.name, inner, child.nullable) for child, inner in children])
    if pa.types.is_list(kind):
        inner = _readable_type(kind.value_type)
        return None if inner is None else pa.list_(kind.value_field.with_type(inner))
    # Spark reads binary as base64, which Arrow takes as it stands.
    return None if pa.types.is_binary(kind) or pa.types.is_map(kind) else kind


def _infer_types(schema: pa.Schema) -> pa.Schema:
    """Texts that look like timestamps stay texts, as with Spark: the next file may hold one that does not."""
    return pa.schema([pa.field(field.name, _infer_type(field.type)) for field in schema])


def _infer_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(child.name, _infer_type(child.type)) for child in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _infer_type(kind.value_type)))
    return kind


def _refuse_other_values(block: bytes) -> None:
    if block.lstrip()[:1] != b"{":
        raise DecodeError(f"not valid JSON lines: a line begins with {block.lstrip()[:20]!r}, not with an object")
