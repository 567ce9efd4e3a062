"""A SplitSource out of any queue, blob reader and decoder.

A store's package passes its NotificationSource and BlobReader to the constructor and adds nothing else. The planning
methods run on the driver; `read` runs in a task and touches neither the queue nor the state.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from volley_connectors import hooks
from volley_connectors.blob.config import BlobSourceConfig
from volley_connectors.blob.ledger import Ledger
from volley_connectors.blob.manifests import ManifestLog
from volley_connectors.blob.planner import EpochPlanner
from volley_connectors.blob.selection import Selection
from volley_connectors.blob.splits import BlobSplit, pack
from volley_connectors.registry import build
from volley_connectors.state import StateStore
from volley_core import (
    BlobChangedError,
    BlobNotFoundError,
    BlobReader,
    BlobRef,
    ConfigError,
    DataError,
    Decoder,
    NotificationSource,
    Offset,
    ReadLimit,
    StreamRecord,
)
from volley_core.schema import format_schema, parse_schema

log = logging.getLogger(__name__)

_SCHEMA_FILE = "schema.ddl"
_SAMPLE_FILES = 10
_MADE_ON_USE = ("_planner", "_manifests", "_state", "_scratch", "_decoder", "_schema")


class BlobSource:
    """Objects of a blob store as rows, each object once."""

    GUARANTEE: ClassVar[str] = (
        "Exactly-once with a state_location: every object is in one epoch, and a replayed epoch reads the same objects."
    )

    def __init__(
        self, config: BlobSourceConfig, notifications: NotificationSource, reader: BlobReader, prefix: str
    ) -> None:
        """`prefix`: what every uri of this source begins with; the rest is what `path_glob` and `ignored` judge."""
        self._config = config
        self._notifications = notifications
        self._reader = reader
        self._prefix = prefix

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _MADE_ON_USE}

    @property
    def connector_id(self) -> str:
        return f"blobs:{self._prefix}"

    def check(self) -> None:
        """Raise ConfigError if the store cannot be used as configured. Called on the driver before anything is read."""

    def schema(self) -> pa.Schema:
        return self._schema

    def initial_offset(self) -> Offset:
        return {"manifest": 0}

    def freeze(self) -> None:
        self._planner.freeze()

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        return {"manifest": self._planner.next_manifest(start["manifest"], limit)}

    def splits(self, start: Offset, end: Offset) -> Sequence[BlobSplit]:
        blobs = [blob for number in range(start["manifest"] + 1, end["manifest"] + 1) for blob in self._planned(number)]
        return list(pack(blobs, self.schema(), self._config.target_split_bytes)) if blobs else []

    def read(self, split: BlobSplit) -> Iterator[StreamRecord]:
        for blob in split.blobs:
            yield from self._read_blob(blob, split.schema)

    def close(self) -> None:
        if "_planner" in self.__dict__:
            self._planner.close()
        self._notifications.close()
        # A reader of a remote store has connections; one of local files has nothing to close.
        close_reader = getattr(self._reader, "close", None)
        if close_reader is not None:
            close_reader()
        if "_scratch" in self.__dict__:
            self._scratch.cleanup()
        for name in _MADE_ON_USE:
            self.__dict__.pop(name, None)

    def _read_blob(self, blob: BlobRef, schema: pa.Schema) -> Iterator[StreamRecord]:
        try:
            with self._reader.open(blob) as file:
                for batch in self._decoder.decode(file, schema):
                    if batch.num_rows:
                        yield StreamRecord(batch, blob.event_time_ms)
        except (BlobNotFoundError, BlobChangedError) as error:
            self._forgive(error, blob, "on_missing_file", self._config.on_missing_file)
        except DataError as error:
            self._forgive(error, blob, "on_corrupt_file", self._config.on_corrupt_file)

    def _forgive(self, error: DataError, blob: BlobRef, option: str, choice: str) -> None:
        if choice == "fail":
            raise type(error)(
                f"{self.connector_id}: object {blob.uri} (version {blob.version or 'unknown'}) cannot be read as "
                f"{self._config.format!r}: {error}. The query will stop here until the object is as it was, or option "
                f"{option!r} is set to 'skip'."
            ) from error
        log.warning("%s: skipped the rest of object %s: %s", self.connector_id, blob.uri, error)
        hooks.fire("bad_records", connector_id=self.connector_id, origin=blob.uri, count=1, reason=str(error))

    def _planned(self, number: int) -> list[BlobRef]:
        if not self._must_remember and not self._manifests.has(number):
            # Nothing of that epoch was acknowledged: its objects will be announced again.
            log.warning("%s: the plan of epoch %d was lost with its driver; read anew", self.connector_id, number)
            return []
        return [entry.blob for entry in self._manifests.read(number)]

    @property
    def _must_remember(self) -> bool:
        return self._config.delivery == "exactly-once"

    @cached_property
    def _planner(self) -> EpochPlanner:
        self.check()
        return EpochPlanner(
            queue=self._notifications,
            reader=self._reader,
            manifests=self._manifests,
            ledger=Ledger(by_version=self._config.allow_overwrites),
            wants=self._selection().wants,
            visibility_seconds=self._config.visibility_seconds,
            must_remember=self._must_remember,
        )

    @cached_property
    def _manifests(self) -> ManifestLog:
        return ManifestLog(self._state)

    @cached_property
    def _state(self) -> StateStore:
        if self._config.state_location is not None:
            return StateStore(self._config.state_location)
        if self._must_remember:
            raise ConfigError(
                f"{self.connector_id}: option 'state_location' is required: a folder of this query's own, beside its "
                "checkpoint, where the source remembers which objects it has read. Without one, set "
                "delivery='at-least-once'."
            )
        return StateStore(self._scratch.name)

    @cached_property
    def _scratch(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="volley-state-", ignore_cleanup_errors=True)

    @cached_property
    def _decoder(self) -> Decoder:
        decoder: Decoder = build("decoders", self._config.format, self._config.format_options)
        return decoder

    @cached_property
    def _schema(self) -> pa.Schema:
        """What the user gave; else what an earlier run found; else what the first objects look like."""
        if self._config.schema is not None:
            return self._config.schema
        if self._config.state_location is None:
            return self._infer_schema()
        if not self._state.exists(_SCHEMA_FILE):
            self._state.create(_SCHEMA_FILE, format_schema(self._infer_schema()).encode())
        return parse_schema(self._state.read(_SCHEMA_FILE).decode())

    def _infer_schema(self) -> pa.Schema:
        self.check()
        wants = self._selection().wants
        sample = (blob for blob in self._reader.list(self._prefix) if wants(blob.uri))
        for _, blob in zip(range(_SAMPLE_FILES), sample, strict=False):
            schema = self._infer_from(blob)
            if len(schema):
                return schema
        raise ConfigError(
            f"{self.connector_id}: there is no object with rows to infer a schema from. Give the option 'schema', "
            "for example schema='id bigint, name string'."
        )

    def _infer_from(self, blob: BlobRef) -> pa.Schema:
        try:
            with self._reader.open(blob) as file:
                return self._decoder.infer_schema(file)
        except DataError as error:
            raise type(error)(
                f"{self.connector_id}: no schema can be inferred from object {blob.uri} as {self._config.format!r}: "
                f"{error}. Give the option 'schema', or correct the option 'format'."
            ) from error

    def _selection(self) -> Selection:
        return Selection(self._config, self._prefix)
