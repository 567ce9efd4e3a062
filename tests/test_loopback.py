"""The guard of conftest: no test reaches another machine."""

from __future__ import annotations

import http.client
import socket

import pytest


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "example.invalid"])
def test_a_connection_to_another_machine_is_refused(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as plug, pytest.raises(PermissionError, match="this machine only"):
        plug.connect((host, 80))


def test_clients_of_higher_layers_are_refused_too() -> None:
    with pytest.raises(PermissionError, match="this machine only"):
        http.client.HTTPConnection("192.0.2.1", timeout=5).request("GET", "/")


def test_a_connection_to_this_machine_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as plug:
        assert plug.getpeername() == server.getsockname()
