"""moto: the lenient AWS, all services in this process, with S3's own events. Its queues are slow from 300 messages."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def serve() -> Iterator[str]:
    """Its address, while the block lasts."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def empty(address: str) -> None:
    """Remove everything that it holds."""
    with urllib.request.urlopen(urllib.request.Request(f"{address}/moto-api/reset", method="POST")) as answer:
        assert answer.status == 200
