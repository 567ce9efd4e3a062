"""Finds new files by asking the operating system to tell of them.

Listings must fill the gaps: the system tells nothing of what was there before or lies on a network mount, and may lose
events. A thread of watchdog collects paths; everything else happens in `poll`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any

from volley_blob_store_local.reader import FileBlobReader
from volley_core import BlobNotFoundError, BlobRef, Notification

_WAIT_SECONDS = 0.05


class Watcher:
    """A NotificationSource over a directory: what was closed or renamed there, at once."""

    def __init__(self, reader: FileBlobReader, folder: str) -> None:
        self._reader = reader
        self._folder = folder
        self._changed: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._observer: Any = None

    def __reduce__(self) -> tuple[type[Watcher], tuple[FileBlobReader, str]]:
        return (Watcher, (self._reader, self._folder))

    @property
    def connector_id(self) -> str:
        return f"watcher:{self._folder}"

    def poll(self, max_notifications: int) -> Sequence[Notification]:
        with self._starting:
            self._watch()
        return [
            Notification(receipt=f"{blob.uri}\0{blob.version}", blobs=(blob,)) for blob in self._news(max_notifications)
        ]

    def ack(self, receipts: Sequence[str]) -> None:
        """Nothing: events are no messages."""

    def extend(self, receipts: Sequence[str], seconds: float) -> None:
        """Nothing: events are no messages."""

    def release(self, receipts: Sequence[str]) -> None:
        """Nothing: events are no messages."""

    def close(self) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(timeout=5)
            self._observer = None

    def _news(self, most: int) -> list[BlobRef]:
        news: list[BlobRef] = []
        wait_seconds = _WAIT_SECONDS
        while len(news) < most:
            try:
                path = self._changed.get(timeout=wait_seconds) if wait_seconds else self._changed.get_nowait()
                blob = self._reader.stat(BlobRef(path))
            except queue.Empty:
                break
            except BlobNotFoundError:
                continue
            wait_seconds = 0.0
            news.append(blob)
        return news

    def _watch(self) -> None:
        if self._observer is not None:
            return
        from watchdog.events import FileClosedEvent, FileMovedEvent, FileSystemEvent, FileSystemEventHandler
        from watchdog.observers import Observer

        changed = self._changed

        class Collector(FileSystemEventHandler):  # type: ignore[misc]
            def on_closed(self, event: FileSystemEvent) -> None:
                changed.put(str(event.src_path))

            def on_moved(self, event: FileSystemEvent) -> None:
                changed.put(str(event.dest_path))

        observer = Observer()
        observer.schedule(Collector(), self._folder, recursive=True, event_filter=[FileClosedEvent, FileMovedEvent])
        observer.daemon = True
        observer.start()
        self._observer = observer
