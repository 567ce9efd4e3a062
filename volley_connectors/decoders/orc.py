"""Apache ORC, read stripe by stripe, only the columns that are asked for; cut between stripes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.orc as orc
from pydantic import Field

from volley_connectors.decoders.columns import plain
from volley_connectors.decoders.fitting import Fitting
from volley_connectors.decoders.lines import refuse
from volley_connectors.decoders.pieces import evenly
from volley_connectors.decoders.streams import decoding
from volley_core import BadRecords, ConnectorConfig

Stripes: TypeAlias = tuple[int, int]
"""The first stripe of a piece, and the first one after it."""


class OrcDecoderConfig(ConnectorConfig):
    """Options of the format `orc`."""

    EXAMPLE = {"batch_rows": 32768}

    batch_rows: int = Field(65536, gt=0, description="Most rows in one Arrow batch.")


class OrcDecoder:
    """ORC: columns are projected and cast to the schema that is asked for. A stripe must fit into memory."""

    Config = OrcDecoderConfig

    def __init__(self, config: OrcDecoderConfig, stripes: Stripes | None = None) -> None:
        self._config = config
        self._stripes = stripes

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        with decoding("ORC"):
            return plain(_open(file).schema)

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self.decode_tolerantly(file, schema, BadRecords(refuse))

    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        fitting = Fitting(schema, bad)
        with decoding("ORC"):
            found = _open(file)
            columns = fitting.wanted(found.schema.names)
            stripes = range(found.nstripes) if self._stripes is None else range(*self._stripes)
            batches = (_with_local_times(_stripe(found, number, columns), schema) for number in stripes)
            yield from fitting.batches(batches, self._config.batch_rows)

    def cut(self, file: BinaryIO, target_bytes: int) -> Sequence[Stripes]:
        with decoding("ORC"):
            found = _open(file)
        # Arrow does not tell how large each stripe is; writers make them of one size.
        return evenly(found.nstripes, found.content_length, target_bytes)

    def within(self, piece: Stripes) -> OrcDecoder:
        return OrcDecoder(self._config, (piece[0], piece[1]))


def _open(file: BinaryIO) -> orc.ORCFile:
    file.seek(0)
    return orc.ORCFile(file)


def _stripe(found: orc.ORCFile, number: int, columns: list[str]) -> pa.RecordBatch:
    # Arrow forgets the number of rows if no column is read.
    batch = found.read_stripe(number, columns or found.schema.names[:1])
    return batch if columns else pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))


def _with_local_times(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Spark writes timestamps without a zone as whole numbers, and says so where Arrow does not show it."""
    local = pa.timestamp("us")
    for index, field in enumerate(batch.schema):
        if pa.types.is_int64(field.type) and field.name in schema.names and schema.field(field.name).type.equals(local):
            batch = batch.set_column(index, field.name, batch.column(index).view(local))
    return batch
