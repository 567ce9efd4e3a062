"""A queue whose messages are files in a directory.

`NAME.json` is a message that waits. Taking it renames it to `NAME.json.TOKEN.taken`: of two takers one wins. Its
modification time is the moment at which it shows again, so that extending and releasing change no name; an expired
one is taken by renaming it to a new token, which makes the old receipt worthless.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from volley_blob_store_local.messages import compose, parse
from volley_blob_store_local.paths import absolute
from volley_core import ConfigError, ConnectorConfig, Notification, Seconds

log = logging.getLogger(__name__)

_TAKEN = ".taken"
_MESSAGE = ".json"


class DirectoryQueueConfig(ConnectorConfig):
    """Options of the notification source `directory-queue`."""

    EXAMPLE = {"path": "/data/queue", "visibility_seconds": "5 minutes"}

    path: str = Field(min_length=1, description="The directory that holds the messages. It is made if need be.")
    visibility_seconds: Seconds = Field(
        300.0, gt=0, description="How long a message stays hidden from others after it was taken."
    )


class DirectoryQueue:
    """Message files in a directory: {"uri": "/path/of/an/object"} or {"uris": [...]}."""

    Config: ClassVar[type[DirectoryQueueConfig]] = DirectoryQueueConfig
    GUARANTEE: ClassVar[str] = "At-least-once: a message that was taken but not acknowledged shows again."

    def __init__(self, config: DirectoryQueueConfig) -> None:
        self._config = config
        self._path = Path(absolute(config.path))
        self._complained: set[str] = set()

    @property
    def connector_id(self) -> str:
        return f"directory-queue:{self._path}"

    def send(self, *uris: str) -> str:
        """Put a message about these objects into the queue, for producers. Returns the message's id."""
        self._path.mkdir(parents=True, exist_ok=True)
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}{_MESSAGE}"
        draft = self._path / f".{name}"
        draft.write_text(compose(uris))
        draft.rename(self._path / name)
        return name

    def poll(self, max_notifications: int) -> Sequence[Notification]:
        taken: list[Notification] = []
        for file in self._ready():
            if len(taken) == max_notifications:
                break
            notification = self._take(file)
            if notification is not None:
                taken.append(notification)
        return taken

    def ack(self, receipts: Sequence[str]) -> None:
        for receipt in filter(_is_receipt, receipts):
            (self._path / receipt).unlink(missing_ok=True)

    def extend(self, receipts: Sequence[str], seconds: float) -> None:
        self._show_at(receipts, time.time() + seconds)

    def release(self, receipts: Sequence[str]) -> None:
        self._show_at(receipts, 0)

    def close(self) -> None:
        """Nothing to let go of."""

    def _ready(self) -> Iterator[Path]:
        """Messages that wait, and taken ones whose time is over, oldest name first."""
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            names = sorted(os.listdir(self._path))
        except OSError as error:
            raise ConfigError(f"The queue directory {self._path} cannot be used: {error}.") from error
        now = time.time()
        for name in names:
            file = self._path / name
            if name.startswith("."):
                continue
            if name.endswith(_MESSAGE) or (name.endswith(_TAKEN) and _shows_at(file) <= now):
                yield file

    def _take(self, file: Path) -> Notification | None:
        message_id = _message_id(file.name)
        token = f"{message_id}.{secrets.token_hex(8)}{_TAKEN}"
        try:
            blobs = parse(file.read_bytes())
            # Before the rename: a taken message must never look expired.
            hidden_until = time.time() + self._config.visibility_seconds
            os.utime(file, (hidden_until, hidden_until))
            file.rename(self._path / token)
        except FileNotFoundError:
            return None
        except ValueError as error:
            self._complain(file.name, error)
            return None
        return Notification(token, blobs, message_id)

    def _complain(self, name: str, error: ValueError) -> None:
        if name not in self._complained:
            self._complained.add(name)
            log.warning("%s: message %s stays in the queue, it cannot be read: %s", self.connector_id, name, error)

    def _show_at(self, receipts: Sequence[str], moment: float) -> None:
        for receipt in filter(_is_receipt, receipts):
            with suppress(FileNotFoundError):
                os.utime(self._path / receipt, (moment, moment))


def _message_id(name: str) -> str:
    return name.rsplit(".", 2)[0] if name.endswith(_TAKEN) else name


def _is_receipt(text: str) -> bool:
    return text.endswith(_TAKEN) and "/" not in text


def _shows_at(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
