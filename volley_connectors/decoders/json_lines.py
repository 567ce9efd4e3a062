"""JSON, one object per line.

The file is cut into blocks at line ends. Arrow parses a block at once; a block that it refuses is read again line by
line, which knows more types and spellings and can name the row that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.json as pj
from pydantic import Field

from volley_connectors.decoders.columns import fit, plain
from volley_connectors.decoders.json_rows import parse_rows
from volley_connectors.decoders.streams import decoding, decompressed
from volley_core import ByteSize, ConnectorConfig, DecodeError

_BOM = b"\xef\xbb\xbf"


class JsonLinesDecoderConfig(ConnectorConfig):
    """Options of the format `json`."""

    EXAMPLE = {"block_bytes": "8 MiB"}

    block_bytes: ByteSize = Field(
        4 * 1024 * 1024, ge=1024, description="How much text is parsed at once; about one Arrow batch."
    )


class JsonLinesDecoder:
    """JSON lines: one object per line, plain or compressed."""

    Config = JsonLinesDecoderConfig

    def __init__(self, config: JsonLinesDecoderConfig) -> None:
        self._config = config

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        found: list[pa.Schema] = []
        with decoding("JSON lines"):
            for block in self._blocks(file):
                _refuse_other_values(block)
                found.append(_infer_types(pj.read_json(pa.BufferReader(block), _options(block)).schema))
            return plain(pa.unify_schemas([pa.schema([]), *found], promote_options="permissive"))

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        readable = _readable(schema)
        rows = 0
        with decoding("JSON lines"):
            for block in self._blocks(file):
                batch = _parse_fast(block, readable) if readable is not None else None
                batch = (
                    parse_rows(block, schema, rows) if batch is None else _fit_or_explain(batch, block, schema, rows)
                )
                rows += batch.num_rows
                if batch.num_rows:
                    yield batch

    def _blocks(self, file: BinaryIO) -> Iterator[bytes]:
        """The file in pieces that end at a line's end."""
        stream = decompressed(file)
        parts: list[bytes] = []
        first = True
        while chunk := stream.read(self._config.block_bytes):
            if first:
                chunk, first = chunk.removeprefix(_BOM), False
            cut = chunk.rfind(b"\n") + 1
            if cut:
                block = b"".join((*parts, chunk[:cut]))
                parts = []
                if not block.isspace():
                    yield block
            parts.append(chunk[cut:])
        rest = b"".join(parts)
        if rest and not rest.isspace():
            yield rest


def _parse_fast(block: bytes, schema: pa.Schema) -> pa.RecordBatch | None:
    """The block as Arrow reads it; None if it needs the slow way."""
    # Arrow crashes the process if a block's first value is `null`.
    if block.lstrip()[:1] != b"{":
        return None
    try:
        table = pj.read_json(
            pa.BufferReader(block),
            _options(block),
            pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        # Arrow does not look whether the texts are UTF-8.
        table.validate(full=True)
    except pa.ArrowException:
        return None
    return table.combine_chunks().to_batches()[0]


def _fit_or_explain(batch: pa.RecordBatch, block: bytes, schema: pa.Schema, rows: int) -> pa.RecordBatch:
    try:
        return fit(batch, schema)
    except DecodeError:
        return parse_rows(block, schema, rows)


def _options(block: bytes) -> pj.ReadOptions:
    return pj.ReadOptions(use_threads=False, block_size=len(block) + 1)


def _readable(schema: pa.Schema) -> pa.Schema | None:
    """The schema as Arrow's JSON parser can fill it, for a cast to follow; None if it has a type that it cannot."""
    fields = [(field, _readable_type(field.type)) for field in schema]
    if any(kind is None for _, kind in fields):
        return None
    return pa.schema([pa.field(field.name, kind, field.nullable) for field, kind in fields])


def _readable_type(kind: pa.DataType) -> Any:
    if pa.types.is_date32(kind):
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
