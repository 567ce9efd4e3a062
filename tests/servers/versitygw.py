"""versitygw: an S3 that checks signatures, over a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.aws import KEYS
from tests.servers.processes import running
from tests.servers.toolchains import go


def fetch() -> Path:
    return go("github.com/versity/versitygw/cmd/versitygw@v1.8.0")


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Its address, while the block lasts. It knows one identity, that of `KEYS`."""
    program = fetch()
    data, versions = folder / "data", folder / "versions"
    data.mkdir()
    versions.mkdir()

    def command(port: int) -> list[str]:
        identity = ["--access", KEYS["access_key_id"], "--secret", KEYS["secret_access_key"]]
        store = ["posix", "--versioning-dir", str(versions), str(data)]
        return [str(program), "--port", f"127.0.0.1:{port}", "--region", KEYS["region"], *identity, *store]

    with running(command, folder / "versitygw.log") as address:
        yield f"http://{address}"
