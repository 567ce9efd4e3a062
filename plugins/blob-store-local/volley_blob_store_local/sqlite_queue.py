"""A queue in one SQLite file, for any number of processes on one machine."""

from __future__ import annotations

import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from volley_blob_store_local.messages import compose, parse
from volley_blob_store_local.paths import absolute
from volley_core import ConfigError, ConnectorConfig, Notification, Seconds, TransientError

log = logging.getLogger(__name__)

_TABLE = """
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    body TEXT NOT NULL,
    shows_at REAL NOT NULL DEFAULT 0,
    receipt TEXT,
    unreadable INTEGER NOT NULL DEFAULT 0
)
"""
_INDEX = "CREATE INDEX IF NOT EXISTS ready ON messages (unreadable, shows_at)"
_READY = "SELECT id, body FROM messages WHERE unreadable = 0 AND shows_at <= ? ORDER BY id LIMIT ?"


class SqliteQueueConfig(ConnectorConfig):
    """Options of the notification source `sqlite-queue`."""

    EXAMPLE = {"path": "/data/queue.sqlite", "visibility_seconds": "5 minutes"}

    path: str = Field(min_length=1, description="The SQLite file. It is made if need be.")
    visibility_seconds: Seconds = Field(
        300.0, gt=0, description="How long a message stays hidden from others after it was taken."
    )


class SqliteQueue:
    """Messages in an SQLite file: {"uri": "/path/of/an/object"} or {"uris": [...]}."""

    Config: ClassVar[type[SqliteQueueConfig]] = SqliteQueueConfig
    GUARANTEE: ClassVar[str] = "At-least-once: a message that was taken but not acknowledged shows again."

    def __init__(self, config: SqliteQueueConfig) -> None:
        self._config = config
        self._path = Path(absolute(config.path))
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def __reduce__(self) -> tuple[type[SqliteQueue], tuple[SqliteQueueConfig]]:
        return (type(self), (self._config,))

    @property
    def connector_id(self) -> str:
        return f"sqlite-queue:{self._path}"

    def send(self, *uris: str) -> str:
        """Put a message about these objects into the queue, for producers. Returns the message's id."""
        return self.send_body(compose(uris))

    def send_body(self, body: str) -> str:
        """Put a message into the queue as it is."""
        with self._transaction() as connection:
            return str(connection.execute("INSERT INTO messages (body) VALUES (?)", (body,)).lastrowid)

    def poll(self, max_notifications: int) -> Sequence[Notification]:
        # An idle query polls all the time: it must not take the write lock for nothing.
        if not self._rows(max_notifications):
            return []
        with self._transaction() as connection:
            ready = connection.execute(_READY, (time.time(), max_notifications)).fetchall()
            taken = [self._take(connection, number, body) for number, body in ready]
        return [notification for notification in taken if notification is not None]

    def ack(self, receipts: Sequence[str]) -> None:
        self._update("DELETE FROM messages WHERE id = ? AND receipt = ?", map(_key, receipts))

    def extend(self, receipts: Sequence[str], seconds: float) -> None:
        self._show_at(time.time() + seconds, receipts)

    def release(self, receipts: Sequence[str]) -> None:
        self._show_at(0, receipts)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _rows(self, limit: int) -> list[Any]:
        with self._errors(), self._lock:
            return self._connect().execute(_READY, (time.time(), limit)).fetchall()

    def _take(self, connection: sqlite3.Connection, number: int, body: str) -> Notification | None:
        try:
            blobs = parse(body)
        except ValueError as error:
            log.warning("%s: message %d stays in the queue, it cannot be read: %s", self.connector_id, number, error)
            connection.execute("UPDATE messages SET unreadable = 1 WHERE id = ?", (number,))
            return None
        token = secrets.token_hex(8)
        hidden_until = time.time() + self._config.visibility_seconds
        connection.execute("UPDATE messages SET receipt = ?, shows_at = ? WHERE id = ?", (token, hidden_until, number))
        return Notification(f"{number}:{token}", blobs, str(number))

    def _show_at(self, moment: float, receipts: Sequence[str]) -> None:
        rows = ((moment, *_key(receipt)) for receipt in receipts)
        self._update("UPDATE messages SET shows_at = ? WHERE id = ? AND receipt = ?", rows)

    def _update(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        with self._transaction() as connection:
            connection.executemany(statement, rows)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._errors(), self._lock:
            connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise TransientError(f"Queue {self._path}: {error}.") from error
        except sqlite3.DatabaseError as error:
            raise ConfigError(f"Queue {self._path} is not a usable SQLite file: {error}.") from error

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"The queue's folder {self._path.parent} cannot be made: {error}.") from error
            # One connection for all threads, behind the lock; transactions are begun by hand.
            connection = sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(_TABLE)
            connection.execute(_INDEX)
            self._connection = connection
        return self._connection


def _key(receipt: str) -> tuple[str, str]:
    number, _, token = receipt.partition(":")
    return number, token
