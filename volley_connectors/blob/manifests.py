"""The manifest log: one small file per epoch that names its objects, written before Spark hears of the epoch.

It is the plan for replays and the memory for dedup at once. Files are numbered without gaps, created only if absent,
and never changed. The first has number 1; old ones are deleted once a ledger segment holds their objects.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from volley_connectors.state import StateStore
from volley_core import BlobRef, ConfigError, PipelineConflictError

_FOLDER = "manifests"
_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of an epoch, and the message that announced it."""

    blob: BlobRef
    message_id: str = ""


class ManifestLog:
    """The manifests at one state_location. Only one query may write to it."""

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._store = state / _FOLDER
        # Tells a manifest of this writer from one that a rival wrote about the same objects.
        self._writer = secrets.token_hex(8)

    def last(self, after: int = 0) -> int:
        """The highest number; `after` if there is none behind it, which is quicker to tell."""
        return max(self.numbers(after), default=after)

    def write(self, number: int, entries: Sequence[Entry]) -> None:
        """Store an epoch's objects. Raises PipelineConflictError if another writer has this number."""
        data = _encode(number, self._writer, entries)
        if self._store.create(_name(number), data):
            return
        # A store may have taken the file although the first answer got lost, and then refuse the retry.
        if self._store.read(_name(number)) != data:
            raise PipelineConflictError(
                f"Another query wrote manifest {number} at state_location {self._state.shown!r}. Each query needs a "
                "state_location of its own: give this one another, or stop the other query. If there is no other, an "
                "earlier run of this one was still alive: restart this one."
            )

    def read(self, number: int) -> list[Entry]:
        """An epoch's objects. Raises ConfigError if they are not where they should be."""
        return self.planned(number)[1]

    def planned(self, number: int) -> tuple[int, list[Entry]]:
        """When an epoch was planned, in milliseconds, and its objects. Raises ConfigError as `read` does."""
        try:
            data = self._store.read(_name(number))
        except FileNotFoundError:
            raise self._missing(number) from None
        return int(json.loads(data[: data.index(b"\n")])["written_ms"]), _decode(data)

    def require(self, number: int) -> None:
        """Raise ConfigError if this manifest is not where it should be."""
        if not self.has(number):
            raise self._missing(number)

    def has(self, number: int) -> bool:
        return self._store.exists(_name(number))

    def numbers(self, after: int = 0) -> list[int]:
        """Of all manifests that are there, or of those behind one, in order."""
        return [_number(name) for name in self._store.names(_name(after)) if name.endswith(".json")]

    def older(self, limit: int, than_ms: int) -> list[int]:
        """Of those up to a number that were written before a time, in order."""
        files = (file for file in self._store.files() if file.name <= _name(limit) and file.name.endswith(".json"))
        return [_number(file.name) for file in files if file.modified_ms < than_ms]

    def delete(self, number: int) -> None:
        self._store.delete(_name(number))

    def _missing(self, number: int) -> ConfigError:
        where = f"state_location {self._state.shown!r}"
        first = min(self.numbers(), default=0)
        if number < first:
            return ConfigError(
                f"Manifest {number} expired: {where} keeps manifests for the time of the option 'manifest_retention', "
                f"now from {first} on. A checkpoint from before, or a new one, cannot go on there without reading "
                "objects twice or not at all: use the newest checkpoint of this query, or begin with a new checkpoint "
                "and a new state_location."
            )
        return ConfigError(
            f"Manifest {number} is not at {where}, but the checkpoint refers to it. Restore that folder or correct the "
            "option; otherwise begin with a new checkpoint."
        )


def _name(number: int) -> str:
    return f"{number:0{_DIGITS}d}.json"


def _number(name: str) -> int:
    return int(name.removesuffix(".json"))


def _encode(number: int, writer: str, entries: Sequence[Entry]) -> bytes:
    head = {
        "manifest": number,
        "writer": writer,
        "written_ms": time.time_ns() // 1_000_000,
        "objects": len(entries),
        "bytes": sum(entry.blob.size for entry in entries),
    }
    lines = [head, *(_to_json(entry) for entry in entries)]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()


def _to_json(entry: Entry) -> dict[str, Any]:
    blob = entry.blob
    values = {
        "uri": blob.uri,
        "size": blob.size,
        "version": blob.version,
        "sequencer": blob.sequencer,
        "event_time_ms": blob.event_time_ms,
        "message_id": entry.message_id,
    }
    return {key: value for key, value in values.items() if value not in ("", None)}


def _decode(data: bytes) -> list[Entry]:
    entries = []
    for line in data.splitlines()[1:]:
        values = json.loads(line)
        message_id = values.pop("message_id", "")
        entries.append(Entry(BlobRef(**values), message_id))
    return entries
