"""Arrow's own formats: the file, which can be cut between its batches, and the stream, which may be compressed too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
from pydantic import Field

from volley_connectors.decoders.columns import plain
from volley_connectors.decoders.fitting import Fitting
from volley_connectors.decoders.lines import refuse
from volley_connectors.decoders.pieces import evenly
from volley_connectors.decoders.streams import decoding, decompressed
from volley_core import BadRecords, ConnectorConfig

Batches: TypeAlias = tuple[int, int]
"""The first batch of a piece, and the first one after it."""

_FILE_MAGIC = b"ARROW1"


class ArrowDecoderConfig(ConnectorConfig):
    """Options of the format `arrow`."""

    EXAMPLE = {"batch_rows": 32768}

    batch_rows: int = Field(65536, gt=0, description="Most rows in one Arrow batch.")


class ArrowDecoder:
    """Arrow IPC, as file (Feather 2) or as stream: columns are cast to the schema that is asked for."""

    Config = ArrowDecoderConfig

    def __init__(self, config: ArrowDecoderConfig, batches: Batches | None = None) -> None:
        self._config = config
        self._batches = batches

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        with decoding("Arrow"):
            return plain(_open(file).schema)

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self.decode_tolerantly(file, schema, BadRecords(refuse))

    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        fitting = Fitting(schema, bad)
        with decoding("Arrow"):
            reader = _open(file)
            columns = fitting.wanted(reader.schema.names)
            batches = (batch.select(columns) for batch in self._read(reader))
            yield from fitting.batches(batches, self._config.batch_rows)

    def cut(self, file: BinaryIO, target_bytes: int) -> Sequence[Batches]:
        if not _is_file(file):
            return [(0, 1)]
        with decoding("Arrow"):
            batches = _open(file).num_record_batches
        return evenly(batches, file.seek(0, 2), target_bytes)

    def within(self, piece: Batches) -> ArrowDecoder:
        return ArrowDecoder(self._config, (piece[0], piece[1]))

    def _read(self, reader: Any) -> Iterator[pa.RecordBatch]:
        if isinstance(reader, pa.RecordBatchFileReader):
            numbers = range(reader.num_record_batches) if self._batches is None else range(*self._batches)
            found = map(reader.get_batch, numbers)
        else:
            found = iter(reader)
        for batch in found:
            # Arrow trusts what it reads, down to offsets that point anywhere.
            batch.validate(full=True)
            yield batch


def _is_file(file: BinaryIO) -> bool:
    file.seek(0)
    return file.read(len(_FILE_MAGIC)) == _FILE_MAGIC


def _open(file: BinaryIO) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    if _is_file(file):
        file.seek(0)
        return pa.ipc.open_file(file)
    return pa.ipc.open_stream(decompressed(file))
