"""Apache Avro object container files, cut at their sync markers.

A native reader reads what it can; fastavro what it cannot, and what must be resolved against another schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
from pydantic import Field, field_validator

from volley_connectors.decoders.avro_container import Block, ByteRange, Container
from volley_connectors.decoders.avro_native import NativeReader
from volley_connectors.decoders.avro_rows import RowReader
from volley_connectors.decoders.avro_schema import Node, arrow_type, native_schema, parse, resolvable, row_schema
from volley_connectors.decoders.columns import plain
from volley_connectors.decoders.fitting import Fitting
from volley_connectors.decoders.lines import refuse
from volley_connectors.decoders.pieces import evenly
from volley_connectors.decoders.streams import codec_of, decoding
from volley_core import BadRecords, ByteSize, ConnectorConfig, DecodeError

_ROW_SHARE = 4
"""So many times fewer bytes are decoded at once where each value is a Python object in between."""


class AvroDecoderConfig(ConnectorConfig):
    """Options of the format `avro`."""

    EXAMPLE = {"batch_rows": 5000}

    reader_schema: str | None = Field(
        None,
        description="Avro schema, as JSON, that files are resolved against: with defaults and aliases. By default each "
        "file is read with the schema that it carries.",
    )
    batch_rows: int = Field(10_000, gt=0, description="Most rows in one Arrow batch.")
    block_bytes: ByteSize = Field(
        2 * 1024 * 1024, ge=1024, description="How much decompressed data is decoded at once; a block at least."
    )

    @field_validator("reader_schema")
    @classmethod
    def _is_a_schema(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                parse(json.loads(text))
            except (ValueError, DecodeError) as error:
                raise ValueError(f"must be the Avro schema of a record, as JSON: {error}") from None
        return text


class AvroDecoder:
    """Avro object container files, with logical types and unions."""

    Config = AvroDecoderConfig

    def __init__(self, config: AvroDecoderConfig, bounds: ByteRange | None = None) -> None:
        self._config = config
        self._bounds = bounds

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        with decoding("Avro"):
            record = parse(self._asked(Container(file).schema))
            return plain(pa.schema(list(arrow_type(record))))

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self.decode_tolerantly(file, schema, BadRecords(refuse))

    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        fitting = Fitting(schema, bad)
        with decoding("Avro"):
            container = Container(file, self._bounds)
            written, asked = parse(container.schema), parse(self._asked(container.schema))
            wanted = fitting.wanted(asked.names)
            native = native_schema(asked) if row_schema(asked) == row_schema(written) else None
            reader: NativeReader | RowReader
            if native is not None:
                reader, num_bytes = NativeReader(native), self._config.block_bytes
            else:
                reader = self._row_reader(container.schema, written, asked, wanted)
                num_bytes = self._config.block_bytes // _ROW_SHARE
            found = (reader.read(blocks).select(wanted) for blocks in _packs(container.blocks(), num_bytes))
            yield from fitting.batches(found, self._config.batch_rows)

    def cut(self, file: BinaryIO, target_bytes: int) -> Sequence[ByteRange]:
        size = file.seek(0, 2)
        return evenly(size, size, target_bytes) if codec_of(file) is None else [(0, size)]

    def within(self, piece: ByteRange) -> AvroDecoder:
        return AvroDecoder(self._config, (piece[0], piece[1]))

    def _asked(self, written: Any) -> Any:
        return written if self._config.reader_schema is None else json.loads(self._config.reader_schema)

    def _row_reader(self, schema: Any, written: Node, asked: Node, wanted: list[str]) -> RowReader:
        if row_schema(asked) == row_schema(written):
            return RowReader(asked, wanted, row_schema(written))
        return RowReader(asked, wanted, resolvable(schema), resolvable(self._asked(schema)))


def _packs(blocks: Iterable[Block], num_bytes: int) -> Iterator[list[Block]]:
    """Blocks that are decoded together."""
    pack: list[Block] = []
    size = 0
    for count, data in blocks:
        if count:
            pack.append((count, data))
            size += len(data)
        if size >= num_bytes:
            yield pack
            pack, size = [], 0
    if pack:
        yield pack
