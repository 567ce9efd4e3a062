"""How objects are found: by the queue, by listing, or both; at the first start, after a crash, and at the right age."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from volley_connectors.blob import BlobSource, BlobSourceConfig
from volley_connectors.blob.deliveries import Deliveries
from volley_connectors.blob.inbox import PROBE_SIZE, Inbox
from volley_core import BlobRef, ConfigError, Notification, Offset, ReadLimit, TransientError

ALL = ReadLimit()
START: Offset = {"manifest": 0}


def epochs(source: BlobSource, start: Offset = START, limit: ReadLimit = ALL) -> list[list[int]]:
    """The ids of every epoch until the source has no more, each epoch committed before the next is asked for."""
    found = []
    while (end := source.latest_offset(start, limit)) != start:
        found.append(rows(source, start, end))
        start = end
    return found


def rows(source: BlobSource, start: Offset, end: Offset) -> list[int]:
    records = [record for split in source.splits(start, end) for record in source.read(split)]
    return [row["id"] for record in records for row in record.batch.to_pylist()]


def flat(found: list[list[int]]) -> list[int]:
    return sorted(number for epoch in found for number in epoch)


def put(world: Any, *numbers: int) -> None:
    for number in numbers:
        world.store.put(f"mem://b/{number}.json", number)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_what_was_there_before_the_first_start_is_read_once_beside_the_queue(world: Any) -> None:
    put(world, 1, 2)
    world.announce("3.json", 3)
    source = world.source(include_existing_files=True)
    found = epochs(source)
    assert flat(found) == [1, 2, 3]
    assert world.queue.messages == {}
    put(world, 4)
    assert epochs(source, {"manifest": len(found)}) == [], "unannounced, and later than the first start"


def test_existing_objects_are_read_by_default_where_it_can_be_remembered(world: Any) -> None:
    put(world, 1)
    assert flat(epochs(world.source(include_existing_files=None))) == [1]
    assert epochs(world.source(include_existing_files=None, state_location=None, delivery="at-least-once")) == []


def test_a_crash_in_the_middle_of_the_existing_objects_loses_none(world: Any) -> None:
    put(world, *range(5))
    crashed = world.source(include_existing_files=True)
    end = crashed.latest_offset(START, ReadLimit(max_files=2))
    first = rows(crashed, START, end)
    restarted = world.source(include_existing_files=True)
    assert sorted(first + flat(epochs(restarted, end))) == list(range(5))


def test_once_the_existing_objects_are_planned_no_start_lists_them_again(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, 1)
    assert flat(epochs(world.source(include_existing_files=True))) == [1]
    monkeypatch.setattr(world.store, "list", lambda prefix: pytest.fail("it was listed again"))
    world.announce("2.json", 2)
    assert flat(epochs(world.source(include_existing_files=True), {"manifest": 1})) == [2]


def test_a_listing_without_the_existing_objects_reads_only_later_ones(world: Any) -> None:
    put(world, 1)
    source = world.source(discovery="listing", include_existing_files=False)
    assert epochs(source) == []
    world.store.time_ms = now_ms() + 1000
    put(world, 2)
    assert flat(epochs(source)) == [2]
    restarted = world.source(discovery="listing", include_existing_files=False)
    assert epochs(restarted, {"manifest": 1}) == [], "a restart does not move the first start"


def test_both_reads_what_the_queue_lost(world: Any) -> None:
    source = world.source(discovery="both", backfill_interval=0.05, include_existing_files=True)
    assert epochs(source) == []
    put(world, 1)
    world.announce("2.json", 2)
    deadline, found, start = time.monotonic() + 10, [], START
    while len(found) < 2 and time.monotonic() < deadline:
        for epoch in epochs(source, start):
            found += epoch
            start = {"manifest": start["manifest"] + 1}
        time.sleep(0.02)
    assert sorted(found) == [1, 2]
    assert world.queue.messages == {}


def test_both_lists_no_more_often_than_its_interval(world: Any) -> None:
    listings = count_listings(world)
    source = world.source(discovery="both", backfill_interval=3600)
    for _ in range(5):
        assert source.latest_offset(START, ALL) == START
    assert listings == ["mem://b/"]


def test_the_way_of_discovery_may_change_with_every_start(world: Any) -> None:
    put(world, 1)
    seen, start = [], START
    for number, discovery in enumerate(["listing", "notifications", "both", "listing", "notifications"], start=2):
        world.announce(f"{number}.json", number)
        source = world.source(discovery=discovery, include_existing_files=True)
        source.freeze()
        found = epochs(source, start)
        seen += flat(found)
        start = {"manifest": start["manifest"] + len(found)}
        source.close()
        world.queue.show_all()
    assert sorted(seen) == [1, 2, 3, 4, 5, 6]
    source = world.source(discovery="both", include_existing_files=True)
    source.freeze()
    assert epochs(source, start) == []
    assert world.queue.messages == {}, "what listings found first is acknowledged once it is recognised"


def test_an_available_now_run_reads_what_is_listed_and_queued_at_its_start(world: Any) -> None:
    put(world, *range(20))
    for number in range(20, 60):
        world.announce(f"{number}.json", number)
    source = world.source(discovery="both", include_existing_files=True)
    source.freeze()
    put(world, 100)
    world.announce("101.json", 101)
    assert flat(epochs(source, limit=ReadLimit(max_files=7))) == list(range(60))


@pytest.mark.parametrize("discovery", ["notifications", "listing"])
def test_an_object_is_read_when_it_is_old_enough(world: Any, discovery: str) -> None:
    world.store.time_ms = now_ms()
    source = world.source(discovery=discovery, delay_seconds=0.6, include_existing_files=True)
    world.announce("1.json", 1)
    assert epochs(source) == []
    assert len(world.queue.messages) == 1
    deadline = time.monotonic() + 10
    while not (found := epochs(source)):
        assert time.monotonic() < deadline
    assert found == [[1]]
    assert now_ms() >= world.store.time_ms + 600


def test_an_available_now_run_leaves_what_is_too_young_to_the_next(world: Any) -> None:
    world.store.time_ms = now_ms()
    world.announce("1.json", 1)
    source = world.source(delay_seconds=3600)
    source.freeze()
    assert epochs(source) == []
    source.close()
    assert world.queue.visible == ["m1"]


def test_messages_about_others_can_be_left_to_others(world: Any) -> None:
    world.queue.send(BlobRef("mem://other/x.json"))
    world.queue.send(BlobRef("mem://other/y.json"), world.store.put("mem://b/1.json", 1))
    world.announce("2.json", 2)
    source = world.source(foreign_events="leave")
    assert flat(epochs(source)) == [1, 2]
    assert sorted(world.queue.messages) == ["m1", "m2"]
    world.queue.show_all()
    assert epochs(source, {"manifest": 1}) == []
    assert sorted(world.queue.messages) == ["m1", "m2"]


def test_a_message_with_ignored_names_is_not_left_to_others(world: Any) -> None:
    world.queue.send(BlobRef("mem://b/_tmp/x.json"))
    assert epochs(world.source(foreign_events="leave")) == []
    assert world.queue.messages == {}


def test_regex_and_glob_hold_together(world: Any) -> None:
    for name in ("v1/a.json", "v2/b.json", "v2/c.csv", "x/v3"):
        world.announce(name, len(world.queue.messages))
    assert flat(epochs(world.source(regex=r"^v\d/", path_glob="*.json"))) == [0, 1]
    assert world.queue.messages == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regex": "("}, "not a regular expression"),
        ({"delay_seconds": "1 day"}, "delay_seconds"),
        ({"backfill_interval": 0}, "backfill_interval"),
        ({"fetch_concurrency": 0}, "fetch_concurrency"),
        ({"discovery": "polling"}, "discovery"),
        ({"foreign_events": "drop"}, "foreign_events"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BlobSourceConfig(**options)


def test_a_thousand_messages_take_few_round_trips(world: Any) -> None:
    for number in range(1000):
        world.announce(f"{number}.json", number)
    slow = SlowQueue(world.queue, seconds=0.05)
    deliveries = Deliveries(slow, 300)
    inbox = Inbox(slow, deliveries, threads=8)
    began = time.monotonic()
    items, _ = inbox.fetch(1000)
    assert len(items) >= 1000 - PROBE_SIZE
    assert (time.monotonic() - began) / 0.05 < 30, "one after the other, it would be a hundred round trips"
    assert slow.most_at_once > 4
    inbox.close()
    deliveries.close(release_planned=True)
    assert len(world.queue.visible) == 1000


def test_a_single_message_is_not_waited_for_twice(world: Any) -> None:
    world.announce("1.json", 1)
    slow = SlowQueue(world.queue, seconds=0.2)
    deliveries = Deliveries(slow, 300)
    inbox = Inbox(slow, deliveries, threads=8)
    items, more = inbox.fetch(1000)
    assert (len(items), more, slow.polls) == (1, False, 1)
    inbox.close()
    deliveries.close(release_planned=True)


def test_a_poll_that_fails_keeps_what_the_others_brought(world: Any) -> None:
    for number in range(100):
        world.announce(f"{number}.json", number)
    failing = FailingQueue(world.queue)
    deliveries = Deliveries(failing, 300)
    inbox = Inbox(failing, deliveries, threads=4)
    found, failed = [], False
    while len(found) < 100:
        try:
            found += inbox.fetch(100)[0]
        except TransientError:
            failed = True
    assert failed
    assert sorted(item.blob.uri for item in found) == sorted(f"mem://b/{number}.json" for number in range(100))
    inbox.close()
    deliveries.close(release_planned=True)


def test_what_a_poll_brings_after_the_close_goes_back(world: Any) -> None:
    slow = SlowQueue(world.queue, seconds=0.3)
    deliveries = Deliveries(slow, 300)
    inbox = Inbox(slow, deliveries, threads=2)
    inbox._poll_beside(100)
    world.announce("1.json", 1)
    inbox.close()
    deliveries.close(release_planned=True)
    assert world.queue.visible == ["m1"]


def test_a_heartbeat_survives_whatever_a_queue_raises(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def extend(receipts: Sequence[str], seconds: float) -> None:
        calls.append(len(receipts))
        raise RuntimeError("a defect of the connector")

    world.queue.extend = extend
    world.announce("1.json", 1)
    with caplog.at_level(logging.WARNING):
        source = world.source(visibility_seconds=0.06)
        source.latest_offset(START, ALL)
        deadline = time.monotonic() + 10
        while len(calls) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        source.close()
    assert len(calls) >= 3
    assert "could not extend 1 messages: a defect of the connector" in caplog.text


def test_a_long_listing_does_not_keep_the_queue_waiting(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put(world, *range(3))

    def endless(prefix: str) -> Iterator[BlobRef]:
        while True:
            yield from [BlobRef("mem://b/_ignored/x.json", 1, "v")] * 500
            time.sleep(0.02)

    monkeypatch.setattr(world.store, "list", endless)
    monkeypatch.setattr("volley_connectors.blob.discovery._LISTING_SECONDS", 0.1)
    world.announce("9.json", 9)
    source = world.source(discovery="both", include_existing_files=True)
    began = time.monotonic()
    assert rows(source, START, source.latest_offset(START, ALL)) == [9]
    assert time.monotonic() - began < 5


def count_listings(world: Any) -> list[str]:
    seen: list[str] = []
    plain = world.store.list

    def listing(prefix: str) -> Iterator[BlobRef]:
        seen.append(prefix)
        return plain(prefix)

    world.store.list = listing
    return seen


class SlowQueue:
    """A queue whose every answer takes a round trip and holds ten messages at most."""

    connector_id = "queue:slow"

    def __init__(self, queue: Any, seconds: float) -> None:
        self._queue = queue
        self._seconds = seconds
        self._lock = threading.Lock()
        self._now = self.most_at_once = self.polls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def poll(self, max_notifications: int) -> Sequence[Notification]:
        with self._lock:
            self.polls += 1
        found: list[Notification] = []
        while len(found) < max_notifications:
            answer = self._receive(min(10, max_notifications - len(found)))
            found += answer
            if not answer:
                break
        return found

    def _receive(self, count: int) -> Sequence[Notification]:
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        time.sleep(self._seconds)
        with self._lock:
            self._now -= 1
            found: Sequence[Notification] = self._queue.poll(count)
        return found


class FailingQueue:
    """A queue of which every third poll fails."""

    connector_id = "queue:failing"

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def poll(self, max_notifications: int) -> Sequence[Notification]:
        with self._lock:
            self._calls += 1
            if self._calls % 3 == 2:
                raise TransientError("the queue does not answer")
            found: Sequence[Notification] = self._queue.poll(max_notifications)
        return found
