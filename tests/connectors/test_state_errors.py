"""What a state_location says of a store that does not do as it is asked."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.servers.aws import KEYS, client
from volley_connectors.state import StateStore
from volley_core import ConfigError, TransientError

SECRET = "a-secret-that-must-not-show"
USES: dict[str, Callable[[StateStore], object]] = {
    "create": lambda store: store.create("a", b"x"),
    "read": lambda store: store.read("a"),
    "exists": lambda store: store.exists("a"),
    "names": lambda store: list(store.names()),
    "delete": lambda store: store.delete("a"),
}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets s3:// lead to a server of this machine."""

    def lead(address: str, secret: str = KEYS["secret_access_key"]) -> None:
        values = {
            "AWS_ENDPOINT_URL": address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": KEYS["region"],
            "AWS_ACCESS_KEY_ID": KEYS["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": secret,
        }
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    monkeypatch.setattr("volley_connectors.state._RETRY", {"max_retries": 0, "retry_timeout": timedelta(seconds=5)})
    return lead


@contextmanager
def answering(status: int) -> Iterator[str]:
    """A store that gives one answer to everything."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_bucket_that_is_missing_is_named(versitygw: str, aws: Callable[..., None]) -> None:
    aws(versitygw)
    for use in ("create", "read", "names"):
        with pytest.raises(ConfigError, match=r"at 's3://nowhere/state': there is no such bucket.*state_location"):
            USES[use](StateStore("s3://nowhere/state"))


@pytest.mark.parametrize("use", USES)
def test_credentials_that_are_refused_are_explained_and_kept_secret(
    versitygw: str, aws: Callable[..., None], use: str
) -> None:
    aws(versitygw, SECRET)
    with pytest.raises(ConfigError, match=r"access is denied. Allow reading, writing.*403") as refused:
        USES[use](StateStore("s3://nowhere/state"))
    assert SECRET not in str(refused.value)
    assert KEYS["access_key_id"] not in str(refused.value)
    assert refused.value.__cause__ is None, "obstore's text quotes the request and its signature"


@pytest.mark.parametrize("use", USES)
def test_a_store_that_does_not_answer_is_asked_again_later(aws: Callable[..., None], use: str) -> None:
    aws("http://127.0.0.1:9")
    with pytest.raises(TransientError, match=r"at 's3://b/state'.*Trying again later may help"):
        USES[use](StateStore("s3://b/state"))


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (501, ConfigError, "only if it is absent"),
        (503, TransientError, "answered 503"),
        (429, TransientError, "answered 429"),
        (403, ConfigError, "access is denied"),
        (400, ConfigError, "refuses the request"),
    ],
)
def test_an_answer_says_what_to_do(aws: Callable[..., None], status: int, kind: type[Exception], message: str) -> None:
    with answering(status) as address:
        aws(address)
        with pytest.raises(kind, match=message):
            StateStore("s3://b/state").create("a", b"x")


def test_one_code_path_for_disks_and_clouds(moto: str, aws: Callable[..., None], tmp_path: Path) -> None:
    aws(moto)
    client("s3", moto).create_bucket(Bucket="memory")
    store = StateStore("s3://memory/state")
    assert [store.create("b", b"first"), store.create("b", b"second"), store.read("b")] == [True, False, b"first"]
    (tmp_path / "big").write_bytes(b"x" * 12_000_000)
    store.upload("c", tmp_path / "big")
    store.download("c", tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_size == 12_000_000
    assert list(store.names(after="b")) == ["c"]
    store.delete("b", "c", "d")
    assert list(store.names()) == []


def test_a_disk_that_refuses_is_explained(tmp_path: Path) -> None:
    store = StateStore(str(tmp_path))
    store.create("file", b"")
    with pytest.raises(ConfigError, match=r"Writing file/below at .*os error 20.*state_location"):
        store.create("file/below", b"x")


def test_an_address_is_shown_without_what_is_secret() -> None:
    assert StateStore("https://user:pass@host/state?sig=abc").shown == "https://host/state"
    assert StateStore("abfss://container@account.dfs.core.windows.net/x").shown.startswith("abfss://container@")
    assert StateStore("/data/what?").shown == "/data/what?"
