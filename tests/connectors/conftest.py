"""A blob source's world in memory: a store, a queue and a state_location, among which sources come and go."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from volley_connectors.blob import BlobSource, BlobSourceConfig
from volley_core import BlobChangedError, BlobNotFoundError, BlobRef, Notification, TransientError


class Store:
    """Objects in memory, each with a version that counts up."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[str, bytes, int]] = {}
        self.versions = itertools.count(1)
        self.time_ms = 1_700_000_000_000
        """When whatever is put from now on was written."""

    def put(self, uri: str, *ids: int, data: bytes | None = None) -> BlobRef:
        content = data if data is not None else b"".join(b'{"id":%d}\n' % i for i in ids)
        self.objects[uri] = (str(next(self.versions)), content, self.time_ms)
        return self.stat(BlobRef(uri))

    def open(self, ref: BlobRef) -> BinaryIO:
        now = self.stat(ref)
        if ref.version and now.version != ref.version:
            raise BlobChangedError(f"{ref.uri} was overwritten")
        return io.BytesIO(self.objects[ref.uri][1])

    def list(self, prefix: str) -> Iterator[BlobRef]:
        return (self.stat(BlobRef(uri)) for uri in sorted(self.objects) if uri.startswith(prefix))

    def stat(self, ref: BlobRef) -> BlobRef:
        if ref.uri not in self.objects:
            raise BlobNotFoundError(f"{ref.uri} is gone")
        version, content, time_ms = self.objects[ref.uri]
        return BlobRef(ref.uri, len(content), version, event_time_ms=time_ms)

    def delete(self, ref: BlobRef) -> bool:
        if ref.uri in self.objects and self.stat(ref).version == ref.version:
            del self.objects[ref.uri]
        return ref.uri not in self.objects

    def move(self, ref: BlobRef, uri: str) -> bool:
        """In two steps, as a store does it."""
        if ref.uri not in self.objects:
            return uri in self.objects
        if self.stat(ref).version != ref.version:
            return False
        self.objects[uri] = self.objects[ref.uri]
        return self.delete(ref)


class Queue:
    """A queue whose messages show again when a test says so; receipts change at each delivery."""

    connector_id = "queue:test"

    def __init__(self) -> None:
        self.messages: dict[str, tuple[BlobRef, ...]] = {}
        self.visible: list[str] = []
        self.receipts: dict[str, str] = {}
        self.extended: list[str] = []
        self.polls = 0
        self.down = False
        self.tokens, self.numbers = itertools.count(1), itertools.count(1)
        self.lock = threading.Lock()

    def send(self, *blobs: BlobRef) -> str:
        message = f"m{next(self.numbers)}"
        self.messages[message] = blobs
        self.visible.append(message)
        return message

    def show_all(self) -> None:
        """Every visibility timeout is over."""
        self.receipts.clear()
        self.visible = list(self.messages)

    def poll(self, max_notifications: int) -> Sequence[Notification]:
        self.polls += 1
        taken, self.visible = self.visible[:max_notifications], self.visible[max_notifications:]
        found = []
        for message in taken:
            receipt = f"r{next(self.tokens)}"
            self.receipts[receipt] = message
            found.append(Notification(receipt, self.messages[message], message))
        return found

    def ack(self, receipts: Sequence[str]) -> None:
        if self.down:
            raise TransientError("the queue does not answer")
        for receipt in receipts:
            self.messages.pop(self.receipts.pop(receipt, ""), None)

    def extend(self, receipts: Sequence[str], seconds: float) -> None:
        with self.lock:
            self.extended += receipts

    def release(self, receipts: Sequence[str]) -> None:
        for receipt in receipts:
            message = self.receipts.pop(receipt, None)
            if message in self.messages:
                self.visible.append(message)

    def close(self) -> None:
        pass


class World:
    """One store, one queue and one state_location; sources come and go."""

    def __init__(self, path: Path) -> None:
        self.store, self.queue, self.state = Store(), Queue(), str(path / "state")
        self.made: list[BlobSource] = []

    def source(self, **options: Any) -> BlobSource:
        settings = {"schema": "id bigint", "state_location": self.state, "include_existing_files": False}
        # Its objects are as old as the tests like them.
        settings |= {"max_file_age": "36500 days"} | options
        config = BlobSourceConfig(**{key: value for key, value in settings.items() if value is not None})
        self.made.append(BlobSource(config, self.queue, self.store, "mem://b/"))
        return self.made[-1]

    def announce(self, name: str, *ids: int) -> str:
        return self.queue.send(self.store.put(f"mem://b/{name}", *ids))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    for source in world.made:
        source.close()
