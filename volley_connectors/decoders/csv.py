"""Comma-separated values, read block by block."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pc
from pydantic import Field

from volley_connectors.decoders.columns import fit, plain
from volley_connectors.decoders.streams import decoding, decompressed
from volley_connectors.decoders.timestamps import parse_timestamps
from volley_core import ByteSize, ConfigError, ConnectorConfig, DecodeError

_SAMPLE_BYTES = 8 * 1024 * 1024
_HEAD_BYTES = 64 * 1024


class CsvDecoderConfig(ConnectorConfig):
    """Options of the format `csv`."""

    EXAMPLE = {"delimiter": ";", "null_values": ["", "NULL"]}

    header: bool = Field(True, description="The first line names the columns. Without one they are taken in order.")
    delimiter: str = Field(",", min_length=1, max_length=1, description="The character between two values.")
    quote: str = Field('"', max_length=1, description="The character around a value; empty for none.")
    escape: str = Field("", max_length=1, description="The character before a quote inside a value; empty: doubled.")
    null_values: list[str] = Field([""], description="Texts that mean null.")
    multiline: bool = Field(False, description="Quoted values may hold line ends.")
    encoding: str = Field("utf8", description="The text's encoding, as Python names it.")
    block_bytes: ByteSize = Field(
        2 * 1024 * 1024, ge=1024, description="How much text is parsed at once; a line must fit in."
    )


class CsvDecoder:
    """CSV: separated values, plain or compressed."""

    Config = CsvDecoderConfig

    def __init__(self, config: CsvDecoderConfig) -> None:
        self._config = config

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        with decoding("CSV"):
            sample = self._sample(file, _SAMPLE_BYTES)
            if not sample.strip():
                return pa.schema([])
            names = None if self._config.header else [f"_c{i}" for i in range(self._width(sample))]
            table = pc.read_csv(
                io.BytesIO(sample), self._read_options(names, len(sample) + 1), self._parse_options(), self._nulls()
            )
            return plain(table.schema)

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        convert = self._convert_options(schema)
        with decoding("CSV"):
            names = None
            if not self._config.header:
                names = _positions(schema, self._width(self._sample(file, _HEAD_BYTES)))
            try:
                reader = pc.open_csv(
                    decompressed(file),
                    self._read_options(names, self._config.block_bytes),
                    self._parse_options(),
                    convert,
                )
            except pa.ArrowInvalid as error:
                if "Empty CSV file" in str(error):
                    return
                raise
            for batch in reader:
                if batch.num_rows:
                    yield fit(_with_timestamps(batch, schema), schema)

    def _sample(self, file: BinaryIO, num_bytes: int) -> bytes:
        """Whole lines from the beginning."""
        sample = bytes(decompressed(file).read(num_bytes))
        return sample[: sample.rfind(b"\n") + 1] if len(sample) == num_bytes else sample

    def _width(self, sample: bytes) -> int:
        """How many columns a file without a header has."""
        if not sample.strip():
            return 0
        options = pc.ReadOptions(use_threads=False, autogenerate_column_names=True, encoding=self._config.encoding)
        return len(pc.read_csv(io.BytesIO(sample), options, self._parse_options()).schema)

    def _read_options(self, names: list[str] | None, block_bytes: int) -> pc.ReadOptions:
        try:
            "".encode(self._config.encoding)
        except LookupError:
            raise ConfigError(
                f"Option 'encoding' = {self._config.encoding!r}: Python knows no such encoding."
            ) from None
        return pc.ReadOptions(
            use_threads=False, column_names=names, block_size=block_bytes, encoding=self._config.encoding
        )

    def _parse_options(self) -> pc.ParseOptions:
        return pc.ParseOptions(
            delimiter=self._config.delimiter,
            quote_char=self._config.quote or False,
            escape_char=self._config.escape or False,
            newlines_in_values=self._config.multiline,
        )

    def _nulls(self, **more: Any) -> pc.ConvertOptions:
        return pc.ConvertOptions(null_values=self._config.null_values, strings_can_be_null=True, **more)

    def _convert_options(self, schema: pa.Schema) -> pc.ConvertOptions:
        for field in schema:
            if pa.types.is_nested(field.type):
                raise DecodeError(f"column {field.name!r}: CSV cannot hold values of type {field.type}")
        types = {field.name: _read_as(field.type) for field in schema}
        return self._nulls(column_types=types, include_columns=schema.names, include_missing_columns=True)


def _positions(schema: pa.Schema, width: int) -> list[str]:
    """Names for a file without a header: the schema's in order, then names that no schema has."""
    names: list[str] = schema.names[:width]
    return names + [f"\0{i}" for i in range(len(schema), width)]


def _read_as(kind: pa.DataType) -> pa.DataType:
    # Arrow's own parser wants a zone in every timestamp of a column, or in none.
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _with_timestamps(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    for index, field in enumerate(schema):
        if pa.types.is_timestamp(field.type):
            try:
                array = parse_timestamps(batch.column(index), field.type)
            except ValueError as error:
                raise DecodeError(f"column {field.name!r}: {error}") from error
            batch = batch.set_column(index, field, array)
    return batch
