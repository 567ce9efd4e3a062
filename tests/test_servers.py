"""What tests of real servers rely on: fetched once, whole or not at all, and the process that listens is ours."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.servers import processes
from tests.servers.cache import kept
from tests.servers.processes import running
from tests.servers.toolchains import tool

BUSY = "while True: open('/dev/null').close()"
LISTEN = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(600)"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOLLEY_CACHE_DIR", str(tmp_path / "cache"))


def test_two_that_ask_at_once_make_it_once() -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        time.sleep(0.2)
        (folder / "program").write_text("x")

    threads = [threading.Thread(target=kept, args=("server-1.0", make)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert (kept("server-1.0", make) / "program").read_text() == "x"


def test_what_was_made_by_halves_is_made_again() -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        kept("server-1.0", fail)
    folder = kept("server-1.0", lambda new: (new / "whole").touch())
    assert [file.name for file in folder.iterdir()] == ["whole"]


def test_a_missing_toolchain_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"The tests need Cobol: there is no 'cobc-9' on the path. Install Cobol\."):
        tool("cobc-9", "Cobol")


def test_a_server_is_up_while_the_block_lasts(tmp_path: Path) -> None:
    with running(lambda port: [sys.executable, "-c", LISTEN, str(port)], tmp_path / "log") as address:
        host, _, port = address.partition(":")
        socket.create_connection((host, int(port))).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_a_port_that_another_process_took_is_not_mistaken_for_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = iter([other.getsockname()[1], processes.free_port()])
        monkeypatch.setattr(processes, "free_port", lambda: next(ports))
        with running(lambda port: [sys.executable, "-c", LISTEN, str(port)], tmp_path / "log") as address:
            assert address != f"127.0.0.1:{other.getsockname()[1]}"


def test_files_that_a_starting_server_opens_and_closes_are_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        try:
            assert not any(processes._listens(process.pid, 1) for _ in range(100))
        finally:
            process.kill()


def test_a_server_that_does_not_start_tells_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no such option"):
        with running(lambda port: [sys.executable, "-c", "raise SystemExit('no such option')"], tmp_path / "log"):
            pytest.fail("it never listened")
