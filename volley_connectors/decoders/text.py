"""Text, one row per line, and whole objects as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from volley_connectors.decoders import lines
from volley_connectors.decoders.streams import Compression, decoding
from volley_core import ByteSize, ConnectorConfig, DecodeError

_LONG_LINES = pa.large_string()


class TextDecoderConfig(ConnectorConfig):
    """Options of the format `text`."""

    EXAMPLE = {"compression": "gzip"}

    compression: Compression = Field("auto", description="How objects are compressed; auto: told by their first bytes.")
    block_bytes: ByteSize = Field(
        4 * 1024 * 1024,
        ge=1024,
        description="How much text becomes one Arrow batch. A record longer than 128 MB is refused.",
    )


class TextDecoder:
    """Text in UTF-8: one column, by default `value`, and one row per line, blank ones too."""

    Config = TextDecoderConfig

    def __init__(self, config: TextDecoderConfig, bounds: lines.ByteRange | None = None) -> None:
        self._config = config
        self._bounds = bounds

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        return pa.schema([("value", pa.string())])

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        only_column(schema, pa.types.is_string, "text")
        with decoding("text"):
            stream = lines.opened(file, self._config.compression, self._bounds)
            for block in lines.blocks(stream, self._config.block_bytes):
                yield pa.RecordBatch.from_arrays([_rows(block)] * len(schema), schema=schema)

    def cut(self, file: BinaryIO, target_bytes: int) -> Sequence[lines.ByteRange]:
        if self._config.compression not in ("auto", "none"):
            return [(0, file.seek(0, 2))]
        return lines.cut(file, target_bytes)

    def within(self, piece: lines.ByteRange) -> TextDecoder:
        return TextDecoder(self._config, (piece[0], piece[1]))


class BinaryDecoderConfig(ConnectorConfig):
    """The format `binary` has nothing to set."""


class BinaryDecoder:
    """Whole objects: one column, by default `content`, and one row per object. An object must fit into memory."""

    Config = BinaryDecoderConfig

    def __init__(self, config: BinaryDecoderConfig) -> None:
        self._config = config

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        return pa.schema([("content", pa.binary())])

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        only_column(schema, pa.types.is_binary, "binary")
        file.seek(0)
        yield pa.RecordBatch.from_arrays([pa.array([file.read()], pa.binary())], schema=schema)


def only_column(schema: pa.Schema, fits: Any, name: str) -> None:
    """Refuse a schema that a format of one column cannot fill."""
    if len(schema) != 1 or not fits(schema.field(0).type):
        raise DecodeError(
            f"format {name!r} gives one column, of type {'string' if name == 'text' else 'binary'}; "
            f"the schema asks for {schema.names}"
        )


def _rows(block: bytes) -> pa.Array:
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    text = pa.array([block.removesuffix(b"\n")], pa.large_binary()).cast(_LONG_LINES)
    return pc.split_pattern(text, "\n").flatten().cast(pa.string())
