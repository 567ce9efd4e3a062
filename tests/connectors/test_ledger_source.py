"""A blob source through years: what is too old, what is forgotten and never read again, which manifests stay."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from volley_connectors.blob import BlobSource, source
from volley_connectors.blob.bookkeeping import Rules
from volley_connectors.blob.history import Filters, History
from volley_connectors.blob.segment_index import SegmentIndex
from volley_connectors.state import StateStore
from volley_core import BlobRef, ConfigError, Offset, ReadLimit, TransientError

ALL = ReadLimit()
START: Offset = {"manifest": 0}
DAY_MS = 24 * 3600 * 1000
AGE = {"max_file_age": "14 days"}


@pytest.fixture(autouse=True)
def small_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds, merges and forgets after every epoch or two."""
    rules = partial(
        Rules, fold_identities=4, fold_manifests=2, fan_out=2, kept_manifests=3,
        seconds_between_cleanings=0.0, seconds_between_attempts=0.0,
    )  # fmt: skip
    monkeypatch.setattr(source, "Rules", rules)


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many days have gone by: one number, which a test raises."""
    real, gone = time.time_ns, [0]
    monkeypatch.setattr("time.time_ns", lambda: real() + gone[0] * DAY_MS * 1_000_000)
    return gone


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def epochs(source: BlobSource, start: Offset = START, limit: ReadLimit = ALL) -> list[list[int]]:
    """The ids of every epoch until the source has no more; whatever bookkeeping is due is done after each."""
    found = []
    while (end := source.latest_offset(start, limit)) != start:
        records = [record for split in source.splits(start, end) for record in source.read(split)]
        found.append(sorted(row["id"] for record in records for row in record.batch.to_pylist()))
        start = end
        tended(source)
    tended(source)
    return found


def flat(found: list[list[int]]) -> list[int]:
    return sorted(number for epoch in found for number in epoch)


def tended(source: BlobSource) -> None:
    bookkeeper = source._planner._bookkeeper
    if bookkeeper._thread is not None:
        bookkeeper._thread.join(10)
    bookkeeper.work()


def put(world: Any, number: int, age_days: float = 0) -> BlobRef:
    world.store.time_ms = now_ms() - int(age_days * DAY_MS)
    return world.store.put(f"mem://b/{number}.json", number)


def index(world: Any) -> Any:
    return SegmentIndex(StateStore(world.state)).last()


def test_what_is_announced_too_late_is_not_read_but_counted_and_said(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        world.queue.send(put(world, number, age_days=15))
    world.queue.send(put(world, 3, age_days=13))
    source = world.source(**AGE)
    with caplog.at_level(logging.WARNING):
        assert epochs(source) == [[3]]
    assert source._planner._triage.left_out["too_old"] == 3
    assert len(caplog.records) == 1
    assert "3 objects were not read" in caplog.text
    assert "mem://b/0.json" in caplog.text
    assert "max_file_age" in caplog.text
    assert world.queue.messages == {}


def test_an_object_whose_reading_is_put_off_is_not_too_old_for_that(world: Any) -> None:
    world.queue.send(put(world, 1))
    source = world.source(max_file_age=0.05, delay_seconds=0.2)
    deadline = time.monotonic() + 10
    while not (found := epochs(source)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found == [[1]]


def test_old_objects_are_read_at_the_first_start_and_never_again(
    world: Any, days: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10):
        put(world, number, age_days=400)
    options = {"discovery": "listing", "include_existing_files": True, **AGE}
    with caplog.at_level(logging.WARNING):
        found = epochs(world.source(**options), limit=ReadLimit(max_files=3))
        assert flat(found) == list(range(10))
        for _ in range(3):
            days[0] += 1
            put(world, 10 + days[0])
            # Restarts too find the old ones in every listing.
            again = epochs(world.source(**options), {"manifest": len(found)})
            assert again == [[10 + days[0]]]
            found += again
    assert index(world).horizon_ms > 0, "the old ones were forgotten"
    assert sum(entry.count for entry in index(world).segments) <= 4
    assert caplog.text == ""


def test_a_crash_in_the_middle_of_the_first_listing_neither_loses_nor_doubles(world: Any) -> None:
    for number in range(20):
        put(world, number, age_days=400)
    options = {"discovery": "listing", "include_existing_files": True, **AGE}
    found: list[list[int]] = []
    for _ in range(3):
        crashed = world.source(**options)
        start = {"manifest": len(found)}
        for _ in range(2):
            end = crashed.latest_offset(start, ReadLimit(max_files=3))
            found.append([row["id"] for s in crashed.splits(start, end) for r in crashed.read(s)
                          for row in r.batch.to_pylist()])  # fmt: skip
            start = end
            tended(crashed)
    found += epochs(world.source(**options), {"manifest": len(found)})
    assert flat(found) == list(range(20))
    assert epochs(world.source(**options), {"manifest": len(found)}) == []


def test_a_listing_says_once_what_came_too_late_and_is_not_read(
    world: Any, days: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    source = world.source(discovery="listing", include_existing_files=True, **AGE)
    assert epochs(source) == []
    put(world, 1, age_days=20)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert epochs(source) == []
    assert source._planner._triage.left_out["too_old"] == 1
    assert len(caplog.records) == 1


def test_a_greater_age_set_later_reads_nothing_twice(world: Any, days: list[int]) -> None:
    for number in range(8):
        world.queue.send(put(world, number))
    late = put(world, 100)
    found = epochs(world.source(**AGE))
    days[0] = 20
    world.queue.send(put(world, 8))
    found += epochs(world.source(**AGE), {"manifest": len(found)})
    assert index(world).horizon_ms > now_ms() - 20 * DAY_MS
    for number in range(8):
        world.queue.send(world.store.stat(BlobRef(f"mem://b/{number}.json")))
    world.queue.send(late)
    restarted = world.source(max_file_age="365 days")
    assert epochs(restarted, {"manifest": len(found)}) == []
    assert restarted._planner._triage.left_out["too_old"] == 9, "of the ninth it cannot be told either"
    assert flat(found) == list(range(9))


def test_an_announcement_without_a_time_gets_the_stores(world: Any, days: list[int]) -> None:
    """Or it would never be too old, and count as new once it is forgotten."""
    for number in range(4):
        world.queue.send(put(world, number))
    found = epochs(world.source(**AGE))
    days[0] = 20
    epochs(world.source(**AGE), {"manifest": len(found)})
    assert index(world).segments == ()
    known = world.store.stat(BlobRef("mem://b/0.json"))
    world.queue.send(BlobRef(known.uri, known.size, known.version))
    assert epochs(world.source(**AGE), {"manifest": len(found)}) == []


def version(uri: str, number: int, sequencer: str) -> BlobRef:
    return BlobRef(uri, 9, str(number), sequencer, now_ms())


def test_an_older_version_that_comes_late_is_skipped_by_the_sequencer(world: Any) -> None:
    uri = "mem://b/a.json"
    source = world.source(allow_overwrites=True, on_missing_file="skip", **AGE)

    def planned(*blobs: BlobRef) -> list[str]:
        world.queue.send(*blobs)
        start = {"manifest": source._planner._manifests.last()}
        end = source.latest_offset(start, ALL)
        tended(source)
        if end == start:
            return []
        return [entry.blob.version for entry in source._planner._manifests.read(end["manifest"])]

    assert planned(version(uri, 3, "0A3"), version(uri, 2, "0A2"), version(uri, 4, "0A4")) == ["3", "4"]
    assert planned(version(uri, 1, "0A1")) == []
    assert planned(*(version(f"mem://b/{n}.json", n, "0A0") for n in range(10, 18))) == [str(n) for n in range(10, 18)]
    assert index(world).segments, "what came first is folded"
    assert planned(version(uri, 0, "0A0"), version(uri, 4, "0A4")) == []
    assert planned(version(uri, 5, "0A5")) == ["5"]
    assert planned(version(uri, 6, "")) == ["6"], "without a sequencer nothing can be told"
    assert source._planner._triage.left_out == {"stale": 3, "seen": 1}


def test_overwrites_may_be_allowed_and_refused_from_one_start_to_the_next(world: Any) -> None:
    for number in range(8):
        world.announce(f"{number}.json", number)
    found = epochs(world.source())
    world.announce("0.json", 100)
    found += epochs(world.source(allow_overwrites=True), {"manifest": len(found)})
    world.announce("0.json", 200)
    world.queue.send(world.store.stat(BlobRef("mem://b/1.json")))
    assert epochs(world.source(), {"manifest": len(found)}) == []
    assert flat(found) == [*range(8), 100]


def test_a_checkpoint_from_a_backup_replays_the_same_epochs_after_folding(world: Any) -> None:
    found: list[list[int]] = []
    for number in range(6):
        world.announce(f"{number}.json", number)
        found += epochs(world.source(), {"manifest": number})
    assert index(world).folded >= 4
    assert epochs(world.source(), {"manifest": 2}) == [[2], [3], [4], [5]]


def aged(world: Any, days: float) -> None:
    """Manifests look as if they had been written so long ago."""
    long_ago = time.time() - days * 24 * 3600
    for path in Path(world.state, "manifests").iterdir():
        os.utime(path, (long_ago, long_ago))


def test_manifests_go_when_they_are_folded_old_and_far_behind(world: Any) -> None:
    source, number = world.source(manifest_retention="1 day", max_file_age="1 hour"), 0

    def go_on() -> list[str]:
        nonlocal number
        world.queue.send(put(world, number))
        assert epochs(source, {"manifest": number}) == [[number]]
        number += 1
        return sorted(path.name for path in Path(world.state, "manifests").iterdir())

    for _ in range(8):
        names = go_on()
    assert len(names) == 8, "they are young"
    aged(world, 1.01)
    assert len(go_on()) == 9, "what tells of duplicates must not go first"
    aged(world, 3)
    go_on()
    names = go_on()
    assert [int(name[:20]) for name in names] == [9, 10, 11]
    assert sorted(int(path.name) for path in Path(world.state, "reports").iterdir()) == [9, 10, 11]
    history = History(world.state)
    assert [batch["epoch"][0].as_py() for batch in history.batches(Filters())] == [9, 10, 11]

    with pytest.raises(ConfigError, match=r"Manifest 1 expired: .*'manifest_retention', now from 9 on.*new state_loc"):
        world.source().latest_offset(START, ALL)
    with pytest.raises(ConfigError, match="Manifest 5 expired"):
        world.source().splits({"manifest": 4}, {"manifest": 5})
    assert epochs(world.source(), {"manifest": 8}) == [[8], [9], [10]]
    world.queue.show_all()
    world.queue.send(world.store.stat(BlobRef("mem://b/0.json")))
    assert epochs(world.source(), {"manifest": 11}) == [], "its manifest expired, but not its identity"


def test_what_was_read_before_there_was_a_ledger_is_folded_at_the_first_start(world: Any) -> None:
    for number in range(9):
        world.announce(f"{number}.json", number)
    found = epochs(world.source(), limit=ReadLimit(max_files=1))
    for path in sorted(Path(world.state, "ledger").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    world.queue.send(world.store.stat(BlobRef("mem://b/0.json")))
    assert epochs(world.source(), {"manifest": len(found)}) == []
    assert index(world).folded == 8


def test_a_lost_ledger_is_not_taken_for_an_empty_one(world: Any) -> None:
    for number in range(9):
        world.announce(f"{number}.json", number)
    found = epochs(world.source(), limit=ReadLimit(max_files=1))
    segments = sorted(Path(world.state, "ledger", "segments").iterdir())
    segments[0].write_bytes(segments[0].read_bytes()[:-1])
    with pytest.raises(ConfigError, match=r"segment .* is missing or not whole.*Restore the folder 'ledger'"):
        world.source().latest_offset({"manifest": len(found)}, ALL)
    for path in Path(world.state, "ledger", "index").iterdir():
        path.unlink()
    Path(world.state, "manifests", f"{1:020d}.json").unlink()
    with pytest.raises(ConfigError, match="has manifests from 2 on, but its ledger only knows those up to 0"):
        world.source().latest_offset({"manifest": len(found)}, ALL)


def test_a_store_that_takes_no_segments_is_said_and_fails_no_epoch(
    world: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source, create = world.source(), StateStore.create

    def refuse(store: StateStore, name: str, data: bytes) -> bool:
        if "ledger" in store.location:
            raise TransientError("the store does not answer")
        return create(store, name, data)

    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING):
        broken.setattr(StateStore, "create", refuse)
        for number in range(6):
            world.announce(f"{number}.json", number)
            assert source.latest_offset({"manifest": number}, ALL) == {"manifest": number + 1}
            source._planner._bookkeeper._thread.join(10)
    assert "could not be tended, which is tried again: the store does not answer" in caplog.text
    world.queue.show_all()
    assert epochs(source, {"manifest": 6}) == []
    assert index(world).folded == 6


def test_a_rival_that_folds_first_is_followed(world: Any) -> None:
    for number in range(4):
        world.announce(f"{number}.json", number)
    mine, rival = world.source(), world.source()
    start = mine.latest_offset(START, ReadLimit(max_files=2))
    for one in (mine, rival):
        one._planner.ledger  # noqa: B018
        one._planner._bookkeeper._rules = Rules(14 * DAY_MS, 14 * DAY_MS, fold_manifests=2)
    start = mine.latest_offset(start, ReadLimit(max_files=2))
    tended(mine)
    rival._planner._bookkeeper.add(2, [])
    with pytest.raises(Exception, match="another writer was quicker"):
        rival._planner._bookkeeper.work()
    assert rival._planner._bookkeeper._now == index(world)
    assert rival._planner.ledger.sealed() == ()
    world.queue.show_all()
    assert epochs(mine, start) == []


def test_a_listing_that_fails_halfway_begins_anew(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        put(world, number)
    real, fails = world.store.list, [True]

    def failing(prefix: str) -> Iterator[BlobRef]:
        for count, blob in enumerate(real(prefix)):
            if fails and count == 2:
                fails.clear()
                raise TransientError("the store does not answer")
            yield blob

    monkeypatch.setattr(world.store, "list", failing)
    source = world.source(include_existing_files=True)
    with pytest.raises(TransientError):
        source.latest_offset(START, ALL)
    assert epochs(source) == [[0, 1, 2]]
