"""Apache Parquet, read in batches, only the columns that are asked for; cut between row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from volley_connectors.decoders.columns import plain
from volley_connectors.decoders.fitting import Fitting
from volley_connectors.decoders.lines import refuse
from volley_connectors.decoders.streams import decoding
from volley_core import BadRecords, ConnectorConfig

Groups: TypeAlias = tuple[int, int]
"""The first row group of a piece, and the first one after it."""


class ParquetDecoderConfig(ConnectorConfig):
    """Options of the format `parquet`."""

    EXAMPLE = {"batch_rows": 32768}

    batch_rows: int = Field(65536, gt=0, description="Most rows in one Arrow batch.")


class ParquetDecoder:
    """Parquet: columns are projected and cast to the schema that is asked for."""

    Config = ParquetDecoderConfig

    def __init__(self, config: ParquetDecoderConfig, groups: Groups | None = None) -> None:
        self._config = config
        self._groups = groups

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        with decoding("Parquet"):
            return plain(_open(file).schema_arrow)

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self.decode_tolerantly(file, schema, BadRecords(refuse))

    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        fitting = Fitting(schema, bad)
        with decoding("Parquet"):
            parquet = _open(file)
            groups = range(parquet.num_row_groups) if self._groups is None else range(*self._groups)
            columns = fitting.wanted(parquet.schema_arrow.names)
            rows = self._config.batch_rows
            found = parquet.iter_batches(rows, row_groups=list(groups), columns=columns, use_threads=False)
            yield from fitting.batches(found, rows)

    def cut(self, file: BinaryIO, target_bytes: int) -> Sequence[Groups]:
        with decoding("Parquet"):
            footer = _open(file).metadata
        bounds, num_bytes = [0], 0
        for group in range(footer.num_row_groups):
            size = _group_bytes(footer.row_group(group))
            # What stands nearer to the target: the piece with this group, or without it.
            if num_bytes and num_bytes + size // 2 >= target_bytes:
                bounds.append(group)
                num_bytes = 0
            num_bytes += size
        ends = [*bounds[1:], footer.num_row_groups]
        return list(zip(bounds, ends, strict=True))

    def within(self, piece: Groups) -> ParquetDecoder:
        return ParquetDecoder(self._config, (piece[0], piece[1]))


def _group_bytes(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(column).total_compressed_size for column in range(group.num_columns))


def _open(file: BinaryIO) -> pq.ParquetFile:
    file.seek(0)
    # Arrow would otherwise fetch every row group before it gives the first batch, and take moments before 1677 or after
    # 2262 for others.
    return pq.ParquetFile(file, pre_buffer=False, coerce_int96_timestamp_unit="us")
