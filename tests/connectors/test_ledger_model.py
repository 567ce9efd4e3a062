"""The ledger beside a plain dictionary that never forgets: random epochs with folds, merges, restarts and crashes."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from volley_connectors.blob.bookkeeping import MARGIN_MS, Bookkeeper, Rules
from volley_connectors.blob.ledger import Ledger, Verdict
from volley_connectors.blob.manifests import Entry, ManifestLog
from volley_connectors.state import StateStore
from volley_core import BlobRef

HOUR_MS = 3600 * 1000
MAX_AGE_MS = 30 * HOUR_MS
RULES = Rules(
    MAX_AGE_MS, MAX_AGE_MS, fold_identities=12, fold_manifests=4, fan_out=3, kept_manifests=6,
    seconds_between_cleanings=0.0, seconds_between_attempts=0.0,
)  # fmt: skip


class Crash(BaseException):
    """The driver dies here."""


class Clock:
    """A clock that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = time.time_ns() // 1_000_000
        monkeypatch.setattr("time.time_ns", lambda: self.ms * 1_000_000)


class Driver:
    """What the planner does, one start after another, checked against what was really taken in."""

    def __init__(self, location: Path, clock: Clock, by_version: bool, chance: random.Random) -> None:
        self.location, self.clock, self.by_version, self.chance = location, clock, by_version, chance
        self.taken: list[BlobRef] = []
        self.verdicts: set[Verdict] = set()
        self.number = 0
        self.start()

    def start(self) -> None:
        state = StateStore(str(self.location))
        self.manifests = ManifestLog(state)
        self.bookkeeper = Bookkeeper(state, Ledger(self.by_version, MAX_AGE_MS), RULES)
        self.number = self.bookkeeper.last()
        self.ledger = self.bookkeeper.load()

    def announced(self) -> list[BlobRef]:
        """New objects, overwritten ones with sequencers, redelivered ones, some of them very late."""
        found = []
        for _ in range(self.chance.randint(1, 6)):
            version = self.chance.randrange(10**6)
            name = f"s3://b/{self.chance.randrange(30 if self.by_version else 10**6)}"
            moment = self.clock.ms - self.chance.randrange(5 * HOUR_MS)
            sequencer = f"{moment:016X}" if self.chance.random() < 0.8 else ""
            timed = moment if self.chance.random() < 0.95 else None
            found.append(BlobRef(name, 1, str(version), sequencer, timed))
        for blob in self.chance.sample(self.taken, min(4, len(self.taken))):
            jitter = self.chance.choice((0, 0, -HOUR_MS, HOUR_MS))
            moment = blob.event_time_ms
            found.append(BlobRef(blob.uri, 1, blob.version, blob.sequencer, moment and moment + jitter))
        return found

    def epoch(self) -> None:
        blobs = self.announced()
        verdicts = self.ledger.judge(blobs)
        for blob, verdict in zip(blobs, verdicts, strict=True):
            self.check(blob, verdict)
        self.verdicts |= {*verdicts}
        new = {self.ledger.identity(b): b for b, v in zip(blobs, verdicts, strict=True) if v is Verdict.NEW}
        if new:
            # A manifest that was written counts, even if the driver died before it heard so.
            self.manifests.write(self.number + 1, [Entry(blob) for blob in new.values()])
            self.number += 1
            self.bookkeeper.add(self.number, new.values())
            self.taken += new.values()
        self.bookkeeper.work()

    def check(self, blob: BlobRef, verdict: Verdict) -> None:
        now, moment = self.clock.ms, blob.event_time_ms
        same = [t for t in self.taken if self.ledger.identity(t) == self.ledger.identity(blob)]
        surely = [t for t in same if t.event_time_ms is None or t.event_time_ms >= now - MAX_AGE_MS]
        if surely:
            assert verdict is Verdict.SEEN
        elif same and (self.by_version or any(t.version == blob.version for t in same)):
            assert verdict in (Verdict.SEEN, Verdict.STALE, Verdict.TOO_OLD), "nothing is read twice"
        elif verdict is Verdict.STALE:
            assert any(t.uri == blob.uri and t.sequencer > blob.sequencer for t in self.taken)
        elif verdict is Verdict.TOO_OLD:
            assert moment is not None
            assert moment < now - MAX_AGE_MS
        elif not same:
            assert verdict is Verdict.NEW, "nothing is lost"
            later = [t for t in self.taken if self.by_version and t.uri == blob.uri and t.sequencer > blob.sequencer]
            young = [t for t in later if t.event_time_ms is None or t.event_time_ms >= now - MAX_AGE_MS]
            assert not (blob.sequencer and young), "an older version comes too late"

    def recover(self) -> None:
        """Start again after a crash: what counts is what the manifests say."""
        self.start()
        known = {self.ledger.identity(blob) for blob in self.taken}
        for number in self.manifests.numbers():
            self.taken += [e.blob for e in self.manifests.read(number) if self.ledger.identity(e.blob) not in known]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return Clock(monkeypatch)


