"""Deletes or archives objects once their rows are safe: the option `clean_source`.

Works in a thread of its own on the driver, which no epoch waits for. It is told up to where Spark's commit log reaches:
no replay will ask for objects of those epochs. A crash at any point leaves an epoch without its mark, and the next run
goes through it again.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from volley_connectors.blob.cleaned import CleaningLog
from volley_connectors.blob.config import BlobSourceConfig
from volley_connectors.blob.manifests import ManifestLog
from volley_connectors.blob.reports import BlobReport, Reports
from volley_connectors.state import StateStore
from volley_core import BlobReader, BlobRef, BlobRemover, ConfigError

log = logging.getLogger(__name__)

_AT_ONCE = 8
_CHUNK = 100
_MOST_PER_SECOND = 500
"""Of objects, so that the store has room for whoever reads and writes there."""
_RETRY_SECONDS = 60.0
_WARN_SECONDS = 600.0
_LAST_SECONDS = 60.0
"""How long the end of an available-now run waits for what is due; the next run goes on."""
_CLOSING_SECONDS = 5.0


def check_cleaning(name: str, config: BlobSourceConfig, reader: BlobReader, prefix: str) -> None:
    """Raise ConfigError if `clean_source` cannot work here."""
    if config.clean_source == "off":
        return
    if not isinstance(reader, BlobRemover):
        raise ConfigError(
            f"{name}: clean_source = {config.clean_source} cannot be used: {type(reader).__name__} can only read. Set "
            "it to 'off'."
        )
    if config.clean_source == "archive" and f"{config.archive_path}/".startswith(prefix):
        raise ConfigError(
            f"{name}: archive_path {config.archive_path!r} lies within the source, where archived objects would be "
            f"found as new ones. Give a place outside of {prefix!r}."
        )


class Cleaner:
    """Takes away what was read, oldest epoch first."""

    def __init__(self, name: str, config: BlobSourceConfig, remover: BlobRemover, prefix: str) -> None:
        assert config.state_location is not None
        self._name = name
        self._config = config
        self._remover = remover
        self._prefix = prefix
        state = StateStore(config.state_location)
        self._manifests, self._reports, self._done = ManifestLog(state), Reports(state), CleaningLog(state)
        self._open: deque[int] = deque()
        self._failed: dict[int, float] = {}
        """Epochs of which something could not be taken away, and when to try again."""
        self._known = self._committed = 0
        self._rest_until = 0.0
        self._warn_at = 0.0
        self._calls = self._served = 0
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def committed(self, number: int, is_last_call: bool) -> None:
        """Epochs up to this one are in Spark's commit log. Waits only if no epoch is to come any more."""
        with self._changed:
            self._committed = number
            self._calls += 1
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="volley-cleaning", daemon=True)
                self._thread.start()
            if is_last_call:
                self._changed.wait_for(lambda: self._served == self._calls, _LAST_SECONDS)

    def close(self) -> None:
        """Stop after the objects in hand."""
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSING_SECONDS)

    def _run(self) -> None:
        calls = 0
        while not self._stopped.is_set():
            try:
                self._round()
                pause = self._pause()
            except Exception as error:
                self._warn(f"cannot look for what to clean: {error}")
                pause = _RETRY_SECONDS
            calls = self._wait(calls, pause)

    def _wait(self, served: int, seconds: float | None) -> int:
        """Until there was another call than those that are served, or the time is over. The number of calls then."""
        with self._changed:
            self._served = served
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped.is_set() or self._calls != served, seconds)
            return self._calls

    def _round(self) -> None:
        """Whatever is due now."""
        for number in [number for number, due in self._failed.items() if due <= time.time()]:
            del self._failed[number]
            self._attempt(number)
        committed = self._committed
        if committed > self._known:
            self._open.extend(self._unmarked() if not self._known else range(self._known + 1, committed + 1))
            self._known = max(committed, *self._open) if self._open else committed
        while self._open and self._open[0] <= committed and self._rest_until <= time.time():
            if self._stopped.is_set() or not self._attempt(self._open[0]):
                return
            self._open.popleft()

    def _unmarked(self) -> Iterator[int]:
        """Epochs of this and earlier runs. Marks of those whose manifests are forgotten by now are forgotten too."""
        there, done = self._manifests.numbers(), self._done.numbers()
        for number in done.difference(there):
            self._done.delete(number)
        return (number for number in there if number not in done)

    def _pause(self) -> float | None:
        """How long there is nothing to do unless more is committed."""
        moments = [*self._failed.values()]
        if self._open and self._open[0] <= self._committed:
            moments.append(self._rest_until)
        return max(0.0, min(moments) - time.time()) if moments else None

    def _attempt(self, number: int) -> bool:
        """Clean an epoch, or put it off. False if it is too young, and hence all that follow are."""
        try:
            return self._clean(number)
        except Exception as error:
            self._failed[number] = time.time() + _RETRY_SECONDS
            self._warn(f"could not {self._config.clean_source} all objects of epoch {number}: {error}")
        return True

    def _clean(self, number: int) -> bool:
        try:
            planned_ms, entries = self._manifests.planned(number)
        except ConfigError:
            # Forgotten, as old ones are.
            return True
        reports = self._reports.outcomes(number)
        read_ms = max([planned_ms, *(report.read_ms for report in reports.values())])
        self._rest_until = read_ms / 1000 + self._config.clean_source_retention
        if self._rest_until > time.time():
            return False
        read = [entry.blob for entry in entries if _is_read(reports.get(entry.blob.identity))]
        wanted = [blob for blob in read if self._may_go(blob, reports[blob.identity])]
        gone = {blob.identity for blob, is_gone in self._remove(wanted) if is_gone}
        if self._stopped.is_set():
            return False
        kept = [blob for blob in read if blob.identity not in gone]
        self._done.write(number, "deleted" if self._config.clean_source == "delete" else "archived", kept)
        if wanted:
            log.info("%s: cleaned %d objects of epoch %d, kept %d", self._name, len(gone), number, len(kept))
        return True

    def _may_go(self, blob: BlobRef, report: BlobReport) -> bool:
        # What was dropped stands nowhere else; without a version one could delete what was never read.
        is_whole = not report.bad or self._config.on_bad_record != "drop"
        return is_whole and bool(blob.version) and blob.uri.startswith(self._prefix)

    def _remove(self, blobs: list[BlobRef]) -> Iterator[tuple[BlobRef, bool]]:
        """Some at a time. One that fails spares no other; its error comes at the end."""
        errors: list[Exception] = []

        def remove(blob: BlobRef) -> tuple[BlobRef, bool]:
            try:
                if self._config.clean_source == "delete":
                    return blob, self._remover.delete(blob)
                return blob, self._remover.move(blob, self._archived(blob))
            except Exception as error:
                errors.append(error)
                return blob, False

        with ThreadPoolExecutor(_AT_ONCE, "volley-cleaning") as pool:
            for begin in range(0, len(blobs), _CHUNK):
                began = time.monotonic()
                chunk = blobs[begin : begin + _CHUNK]
                yield from pool.map(remove, chunk)
                if self._stopped.wait(max(0.0, len(chunk) / _MOST_PER_SECOND - (time.monotonic() - began))):
                    return
        if errors:
            raise errors[0]

    def _archived(self, blob: BlobRef) -> str:
        """Where an object goes: its path below the source's last folder, with the version where there are several."""
        path = blob.uri[self._prefix.rfind("/") + 1 :]
        if self._config.allow_overwrites:
            folder, slash, name = path.rpartition("/")
            stem, dot, endings = name.partition(".")
            path = f"{folder}{slash}{stem}.{re.sub('[^A-Za-z0-9._-]', '', blob.version)}{dot}{endings}"
        return f"{self._config.archive_path}/{path}"

    def _warn(self, what: str) -> None:
        if time.monotonic() >= self._warn_at:
            self._warn_at = time.monotonic() + _WARN_SECONDS
            log.warning("%s: clean_source %s. It is tried again.", self._name, what)


def _is_read(report: BlobReport | None) -> bool:
    return report is not None and report.state == "read"
