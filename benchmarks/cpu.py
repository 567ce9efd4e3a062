"""CPU seconds of this process and everything it started."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SAMPLE_SECONDS = 0.5


class CpuMeter:
    """Adds up the CPU time of all descendants while it is open.

    Looks at /proc twice a second and remembers what each process had used when it was last seen: Spark's daemons do
    not collect their dead workers' times, so that a sum over the living would run backwards.
    """

    def __init__(self, without: Collection[int] = ()) -> None:
        """`without`: children that do not count, with all that they start."""
        self._without = without
        self._begin: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cpu-meter", daemon=True)

    def __enter__(self) -> CpuMeter:
        self._begin = self._ticks()
        self._last = dict(self._begin)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._last |= self._ticks()

    @property
    def seconds(self) -> float:
        used = sum(ticks - self._begin.get(pid, 0) for pid, ticks in self._last.items())
        return used / _TICKS_PER_SECOND

    def _watch(self) -> None:
        while not self._stopped.wait(_SAMPLE_SECONDS):
            self._last |= self._ticks()

    def _ticks(self) -> dict[int, int]:
        """User and system time of every process that descends from this one, by pid."""
        parents, ticks = _processes()
        return {pid: used for pid, used in ticks.items() if _descends(pid, parents, self._without)}


def children() -> list[int]:
    """The processes that this one started and that are running now."""
    return [pid for pid, parent in _processes()[0].items() if parent == os.getpid()]


def _processes() -> tuple[dict[int, int], dict[int, int]]:
    """Parent and CPU ticks of every process there is, by pid."""
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
            ticks[int(path.name)] = int(fields[11]) + int(fields[12])
    return parents, ticks


def _descends(pid: int, parents: dict[int, int], without: Collection[int]) -> bool:
    while pid > 1 and pid not in without:
        if pid == os.getpid():
            return True
        pid = parents.get(pid, 0)
    return False
