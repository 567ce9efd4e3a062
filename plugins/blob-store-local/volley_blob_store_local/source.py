"""New files in a directory, as rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from volley_blob_store_local.directory_queue import DirectoryQueue, DirectoryQueueConfig
from volley_blob_store_local.paths import absolute
from volley_blob_store_local.reader import FileBlobReader, FileBlobReaderConfig
from volley_blob_store_local.sqlite_queue import SqliteQueue, SqliteQueueConfig
from volley_blob_store_local.watcher import Watcher
from volley_connectors.blob import BlobSource, BlobSourceConfig
from volley_core import ConfigError, NotificationSource, Seconds

_SQLITE_SUFFIXES = (".sqlite", ".sqlite3", ".db")


class FilesSourceConfig(BlobSourceConfig):
    """Options of the source `files`."""

    EXAMPLE = {
        "path": "/data/in",
        "format": "json",
        "schema": "id bigint, name string",
        "state_location": "/data/state",
    }

    QUEUE_OPTION = "queue"

    path: str = Field(min_length=1, description="The directory whose files are read, with all its subdirectories.")
    # Pydantic takes the wider choice; mypy knows only that subclasses should not widen what can be assigned.
    discovery: Literal["notifications", "listing", "both", "watch"] | None = Field(  # type: ignore[assignment]
        None,
        description="How new files are found: announced through a queue, by listing the directory, both, or by the "
        "system's file events and listings. Not given: through the queue if one is named. It may change between runs.",
    )
    queue: str | None = Field(
        None,
        min_length=1,
        description="The queue that announces files: a directory of messages, or a .sqlite, .sqlite3 or .db file.",
    )
    backfill_interval: Seconds = Field(
        60.0,
        gt=0,
        description="How often discovery = both or watch lists the directory, for files whose event got lost.",
    )

    @field_validator("archive_path")
    @classmethod
    def _one_spelling(cls, path: str | None) -> str | None:
        return None if path is None else absolute(path)

    @model_validator(mode="after")
    def _archive_is_elsewhere(self) -> Self:
        # Whatever names and links lead there.
        here = os.path.realpath(absolute(self.path))
        if self.archive_path is not None and Path(os.path.realpath(self.archive_path)).is_relative_to(here):
            raise ValueError(
                f"archive_path {self.archive_path!r} lies within {self.path!r}, where archived files would be found as "
                "new ones; give a directory elsewhere"
            )
        return self

    @model_validator(mode="after")
    def _queue_if_used(self) -> Self:
        if self.discovery == "watch" and self.queue is not None:
            raise ValueError("option 'queue' is not used with discovery = watch; leave one of them out")
        return self


class FilesSource(BlobSource):
    """New files in a directory, found by listing, by file events, or through a queue."""

    Config: ClassVar[type[FilesSourceConfig]] = FilesSourceConfig

    def __init__(self, config: FilesSourceConfig) -> None:
        folder = absolute(config.path).rstrip("/") + "/"
        reader = FileBlobReader(FileBlobReaderConfig())
        super().__init__(config, _queue(config, reader, folder), reader, folder)

    @property
    def connector_id(self) -> str:
        return f"files:{self._prefix}"

    @property
    def _discovery_mode(self) -> str:
        # The system forgets its events with the process, and may lose some.
        mode = super()._discovery_mode
        return "both" if mode == "watch" else mode

    def check(self) -> None:
        # Waiting for a misspelt directory would look like no news.
        if not os.path.isdir(self._prefix):
            raise ConfigError(
                f"{self.connector_id}: there is no such directory. Make it, or correct the option 'path'."
            )


def _queue(config: FilesSourceConfig, reader: FileBlobReader, folder: str) -> NotificationSource | None:
    if config.discovery == "watch":
        return Watcher(reader, folder)
    if config.queue is None or config.discovery == "listing":
        return None
    if config.queue.endswith(_SQLITE_SUFFIXES):
        return SqliteQueue(SqliteQueueConfig(path=config.queue, visibility_seconds=config.visibility_seconds))
    return DirectoryQueue(DirectoryQueueConfig(path=config.queue, visibility_seconds=config.visibility_seconds))
