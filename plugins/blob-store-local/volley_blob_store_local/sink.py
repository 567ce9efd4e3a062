"""Parquet files in a directory, one subdirectory per epoch.

    path/epoch=0000000007/part-....parquet    published: readers see a whole epoch or nothing of it
    path/_staging/                            what tasks wrote and nobody has published yet
    path/_volley/                             which epochs of which pipelines are here, see commits.py

Tasks write into `_staging`; the driver gathers an epoch's files in one folder there and publishes it by a single
rename. Readers of Hive-style directories, Spark among them, skip names that begin with an underscore.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from volley_blob_store_local.commits import PARTITION, TAG, Commit, CommitLog, write_durably
from volley_blob_store_local.exchange import exchange
from volley_blob_store_local.part import PartWriter
from volley_blob_store_local.paths import absolute
from volley_core import ByteSize, ConfigError, EpochContext, SinkConfig, SinkError, StreamRecord
from volley_core.schema import format_schema

_STAGING = "_staging"
_DRAFT = "draft-"
_ABANDONED_SECONDS = 86_400


class FilesSinkConfig(SinkConfig):
    """Options of the sink `files`."""

    EXAMPLE = {"path": "/data/out", "pipeline_id": "events"}

    path: str = Field(min_length=1, description="The directory to write Parquet files to. It is made if need be.")
    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] = Field(
        "zstd", description="How the Parquet files are compressed."
    )
    row_group_bytes: ByteSize = Field(
        64 * 1024 * 1024,
        gt=0,
        description="Batches are pooled up to this size in memory before a row group is written.",
    )


class FilesSink:
    """Parquet files in a directory, each epoch published by one rename."""

    Config: ClassVar[type[FilesSinkConfig]] = FilesSinkConfig
    GUARANTEE: ClassVar[str] = (
        "Exactly-once: an epoch appears whole by one rename, and a replay finds it and is skipped."
    )

    def __init__(self, config: FilesSinkConfig) -> None:
        self._config = config
        self._path = Path(absolute(config.path))
        # In one process, without a host that knows better, every run is the same query.
        self._context = EpochContext(query_id="in-process", epoch=0)
        self._part: PartWriter | None = None
        self._staged: list[str] = []

    @property
    def connector_id(self) -> str:
        return f"files:{self._path}"

    def prepare(self, schema: pa.Schema) -> None:
        self._refuse_other_files()
        if PARTITION in schema.names:
            raise ConfigError(
                f"{self.connector_id}: a column named {PARTITION!r} would collide with the directories "
                f"{PARTITION}=..., which readers show as a column. Rename it in the query."
            )
        held = None if self._context.replace else self._held_schema()
        if held is not None and _shape(held) != _shape(schema):
            raise ConfigError(
                f"{self.connector_id}: the directory holds rows of another schema.\n  there: {_show(held)}\n"
                f"  query: {_show(schema)}\nCast the query's columns, or write to another path."
            )
        self._staging.mkdir(parents=True, exist_ok=True)

    def begin(self, context: EpochContext) -> None:
        self._context = context
        # Refused here already, before a task does work that the driver would refuse.
        self._commits.check(context)

    def write(self, record: StreamRecord) -> None:
        if not record.num_rows:
            return
        if self._part is None:
            self._staging.mkdir(parents=True, exist_ok=True)
            compression, pool_bytes = self._config.compression, self._config.row_group_bytes
            self._part = PartWriter(self._staging, self._context, record.batch.schema, compression, pool_bytes)
        self._part.write(record.batch)

    def flush(self) -> None:
        if self._part is not None:
            self._staged.append(self._part.close())
            self._part = None

    def staged(self) -> bytes:
        return json.dumps(self._staged).encode()

    def adopt(self, staged: Sequence[bytes]) -> None:
        self._staged = [name for part in staged for name in json.loads(part)]

    def on_checkpoint(self, epoch: int) -> None:
        commits = self._commits
        with commits.locked():
            if commits.holds(self._context, epoch):
                self._sweep(epoch)
            elif self._context.replace and commits.numbers():
                self._replace(commits.plan(self._context, epoch))
            else:
                self._publish(commits.plan(self._context, epoch))
                self._sweep(epoch)
        self._staged = []

    def discard(self) -> None:
        for name in self._staged:
            (self._staging / name).unlink(missing_ok=True)
        self._staged = []

    @property
    def _staging(self) -> Path:
        return self._path / _STAGING

    @property
    def _commits(self) -> CommitLog:
        return self._commits_at(self._path)

    def _commits_at(self, path: Path) -> CommitLog:
        return CommitLog(path, self._config.pipeline_id, self._config.adopt_pipeline)

    def _publish(self, commit: Commit) -> None:
        if not self._staged:
            # Nothing to show, but from now on the pipeline is this query's.
            self._commits.record(self._context, replace(commit, number=None))
            return
        assert commit.number is not None
        draft = self._staging / f"{_DRAFT}{secrets.token_hex(8)}"
        draft.mkdir()
        self._gather(draft, commit)
        self._commits.record(self._context, commit)
        draft.rename(self._commits.folder(commit.number))
        _sync_folder(self._path)

    def _replace(self, commit: Commit) -> None:
        """Build the whole directory anew beside the old one, memory included, and let the two change places."""
        assert commit.number is not None
        for left_over in self._path.parent.glob(f".{escape(self._path.name)}.volley-*"):
            shutil.rmtree(left_over)
        fresh = self._path.with_name(f".{self._path.name}.volley-{secrets.token_hex(8)}")
        (fresh / _STAGING).mkdir(parents=True)
        commits = self._commits_at(fresh)
        self._commits.carry_over(commits)
        if self._staged:
            commits.folder(commit.number).mkdir()
            self._gather(commits.folder(commit.number), commit)
        commits.record(self._context, replace(commit, number=None))
        if not exchange(fresh, self._path):
            shutil.rmtree(fresh)
            raise ConfigError(
                f"{self.connector_id}: this file system cannot replace a directory in one step, and readers must not "
                "see half of it. Write in mode append, write to a new path, or use a table format."
            )
        _sync_folder(self._path.parent)
        self._keep_foreign_staging(fresh / _STAGING)
        shutil.rmtree(fresh)

    def _gather(self, folder: Path, commit: Commit) -> None:
        """The staged files and the commit's tag, in a folder that is not visible yet."""
        for name in self._staged:
            try:
                # A second name, not a new one: if this driver dies, another can still adopt the staged file.
                os.link(self._staging / name, folder / name)
            except FileNotFoundError:
                raise SinkError(
                    f"{self.connector_id}: staged file {name} is gone, so its epoch cannot be published. Nothing else "
                    f"may clean {self._staging}; executors and driver must share this directory. Restart the query."
                ) from None
        write_durably(folder / TAG, commit.to_json())
        _sync_folder(folder)

    def _keep_foreign_staging(self, staging: Path) -> None:
        """Tasks of other queries may have staged files in the directory that was just replaced."""
        own = PartWriter.prefix(self._context)
        for file in staging.glob("part-*"):
            if not file.name.startswith(own):
                file.rename(self._staging / file.name)

    def _sweep(self, epoch: int) -> None:
        """Under the lock, after an epoch: remove what it and earlier ones staged, and what anyone abandoned."""
        own = PartWriter.prefix(self._context)
        long_ago = time.time() - _ABANDONED_SECONDS
        for file in self._staging.glob("part-*"):
            with suppress(FileNotFoundError):
                over = file.name.startswith(own) and PartWriter.epoch_of(file.name) <= epoch
                if over or file.stat().st_mtime < long_ago:
                    file.unlink()
        for draft in self._staging.glob(f"{_DRAFT}*"):
            shutil.rmtree(draft)
        self._commits.forget_batches()

    def _refuse_other_files(self) -> None:
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._path)):
                if name[0] not in "._" and not name.startswith(f"{PARTITION}="):
                    raise ConfigError(
                        f"{self.connector_id}: the directory holds other things, such as {name!r}. Readers would mix "
                        "them up with the epochs: give the option 'path' a directory of its own."
                    )

    def _held_schema(self) -> pa.Schema | None:
        for number in reversed(self._commits.numbers()):
            for file in self._commits.folder(number).glob("*.parquet"):
                return pq.read_schema(file)
        return None


def _shape(schema: pa.Schema) -> str:
    """Names and types as Spark sees them: nullability and the spelling of a time zone do not matter to a reader."""
    return _show(pa.schema([field.with_nullable(True) for field in schema]))


def _show(schema: pa.Schema) -> str:
    try:
        return format_schema(schema)
    except ValueError:
        return ", ".join(f"{field.name} {field.type}" for field in schema)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
