"""Warnings about messages that cannot be read, at a limited rate: a queue full of them must not fill the log too."""

from __future__ import annotations

import logging
import threading
import time

log = logging.getLogger(__name__)

_SILENT_SECONDS = 60.0


class Complaints:
    """Warns of the first unreadable message at once, then of one a minute, with how many there were."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._silent_until = 0.0
        self._unsaid = 0

    def __reduce__(self) -> tuple[type[Complaints], tuple[()]]:
        return (Complaints, ())

    def add(self, queue: str, message_id: str, error: ValueError) -> None:
        with self._lock:
            if time.monotonic() < self._silent_until:
                self._unsaid += 1
                return
            unsaid, self._unsaid = self._unsaid, 0
            self._silent_until = time.monotonic() + _SILENT_SECONDS
        more = f" So do {unsaid} others since the last warning." if unsaid else ""
        log.warning(
            "%s: message %s stays in the queue for its redrive policy, for it cannot be read: %s.%s",
            queue,
            message_id,
            error,
            more,
        )
