"""The schema of a blob source's objects: what the user gave, or what samples of the objects look like.

What was found is remembered in numbered files that are never changed; columns that turn up later make a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from volley_connectors.blob.config import BlobSourceConfig
from volley_connectors.blob.formats import Formats
from volley_connectors.blob.layout import Layout
from volley_connectors.blob.partitions import infer_columns
from volley_connectors.state import StateStore
from volley_core import BlobReader, BlobRef, ConfigError, DataError
from volley_core.schema import format_schema, parse_schema

_FOLDER = "schemas"
_TRIES = 100


class SchemaLog:
    """The schemas that one query found, oldest first."""

    def __init__(self, location: StateStore) -> None:
        self._store = location / _FOLDER

    def last(self) -> pa.Schema | None:
        """The newest; None if nothing was found yet."""
        name = max(self._store.names(), default=None)
        return None if name is None else parse_schema(self._store.read(name).decode())

    def add_columns(self, before: pa.Schema, found: pa.Schema) -> pa.Schema:
        """Remember the columns of `found` that `before` and the newest schema lack. Tasks may do so side by side."""
        for _ in range(_TRIES):
            last = self.last()
            merged = _with_missing(_with_missing(before, last), found)
            if last is not None and merged.equals(last):
                return merged
            number = len(list(self._store.names())) + 1
            if self._store.create(f"{number:010d}.ddl", format_schema(merged).encode()):
                return merged
        raise ConfigError(f"The schemas at {self._store.location!r} keep changing. Is another query using them?")


@dataclass(frozen=True)
class Sampler:
    """Infers a schema from the first objects of a source."""

    connector_id: str
    config: BlobSourceConfig
    layout: Layout
    reader: BlobReader
    formats: Formats

    def infer(self, blobs: Iterable[BlobRef]) -> pa.Schema:
        """One schema for all sampled objects. Raises ConfigError if there are none with rows, or they do not agree."""
        found, uris = [], []
        for blob in self._sample(blobs):
            schema = self.of_object(blob)
            if len(schema):
                found.append(schema)
                uris.append(blob.uri)
        if not found:
            raise ConfigError(
                f"{self.connector_id}: there is no object with rows to infer a schema from. Give the option 'schema', "
                "for example schema='id bigint, name string'."
            )
        return self.apply_hints(_with_missing(self._unify(found), self._partitions(uris)))

    def of_object(self, blob: BlobRef) -> pa.Schema:
        """What one object looks like."""
        try:
            with self.reader.open(blob) as file:
                return self.formats.of(blob.uri).infer_schema(file)
        except DataError as error:
            raise type(error)(
                f"{self.connector_id}: no schema can be inferred from object {blob.uri} as {self.config.format!r}: "
                f"{error}. Give the option 'schema', or correct the option 'format'."
            ) from error

    def apply_hints(self, schema: pa.Schema) -> pa.Schema:
        """The user knows some columns better; ones that no sample had are added."""
        hints = self.config.schema_hints
        if hints is None:
            return schema
        known = {field.name: field for field in hints}
        return _with_missing(pa.schema([known.get(field.name, field) for field in schema]), hints)

    def _sample(self, blobs: Iterable[BlobRef]) -> Iterator[BlobRef]:
        num_bytes = 0
        for _, blob in zip(range(self.config.infer_sample_files), blobs, strict=False):
            yield blob
            num_bytes += blob.size
            if num_bytes >= self.config.infer_sample_bytes:
                return

    def _unify(self, schemas: list[pa.Schema]) -> pa.Schema:
        try:
            return pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowException as error:
            raise ConfigError(
                f"{self.connector_id}: the sampled objects do not agree on a schema: {error}. Settle the column with "
                "the option 'schema_hints', for example schema_hints='id string', or give the option 'schema'."
            ) from error

    def _partitions(self, uris: list[str]) -> pa.Schema:
        return infer_columns(map(self.layout.path_values, uris))


def _with_missing(schema: pa.Schema, more: pa.Schema | None) -> pa.Schema:
    """A schema with the columns of another that it lacks, after its own."""
    if more is None:
        return schema
    return pa.schema([*schema, *(field for field in more if field.name not in schema.names)])
