"""A Delta table that takes each epoch in one atomic commit.

Tasks write Parquet files into the table's folder; the driver puts all of an epoch's into the table's log at once, with
the epoch's tag, see commits.py. Until then no reader sees them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field, SecretStr, field_validator

from volley_core import ByteSize, ConfigError, EpochContext, SinkConfig, SinkError, StreamRecord
from volley_delta.checks import check_replaceable, check_table, missing_columns
from volley_delta.commits import Staged, TableCommits
from volley_delta.errors import translated
from volley_delta.location import TableLocation
from volley_delta.part import DataFile, TableWriter
from volley_delta.types import stored_schema

_SECRET = re.compile(
    "secret|password|token|signature|access_?key(?!_?id)|account_?key|master_?key|_sas|sas_", re.IGNORECASE
)


class DeltaSinkConfig(SinkConfig):
    """Options of the sink `delta`."""

    EXAMPLE = {"table_uri": "/data/events", "pipeline_id": "events"}

    table_uri: str = Field(
        min_length=1, description="The table: a path, or an s3://, az://, abfss:// or gs:// address."
    )
    partition_by: list[str] = Field(
        [], description="Columns that the table is partitioned by: strings, integers, booleans or dates."
    )
    max_records: int = Field(10_000, gt=0, description="Rows that a task collects before it sorts them by partition.")
    target_file_size: ByteSize = Field(
        128 * 1024 * 1024, gt=0, description="A task begins another file of a partition when one reaches this size."
    )
    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] = Field(
        "zstd", description="How the Parquet files are compressed."
    )
    create_if_missing: bool = Field(True, description="Make the table if there is none.")
    merge_schema: bool = Field(False, description="Add columns that the table lacks to it when the query starts.")
    table_properties: dict[str, str] = Field(
        {}, description="Properties of a table that is made: delta.logRetentionDuration and others of Delta."
    )
    user_metadata: str | None = Field(None, description="A note in the table's history for each commit.")
    storage_options: dict[str, SecretStr] = Field(
        {}, description="Settings of the store as delta-rs names them: AWS_REGION, AWS_ENDPOINT_URL and others."
    )
    storage_secrets: dict[str, SecretStr] = Field(
        {}, description="Those of them that are secret: AWS_SECRET_ACCESS_KEY, azure_storage_account_key and others."
    )

    @field_validator("storage_options")
    @classmethod
    def _holds_no_secret(cls, options: dict[str, SecretStr]) -> dict[str, SecretStr]:
        # Spark prints options whose names do not tell that they are secret.
        secret = sorted(name for name in options if _SECRET.search(name))
        if secret:
            raise ValueError(f"{', '.join(secret)} is secret; give it in 'storage_secrets', which Spark does not print")
        return options


class DeltaSink:
    """A Delta table, each epoch one commit."""

    Config: ClassVar[type[DeltaSinkConfig]] = DeltaSinkConfig
    GUARANTEE: ClassVar[str] = (
        "Exactly-once: an epoch is one atomic commit that carries its tag, and a replay finds the tag and is skipped."
    )

    def __init__(self, config: DeltaSinkConfig) -> None:
        self._config = config
        # In one process, without a host that knows better, every run is the same query.
        self._context = EpochContext(query_id="in-process", epoch=0)
        self._schema: pa.Schema | None = None
        self._came_as: pa.Schema | None = None
        self._collected: list[pa.RecordBatch] = []
        self._collected_rows = 0
        self._writer: TableWriter | None = None
        self._staged: list[DataFile] = []

    @property
    def connector_id(self) -> str:
        return f"delta:{self._location.shown}"

    def prepare(self, schema: pa.Schema) -> None:
        wanted = stored_schema(schema, self._config.partition_by, self._commits.where)
        table = self._location.open()
        if table is None:
            if not self._config.create_if_missing:
                raise ConfigError(
                    f"There is no {self._commits.where}, and create_if_missing is false. Correct 'table_uri', or make "
                    "the table."
                )
            self._commits.create(wanted)
            table = self._location.open()
            assert table is not None
        new = missing_columns(table, wanted) if self._config.merge_schema else []
        if new:
            # What else is wrong with the table or the query is said before anything is changed.
            known = pa.schema([field for field in wanted if field.name not in new])
            check_table(table, known, self._config.partition_by, self._commits.where)
            self._add_columns(table, wanted, new)
            table = self._location.open()
            assert table is not None
        check_table(table, wanted, self._config.partition_by, self._commits.where)
        if self._context.replace:
            check_replaceable(table, self._commits.where)

    def begin(self, context: EpochContext) -> None:
        self._context = context

    def write(self, record: StreamRecord) -> None:
        if not record.num_rows:
            return
        if self._came_as is None:
            self._came_as = record.batch.schema
            self._schema = stored_schema(self._came_as, self._config.partition_by, self._commits.where)
        elif not record.batch.schema.equals(self._came_as):
            raise SinkError(f"A batch has schema {record.batch.schema} where those before it had {self._came_as}.")
        self._collected.append(record.batch)
        self._collected_rows += record.num_rows
        if self._collected_rows >= self._config.max_records:
            self._pass_on()

    def flush(self) -> None:
        self._pass_on()
        if self._writer is not None:
            with translated(f"Writing files of {self._commits.where}"):
                self._staged += self._writer.close()
            self._writer = None

    def staged(self) -> bytes:
        schema = None if self._schema is None else self._schema.serialize().to_pybytes().hex()
        return json.dumps({"schema": schema, "files": [asdict(file) for file in self._staged]}).encode()

    def adopt(self, staged: Sequence[bytes]) -> None:
        for message in map(json.loads, staged):
            if message["schema"] is None:
                continue
            schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(message["schema"])))
            if self._schema is not None and not schema.equals(self._schema):
                raise SinkError(f"Tasks of one epoch wrote different schemas: {schema} and {self._schema}.")
            self._schema = schema
            self._staged += [DataFile(**file) for file in message["files"]]

    def on_checkpoint(self, epoch: int) -> None:
        context = EpochContext(
            self._context.query_id, epoch, streaming=self._context.streaming, replace=self._context.replace
        )
        self._commits.publish(Staged(self._schema, self._staged), context)
        self._staged = []

    def discard(self) -> None:
        self._commits.discard(Staged(self._schema, self._staged))
        self._staged = []

    def _pass_on(self) -> None:
        """Give what was collected to the writers of its partitions."""
        if not self._collected:
            return
        config, schema = self._config, self._schema
        assert schema is not None
        with translated(f"Writing files of {self._commits.where}"):
            if self._writer is None:
                self._writer = TableWriter(
                    self._location.files(), schema, config.partition_by, config.compression, config.target_file_size
                )
            rows = pa.Table.from_batches(self._collected)
            self._writer.write(rows if rows.schema.equals(schema) else rows.cast(schema))
        self._collected, self._collected_rows = [], 0

    def _add_columns(self, table: Any, schema: pa.Schema, names: Sequence[str]) -> None:
        from deltalake import Schema

        fields = Schema.from_arrow(pa.schema([schema.field(name) for name in names])).fields
        with translated(f"Adding columns {', '.join(names)} to {self._commits.where}"):
            table.alter.add_columns(fields)

    @cached_property
    def _location(self) -> TableLocation:
        options = {**self._config.storage_options, **self._config.storage_secrets}
        return TableLocation(
            self._config.table_uri, {name: value.get_secret_value() for name, value in options.items()}
        )

    @cached_property
    def _commits(self) -> TableCommits:
        config = self._config
        return TableCommits(
            self._location,
            config.pipeline_id,
            config.adopt_pipeline,
            config.partition_by,
            config.table_properties,
            config.user_metadata,
        )
