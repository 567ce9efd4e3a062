"""Bytes of objects by obstore, for any cloud: a cloud's package says how a store is made and what its errors mean."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, PreconditionError, UnauthenticatedError

from volley_connectors.blob.ranged_file import Part
from volley_core import BlobChangedError, BlobNotFoundError, ConfigError, TransientError, VolleyError

ObjectStore: TypeAlias = Any

CLIENT_OPTIONS: Any = {
    "user_agent": "volley",
    "connect_timeout": timedelta(seconds=10),
    # Until an answer stalls, and until it is over.
    "read_timeout": timedelta(seconds=60),
    "timeout": timedelta(minutes=5),
}
RETRY_CONFIG: Any = {"max_retries": 4, "retry_timeout": timedelta(minutes=3)}
"""Throttling, server errors and answers that break off are tried again, with backoff and jitter."""

_EMPTY_OBJECT = 416
_STATUS = re.compile(r"non-2xx status code: (\d+)")
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_REDIRECT = "Received redirect"

_LATER = "Trying again later may help."
_ROWS: tuple[tuple[type[Exception], type[VolleyError], str, str], ...] = (
    (FileNotFoundError, BlobNotFoundError, "the object is gone", ""),
    (PreconditionError, BlobChangedError, "the object was overwritten after it was announced", ""),
    (PermissionDeniedError, ConfigError, "access is denied", " Allow this identity to read it."),
    (UnauthenticatedError, ConfigError, "the credentials are not accepted", " Correct or renew them."),
    (BaseError, TransientError, "the store could not answer", f" {_LATER}"),
)


class UnsuitedError(Exception):
    """obstore cannot do this; the cloud's own SDK may. Never leaves a cloud's package."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a store answered instead of bytes. Where it sent no document, `code` is the status."""

    status: int
    code: str
    message: str


Explain: TypeAlias = Callable[[Refusal, str], VolleyError | None]
"""What a refusal means in a cloud's own words, told what was being done; None where it has none. May raise Unsuited."""


class ObstoreTransfer:
    """Fetches ranges of objects. Its stores are made on use, one per bucket; it may be asked from several threads."""

    def __init__(
        self,
        make_store: Callable[[str], ObjectStore],
        pin: Callable[[str], Mapping[str, str]],
        spell: Callable[[Mapping[str, Any]], str],
        explain: Explain,
    ) -> None:
        """`pin`: the options of a request that must read this version. `spell`: the version that an answer is of."""
        self._make_store = make_store
        self._pin = pin
        self._spell = spell
        self._explain = explain
        self._lock = threading.Lock()
        self._stores: dict[str, ObjectStore] = {}

    def fetch(self, uri: str, bucket: str, path: str, start: int, length: int, version: str) -> Part:
        """Part of an object, as `ranged_file.Fetch` asks for it. Raises UnsuitedError for what obstore cannot do."""
        if not can_name(path):
            raise UnsuitedError(f"obstore cannot name {path!r}")
        store = self._store(bucket)
        options: Any = dict(self._pin(version))
        try:
            try:
                answer = obstore.get(store, path, options=options | {"range": (start, start + length)})
                data = answer.bytes()
            except BaseError as error:
                # Every range of an empty object is refused.
                if start or _status(error) != _EMPTY_OBJECT:
                    raise
                answer = obstore.get(store, path, options=options)
                data = answer.bytes()
        except (BaseError, FileNotFoundError) as error:
            raise self._translate(error, f"Reading {uri}") from error
        return Part(data, answer.meta["size"], self._spell(answer.meta))

    def close(self) -> None:
        with self._lock:
            self._stores.clear()

    def _store(self, bucket: str) -> ObjectStore:
        with self._lock:
            if bucket not in self._stores:
                self._stores[bucket] = self._make_store(bucket)
            return self._stores[bucket]

    def _translate(self, error: Exception, doing: str) -> VolleyError:
        said = str(error).partition("\n\nDebug source")[0]
        if _REDIRECT in said:
            raise UnsuitedError("obstore follows no redirect to another region")
        status = _status(error)
        if status is not None:
            code, message = _CODE.search(said), _MESSAGE.search(said)
            refusal = Refusal(status, code[1] if code else str(status), message[1] if message else "")
            explained = self._explain(refusal, doing)
            if explained is not None:
                return explained
        kind, what, advice = next(row[1:] for row in _ROWS if isinstance(error, row[0]))
        return kind(f"{doing}: {what} ({said}).{advice}")


def can_name(path: str) -> bool:
    """Whether obstore reads exactly the object of this name: it drops or refuses what looks like a path's detour."""
    return path.isprintable() and not {"", ".", ".."} & set(path.split("/"))


def _status(error: Exception) -> int | None:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None
