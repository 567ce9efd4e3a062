"""CPU seconds of a process and everything it started, dead or alive."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds(root: int | None = None) -> float:
    """User and system time of `root` (this process) and its descendants, with what their dead children used."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                # The command's name may hold blanks and brackets; the numbers follow its last bracket.
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(path.name)] = int(fields[1])
            ticks[int(path.name)] = sum(int(value) for value in fields[11:15])
    top = root or os.getpid()
    return sum(ticks[pid] for pid in ticks if _descends(pid, top, parents)) / _TICKS_PER_SECOND


def _descends(pid: int, top: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == top:
            return True
        pid = parents.get(pid, 0)
    return False
