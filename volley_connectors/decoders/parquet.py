"""Apache Parquet, read in batches, only the columns that are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from volley_connectors.decoders.columns import fit, plain
from volley_connectors.decoders.streams import decoding
from volley_core import ConnectorConfig


class ParquetDecoderConfig(ConnectorConfig):
    """Options of the format `parquet`."""

    EXAMPLE = {"batch_rows": 32768}

    batch_rows: int = Field(65536, gt=0, description="Most rows in one Arrow batch.")


class ParquetDecoder:
    """Parquet: columns are projected and cast to the schema that is asked for."""

    Config = ParquetDecoderConfig

    def __init__(self, config: ParquetDecoderConfig) -> None:
        self._config = config

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        file.seek(0)
        with decoding("Parquet"):
            return plain(pq.read_schema(file))

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        file.seek(0)
        with decoding("Parquet"):
            # Arrow would otherwise fetch every row group before it gives the first batch.
            parquet = pq.ParquetFile(file, pre_buffer=False)
            present = set(parquet.schema_arrow.names)
            columns = [name for name in schema.names if name in present]
            for batch in parquet.iter_batches(self._config.batch_rows, columns=columns, use_threads=False):
                if batch.num_rows:
                    yield fit(batch, schema)
