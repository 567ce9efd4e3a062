"""Which of a row's columns come from the object's bytes, which from its path, and which from what is known of it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from volley_connectors.blob.config import BlobSourceConfig
from volley_connectors.blob.partitions import path_values
from volley_connectors.blob.splits import Portion
from volley_core import BlobRef, DecodeError

METADATA = "_metadata"
RESCUED = "_rescued_data"
_MOMENT = pa.timestamp("us", tz="UTC")
_METADATA_TYPE = pa.struct(
    [
        pa.field("file_path", pa.string()),
        pa.field("file_name", pa.string()),
        pa.field("file_size", pa.int64()),
        pa.field("file_modification_time", _MOMENT),
        pa.field("event_time", _MOMENT),
        pa.field("message_id", pa.string()),
        pa.field("row_index", pa.int64()),
    ]
)


class Layout:
    """The columns of a blob source's rows, by where they come from."""

    def __init__(self, config: BlobSourceConfig, prefix: str) -> None:
        self._config = config
        self._prefix = prefix

    @property
    def rescued(self) -> str | None:
        """The column that takes what fits no other, if one was asked for."""
        if self._config.rescued_data or self._config.on_bad_record == "rescue":
            return RESCUED
        return RESCUED if self._config.schema_evolution == "rescue" else None

    @property
    def added(self) -> pa.Schema:
        """The columns that were asked for beside what the objects hold."""
        rescued = [pa.field(self.rescued, pa.string())] if self.rescued else []
        metadata = [pa.field(METADATA, _METADATA_TYPE)] if self._config.include_metadata else []
        return pa.schema([*rescued, *metadata])

    def complete(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the rows: the objects' own columns, then the added ones."""
        return pa.schema([*(field for field in schema if field.name not in self.added.names), *self.added])

    def path_values(self, uri: str) -> Mapping[str, str | None]:
        """The partition values that an object's path gives, unless that was turned off or limited to some columns."""
        wanted = self._config.partition_columns
        if wanted == []:
            return {}
        values = path_values(uri.removeprefix(self._prefix))
        return values if wanted is None else {name: values.get(name) for name in wanted}

    def of(self, portion: Portion, schema: pa.Schema) -> ObjectColumns:
        """How the rows of one object are put together. Raises DecodeError for a path whose values do not fit."""
        values = self.path_values(portion.blob.uri)
        constants = {
            field.name: _constant(values[field.name], field, portion.blob) for field in schema if field.name in values
        }
        return ObjectColumns(portion, schema, constants, METADATA if self._config.include_metadata else None)


class ObjectColumns:
    """Adds to the columns that were decoded from one object those that are the same in all its rows."""

    def __init__(
        self, portion: Portion, schema: pa.Schema, constants: Mapping[str, pa.Scalar], metadata: str | None
    ) -> None:
        self._portion = portion
        self._schema = schema
        self._constants = constants
        self._metadata = metadata
        self._rows = 0

    @property
    def decoded(self) -> pa.Schema:
        """The columns that the decoder is asked for."""
        added = {*self._constants, self._metadata}
        return pa.schema([field for field in self._schema if field.name not in added])

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Decoded rows with all their columns, in the schema's order."""
        if not self._constants and self._metadata is None:
            return batch
        arrays = [self._column(field.name, batch) for field in self._schema]
        self._rows += batch.num_rows
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        if name == self._metadata:
            return self._facts(batch.num_rows)
        if name in self._constants:
            return pa.repeat(self._constants[name], batch.num_rows)
        return batch.column(name)

    def _facts(self, rows: int) -> pa.Array:
        blob = self._portion.blob
        written_us = None if blob.event_time_ms is None else blob.event_time_ms * 1000
        message_id = self._portion.message_id or None
        values = {
            "file_path": blob.uri,
            "file_name": blob.uri.rpartition("/")[2],
            "file_size": blob.size,
            "file_modification_time": written_us,
            # A listing knows when an object was written, not that it was announced.
            "event_time": written_us if message_id else None,
            "message_id": message_id,
        }
        fields = list(_METADATA_TYPE)
        arrays = [pa.repeat(pa.scalar(values[field.name], field.type), rows) for field in fields[:-1]]
        arrays.append(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows), start=self._rows - 1))
        return pa.StructArray.from_arrays(arrays, fields=fields)


def _constant(value: str | None, field: pa.Field, blob: BlobRef) -> pa.Scalar:
    try:
        return pa.array([value], pa.string()).cast(field.type)[0]
    except pa.ArrowException as error:
        raise DecodeError(
            f"the path says {field.name}={value}, which is not of type {field.type} ({blob.uri}): {error}"
        ) from error
