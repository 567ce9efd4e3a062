"""Servers that are processes of their own: each on a free port, known to be the one that listens there."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_HOST = "127.0.0.1"
_TRIES = 3


@contextmanager
def running(command: Callable[[int], list[str]], log: Path, seconds: float = 60.0) -> Iterator[str]:
    """Start what `command` makes of a port; gives its address, host and port. It does not outlive the block."""
    for attempt in range(_TRIES):
        port = free_port()
        with open(log, "w") as output:
            process = subprocess.Popen(command(port), stdout=output, stderr=subprocess.STDOUT)
        try:
            if _comes_up(process, port, seconds):
                yield f"{_HOST}:{port}"
                return
        finally:
            _stop(process)
        # Another process may have taken the port since; a command that is wrong fails every time.
        if attempt == _TRIES - 1:
            said = log.read_text(errors="replace")[-4000:]
            raise RuntimeError(
                f"{process.args!r} does not listen on {_HOST}:{port} after {seconds} s. It said:\n{said}"
            )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _comes_up(process: subprocess.Popen[bytes], port: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        if _listens(process.pid, port):
            return True
        time.sleep(0.05)
    return False


def _listens(pid: int, port: int) -> bool:
    """Whether this very process does: an open port alone might be somebody else's."""
    if not Path("/proc/net/tcp").exists():
        command = ["lsof", "-a", "-t", f"-p{pid}", f"-iTCP:{port}", "-sTCP:LISTEN"]
        return bool(subprocess.run(command, capture_output=True, check=False).stdout)
    rows = [line.split() for name in ("tcp", "tcp6") for line in _lines(Path("/proc/net") / name)]
    # Local address, state (0A is LISTEN) and inode, as proc(5) has them.
    sockets = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}
    return bool(sockets & {_target(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()})


def _target(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except FileNotFoundError:
        return ""  # The process has closed it since it was listed.


def _lines(table: Path) -> list[str]:
    return table.read_text().splitlines()[1:] if table.exists() else []


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