@pytest.mark.parametrize("by_version", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_through_many_epochs_nothing_is_read_twice_and_nothing_is_lost(
    tmp_path: Path, clock: Clock, by_version: bool, seed: int
) -> None:
    chance = random.Random(seed)
    driver = Driver(tmp_path, clock, by_version, chance)
    most_segments = 0
    for _ in range(300):
        driver.epoch()
        clock.ms += chance.randrange(2 * HOUR_MS)
        most_segments = max(most_segments, len(list((tmp_path / "ledger" / "segments").glob("*"))))
        if chance.random() < 0.1:
            driver.bookkeeper.close()
            driver.start()
    assert driver.verdicts >= {Verdict.NEW, Verdict.SEEN, Verdict.TOO_OLD} | ({Verdict.STALE} if by_version else set())
    assert most_segments < 40
    assert driver.manifests.numbers()[0] > 1, "old manifests were deleted"
    assert len(list((tmp_path / "ledger" / "index").iterdir())) <= 2
    index = driver.bookkeeper._index.last()
    assert index.horizon_ms > 0, "something was forgotten"
    assert max(entry.level for entry in index.segments) > 0, "something was merged"
    kept = [entry.newest_ms for entry in index.segments if entry.newest_ms is not None]
    assert min(kept) + MARGIN_MS >= clock.ms - MAX_AGE_MS - 4 * HOUR_MS


@contextmanager
def crashing(monkeypatch: pytest.MonkeyPatch, at: int, after: bool) -> Iterator[Callable[[], bool]]:
    """The driver dies at the write with this number, before or after it was done. Gives whether it did."""
    count = 0

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            if count == at and not after:
                raise Crash
            result = real(*arguments)
            if count == at:
                raise Crash
            return result

        return write

    with monkeypatch.context() as patches:
        for name in ("create", "delete", "sync", "clear"):
            patches.setattr(StateStore, name, around(getattr(StateStore, name)))
        patches.setattr(Path, "replace", around(Path.replace))
        yield lambda: count >= at


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("by_version", [False, True])
def test_a_crash_at_any_write_costs_nothing(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, by_version: bool, after: bool
) -> None:
    crashed, at, begin_ms = True, 0, clock.ms
    while crashed:
        at, clock.ms = at + 1, begin_ms
        chance = random.Random(7)
        driver = Driver(tmp_path / str(at), clock, by_version, chance)
        with crashing(monkeypatch, at, after) as has_crashed:
            try:
                for _ in range(20):
                    driver.epoch()
                    clock.ms += 8 * HOUR_MS
            except Crash:
                pass
            crashed = has_crashed()
        driver.recover()
        for _ in range(6):
            driver.epoch()
            clock.ms += HOUR_MS
        named = {entry.name for entry in driver.bookkeeper._index.last().segments}
        clock.ms += 48 * HOUR_MS
        driver.bookkeeper.clean()
        left = {path.name for path in (tmp_path / str(at) / "ledger" / "segments").iterdir()}
        assert left <= named, "what the crash left over is swept"
    assert at > 60, "the scenario writes often"
