"""Any of obstore's stores behind a blob reader: here Azure's, without a word of Azure in our code."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import obstore
import pytest
from obstore.store import AzureStore, MemoryStore

from volley_connectors.blob.obstore_transfer import CLIENT_OPTIONS, ObstoreTransfer, Refusal, UnsuitedError, can_name
from volley_connectors.blob.ranged_file import Part
from volley_core import BlobChangedError, BlobNotFoundError, ConfigError, TransientError, VolleyError

_SHORT = timedelta(milliseconds=1)
FAST: Any = {"max_retries": 1, "backoff": {"init_backoff": _SHORT, "max_backoff": _SHORT, "base": 2}}


def transfer(
    store: Any, explain: Callable[[Refusal, str], VolleyError | None] = lambda refusal, doing: None
) -> ObstoreTransfer:
    return ObstoreTransfer(
        lambda bucket: store,
        lambda version: {"if_match": version} if version else {},
        lambda found: str(found["e_tag"]),
        explain,
    )


@pytest.fixture
def memory() -> MemoryStore:
    store = MemoryStore()
    obstore.put(store, "a", b"0123456789")
    return store


def fetch(of: ObstoreTransfer, key: str = "a", start: int = 0, length: int = 4, version: str = "") -> Part:
    return of.fetch(f"mem://b/{key}", "b", key, start, length, version)


def test_a_range_comes_with_the_size_and_version_of_the_object(memory: MemoryStore) -> None:
    part = fetch(transfer(memory), start=8)
    assert (bytes(part.data), part.size) == (b"89", 10)
    assert bytes(fetch(transfer(memory), version=part.version).data) == b"0123"


def test_an_object_that_is_gone_or_overwritten_is_named(memory: MemoryStore) -> None:
    with pytest.raises(BlobNotFoundError, match="Reading mem://b/never: the object is gone"):
        fetch(transfer(memory), "never")
    version = fetch(transfer(memory)).version
    obstore.put(memory, "a", b"9876543210")
    with pytest.raises(BlobChangedError, match="Reading mem://b/a: the object was overwritten"):
        fetch(transfer(memory), version=version)


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//a", "./a", "a/..", "a\n"])
def test_a_name_that_obstore_would_change_is_not_given_to_it(memory: MemoryStore, key: str) -> None:
    with pytest.raises(UnsuitedError):
        fetch(transfer(memory), key)


@pytest.mark.parametrize("key", ["a", "a b/ü", "..a/b..", "100%25", "a?b#c", "~a"])
def test_every_other_name_is_taken_as_it_is(memory: MemoryStore, key: str) -> None:
    assert can_name(key)
    obstore.put(memory, key, b"here")
    assert bytes(fetch(transfer(memory), key).data) == b"here"


@pytest.fixture
def azure() -> Iterator[Callable[[int, bytes], AzureStore]]:
    """Makes a store that is reached with a secret in the address, and refuses everything."""
    servers = []

    def make(status: int, body: bytes) -> AzureStore:
        class Refuses(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: tests are quiet."""

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Refuses))
        threading.Thread(target=servers[-1].serve_forever, args=(0.05,), daemon=True).start()
        return AzureStore(
            "b",
            account_name="account",
            endpoint=f"http://127.0.0.1:{servers[-1].server_port}/account",
            sas_key="sv=2024-01-01&sig=hush-hush",
            client_options=CLIENT_OPTIONS | {"allow_http": True},
            retry_config=FAST,
        )

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (401, ConfigError, "the credentials are not accepted .*401.*Correct or renew them"),
        (403, ConfigError, "access is denied .*403.*Allow this identity to read it"),
        (404, BlobNotFoundError, "the object is gone"),
        (412, BlobChangedError, "the object was overwritten"),
        (500, TransientError, "the store could not answer .*500.*Trying again later"),
    ],
)
def test_an_error_says_what_happened_and_no_secret(
    azure: Callable[[int, bytes], AzureStore], status: int, kind: type[VolleyError], message: str
) -> None:
    with pytest.raises(kind, match=f"Reading mem://b/a: {message}") as raised:
        fetch(transfer(azure(status, b"<Error><Code>X</Code></Error>")))
    assert type(raised.value) is kind
    assert "hush-hush" not in "".join(traceback.format_exception(raised.value))


def test_a_cloud_explains_its_codes_in_its_own_words(azure: Callable[[int, bytes], AzureStore]) -> None:
    seen: list[Refusal] = []

    def explain(refusal: Refusal, doing: str) -> VolleyError:
        seen.append(refusal)
        return ConfigError(f"{doing}: of course not")

    refusing = azure(409, b"<?xml?><Error><Code>BlobArchived</Code><Message>is archived</Message></Error>")
    with pytest.raises(ConfigError, match="Reading mem://b/a: of course not"):
        fetch(transfer(refusing, explain))
    assert seen == [Refusal(409, "BlobArchived", "is archived")]


def test_a_store_that_cannot_be_reached_is_a_transient_error() -> None:
    store = obstore.store.S3Store(
        "b",
        endpoint="http://127.0.0.1:1",
        region="x",
        skip_signature=True,
        client_options=CLIENT_OPTIONS | {"allow_http": True},
        retry_config=FAST,
    )
    with pytest.raises(TransientError, match="error sending request.*Trying again later"):
        fetch(transfer(store))
