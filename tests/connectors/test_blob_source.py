"""A blob source made of a queue and a store in memory: what is read, when it is acknowledged, what a crash leaves."""

from __future__ import annotations

import json
import logging
import pickle
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from volley_connectors.blob import BlobSource, BlobSourceConfig
from volley_connectors.blob.selection import Selection
from volley_connectors.blob.splits import OPENING_BYTES, Portion, pack
from volley_core import (
    BlobChangedError,
    BlobNotFoundError,
    BlobRef,
    ConfigError,
    DecodeError,
    Notification,
    Offset,
    PipelineConflictError,
    ReadLimit,
    SplitSource,
    TransientError,
)

ALL = ReadLimit()
START: Offset = {"manifest": 0}


def ids(source: BlobSource, start: Offset, end: Offset) -> list[int]:
    return [
        row["id"]
        for split in source.splits(start, end)
        for record in source.read(pickle.loads(pickle.dumps(split)))
        for row in record.batch.to_pylist()
    ]


def test_is_a_split_source(world: Any) -> None:
    assert isinstance(world.source(), SplitSource)


def test_announced_objects_become_rows_with_their_event_time(world: Any) -> None:
    world.announce("a.json", 1, 2)
    world.announce("b.json", 3)
    source = world.source()
    end = source.latest_offset(START, ALL)
    assert ids(source, START, end) == [1, 2, 3]
    (split,) = source.splits(START, end)
    assert {record.event_time_ms for record in source.read(split)} == {1_700_000_000_000}


def test_a_message_is_acknowledged_once_its_epoch_is_committed_and_not_before(world: Any) -> None:
    world.announce("a.json", 1)
    source = world.source()
    end = source.latest_offset(START, ALL)
    ids(source, START, end)
    assert len(world.queue.messages) == 1
    assert source.latest_offset(end, ALL) == end
    assert world.queue.messages == {}


def test_a_redelivered_message_of_a_committed_object_is_acknowledged_and_not_read(world: Any) -> None:
    world.announce("a.json", 1)
    end = world.source().latest_offset(START, ALL)
    world.queue.show_all()
    restarted = world.source()
    assert restarted.latest_offset(end, ALL) == end
    assert world.queue.messages == {}


def test_a_message_redelivered_while_its_epoch_runs_is_not_acknowledged_early(world: Any) -> None:
    world.announce("a.json", 1)
    source = world.source()
    source.latest_offset(START, ALL)
    world.queue.show_all()
    restarted = world.source()
    end = restarted.latest_offset(START, ALL)
    assert len(world.queue.messages) == 1, "the epoch is planned but not committed"
    assert restarted.latest_offset(end, ALL) == end
    assert world.queue.messages == {}


def test_duplicates_in_one_epoch_are_read_once_and_all_acknowledged(world: Any) -> None:
    blob = world.store.put("mem://b/a.json", 1)
    for _ in range(3):
        world.queue.send(blob)
    source = world.source()
    end = source.latest_offset(START, ALL)
    assert ids(source, START, end) == [1]
    source.latest_offset(end, ALL)
    assert world.queue.messages == {}


def test_a_message_that_a_limit_splits_goes_with_its_last_object(world: Any) -> None:
    world.queue.send(*(world.store.put(f"mem://b/{n}.json", n) for n in range(3)))
    source = world.source()
    offset, seen = START, []
    for depth in (1, 1, 1):
        end = source.latest_offset(offset, ReadLimit(max_files=1))
        assert len(world.queue.messages) == depth
        seen += ids(source, offset, end)
        offset = end
    assert seen == [0, 1, 2]
    assert source.latest_offset(offset, ALL) == offset
    assert world.queue.messages == {}


def test_messages_about_nothing_or_about_others_are_acknowledged(world: Any) -> None:
    world.queue.send()
    world.queue.send(BlobRef("mem://other/x.json"))
    world.queue.send(BlobRef("mem://b/_SUCCESS"), BlobRef("mem://b/.hidden/y.json"))
    assert world.source().latest_offset(START, ALL) == START
    assert world.queue.messages == {}


def test_limits_of_bytes_and_files_hold_together(world: Any) -> None:
    for number in range(6):
        world.store.put(f"mem://b/{number}.json", data=b'{"id":1}\n' * 10)
        world.queue.send(BlobRef(f"mem://b/{number}.json"))
    source = world.source()
    sizes, offset = [], START
    for limit in (ReadLimit(max_files=9, max_bytes=200), ReadLimit(max_files=1, max_bytes=900), ReadLimit(max_bytes=1)):
        end = source.latest_offset(offset, limit)
        sizes.append(len(ids(source, offset, end)) // 10)
        offset = end
    assert sizes == [2, 1, 1]


def test_an_offset_stays_small_however_many_objects_it_holds(world: Any) -> None:
    for number in range(5000):
        world.announce(f"{number}.json", number)
    source = world.source()
    end = source.latest_offset(START, ALL)
    assert len(json.dumps(end)) < 100
    assert sum(len(split.portions) for split in source.splits(START, end)) == 5000


def test_a_manifest_that_never_reached_sparks_log_is_adopted(world: Any) -> None:
    world.announce("a.json", 1)
    world.source().latest_offset(START, ALL)
    world.announce("b.json", 2)
    world.queue.polls = 0
    restarted = world.source()
    end = restarted.latest_offset(START, ALL)
    assert world.queue.polls == 0, "the queue is asked only when nothing is left from before"
    assert ids(restarted, START, end) == [1]
    assert ids(restarted, end, restarted.latest_offset(end, ALL)) == [2]


def test_a_checkpoint_from_a_backup_replays_the_same_epochs(world: Any) -> None:
    source, offset = world.source(), START
    for number in range(4):
        world.announce(f"{number}.json", number)
        offset = source.latest_offset(offset, ALL)
    restored = world.source()
    offset, epochs = {"manifest": 1}, []
    while (end := restored.latest_offset(offset, ALL)) != offset:
        epochs.append(ids(restored, offset, end))
        offset = end
    assert epochs == [[1], [2], [3]]


def test_a_second_query_on_one_state_location_is_refused(world: Any) -> None:
    world.announce("a.json", 1)
    first, second = world.source(), world.source()
    end = first.latest_offset(START, ALL)
    second.latest_offset(START, ALL)
    world.announce("b.json", 2)
    first.latest_offset(end, ALL)
    world.announce("c.json", 3)
    with pytest.raises(PipelineConflictError, match="state_location of its own"):
        second.latest_offset(end, ALL)
    second.close()
    after = first.latest_offset({"manifest": 2}, ALL)
    assert ids(first, {"manifest": 2}, after) == [3], "what the refused query had in hand went back to the queue"


def test_a_checkpoint_without_its_state_is_refused(world: Any) -> None:
    with pytest.raises(ConfigError, match="Manifest 7 is not at state_location"):
        world.source().latest_offset({"manifest": 7}, ALL)


def test_replaying_a_lost_manifest_is_refused(world: Any) -> None:
    with pytest.raises(ConfigError, match="Manifest 7 is not at state_location"):
        world.source().splits({"manifest": 6}, {"manifest": 7})


def test_without_state_location_the_error_names_the_option(world: Any) -> None:
    with pytest.raises(ConfigError, match=r"option 'state_location' is required.*delivery='at-least-once'"):
        world.source(state_location=None).latest_offset(START, ALL)


def test_at_least_once_needs_no_state_and_goes_on_after_a_crash(world: Any) -> None:
    world.announce("a.json", 1)
    source = world.source(state_location=None, delivery="at-least-once")
    end = source.latest_offset(START, ALL)
    assert ids(source, START, end) == [1]
    world.queue.show_all()
    restarted = world.source(state_location=None, delivery="at-least-once")
    assert restarted.splits(START, end) == [], "the plan is lost, but nothing of it was acknowledged"
    after = restarted.latest_offset(end, ALL)
    assert ids(restarted, end, after) == [1]


def test_a_name_counts_once_unless_overwrites_are_allowed(world: Any) -> None:
    strict = world.source()
    world.announce("a.json", 1)
    end = strict.latest_offset(START, ALL)
    world.announce("a.json", 2)
    assert strict.latest_offset(end, ALL) == end
    lenient = world.source(allow_overwrites=True)
    world.announce("a.json", 3)
    assert ids(lenient, end, lenient.latest_offset(end, ALL)) == [3]


def test_an_announcement_without_version_is_pinned_to_the_one_of_now(world: Any) -> None:
    world.store.put("mem://b/a.json", 1)
    world.queue.send(BlobRef("mem://b/a.json"))
    source = world.source()
    end = source.latest_offset(START, ALL)
    world.store.put("mem://b/a.json", 2)
    with pytest.raises(BlobChangedError, match=r"mem://b/a\.json.*on_missing_file"):
        ids(source, START, end)


def test_a_failed_manifest_write_loses_no_object(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world.announce("a.json", 1)
    world.announce("b.json", 2)
    source = world.source()
    with monkeypatch.context() as broken:
        broken.setattr("volley_connectors.state.StateStore.create", _raise_transient)
        with pytest.raises(TransientError):
            source.latest_offset(START, ALL)
    world.announce("c.json", 3)
    end = source.latest_offset(START, ALL)
    assert ids(source, START, end) == [1, 2, 3]
    source.latest_offset(end, ALL)
    assert world.queue.messages == {}


def _raise_transient(*_: object) -> bool:
    raise TransientError("the store does not answer")


def test_a_queue_that_does_not_take_the_acknowledgement_is_asked_again(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world.announce("a.json", 1)
    source = world.source()
    end = source.latest_offset(START, ALL)
    world.queue.down = True
    with caplog.at_level(logging.WARNING):
        assert source.latest_offset(end, ALL) == end
    assert "could not acknowledge 1 messages" in caplog.text
    world.queue.down = False
    source.latest_offset(end, ALL)
    assert world.queue.messages == {}


def test_messages_in_hand_are_kept_hidden(world: Any) -> None:
    world.announce("a.json", 1)
    source = world.source(visibility_seconds=0.15)
    end = source.latest_offset(START, ALL)
    deadline = time.monotonic() + 5
    while world.queue.extended.count("r1") < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert world.queue.extended.count("r1") >= 2
    source.latest_offset(end, ALL)
    with world.queue.lock:
        world.queue.extended.clear()
    time.sleep(0.2)
    assert world.queue.extended == [], "what is acknowledged needs no heartbeat"


def test_close_gives_back_what_no_manifest_holds(world: Any) -> None:
    for number in range(3):
        world.announce(f"{number}.json", number)
    source = world.source()
    source.freeze()
    end = source.latest_offset(START, ReadLimit(max_files=1))
    assert world.queue.visible == []
    source.close()
    assert world.queue.visible == ["m2", "m3"]
    restarted = world.source()
    assert ids(restarted, end, restarted.latest_offset(end, ALL)) == [1, 2]


def test_close_gives_back_everything_if_nothing_is_remembered(world: Any) -> None:
    world.announce("a.json", 1)
    source = world.source(state_location=None, delivery="at-least-once")
    source.freeze()
    (split,) = source.splits(START, source.latest_offset(START, ALL))
    source.close()
    assert world.queue.visible == ["m1"]
    assert [record.num_rows for record in source.read(split)] == [1], "a batch is read after the driver closed"


def test_close_stops_the_heartbeat(world: Any) -> None:
    world.announce("a.json", 1)
    source = world.source()
    source.latest_offset(START, ALL)
    source.close()
    source.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "volley-heartbeat"]


def test_freeze_takes_what_is_there_and_nothing_later(world: Any) -> None:
    world.announce("a.json", 1)
    world.announce("b.json", 2)
    source = world.source()
    source.freeze()
    world.announce("c.json", 3)
    offset, seen = START, []
    while (end := source.latest_offset(offset, ReadLimit(max_files=1))) != offset:
        seen += ids(source, offset, end)
        offset = end
    assert seen == [1, 2]
    assert world.queue.visible == ["m3"]


def test_freeze_ends_although_messages_keep_coming(world: Any) -> None:
    plain_poll = world.queue.poll

    def poll(count: int) -> Sequence[Notification]:
        now_ms = time.time_ns() // 1_000_000 + 1000
        world.queue.messages["late"] = (BlobRef("mem://b/late.json", 1, "v", event_time_ms=now_ms),)
        world.queue.visible.append("late")
        return plain_poll(count)

    world.announce("a.json", 1)
    world.queue.poll = poll  # type: ignore[method-assign]
    world.source().freeze()


@pytest.mark.parametrize("choice", ["fail", "skip"])
def test_a_corrupt_object(world: Any, caplog: pytest.LogCaptureFixture, choice: str) -> None:
    world.announce("a.json", 1)
    world.queue.send(world.store.put("mem://b/bad.json", data=b'{"id":'))
    world.announce("c.json", 3)
    source = world.source(on_corrupt_file=choice)
    end = source.latest_offset(START, ALL)
    if choice == "fail":
        with pytest.raises(DecodeError, match=r"mem://b/bad\.json.*'json'.*row 1 is not JSON.*on_corrupt_file"):
            ids(source, START, end)
    else:
        assert ids(source, START, end) == [1, 3]
        assert "mem://b/bad.json" in caplog.text


@pytest.mark.parametrize("choice", ["fail", "skip"])
def test_an_object_deleted_before_it_was_read(world: Any, choice: str) -> None:
    world.announce("a.json", 1)
    world.announce("gone.json", 2)
    world.queue.send(BlobRef("mem://b/never.json"))
    del world.store.objects["mem://b/gone.json"]
    source = world.source(on_missing_file=choice)
    end = source.latest_offset(START, ALL)
    if choice == "fail":
        with pytest.raises(BlobNotFoundError, match=r"gone\.json.*on_missing_file"):
            ids(source, START, end)
    else:
        assert ids(source, START, end) == [1]


def test_the_schema_is_inferred_once_and_remembered(world: Any) -> None:
    world.store.put("mem://b/_ignored.json", data=b'{"wrong":1}\n')
    world.store.put("mem://b/0.json", data=b"")
    world.store.put("mem://b/1.json", data=b'{"id":1,"name":"x"}\n')
    assert world.source(schema=None).schema().names == ["id", "name"]
    world.store.put("mem://b/1.json", data=b'{"other":1}\n')
    assert world.source(schema=None).schema().names == ["id", "name"]


def test_nothing_to_infer_from_asks_for_a_schema(world: Any) -> None:
    with pytest.raises(ConfigError, match="Give the option 'schema'"):
        world.source(schema=None).schema()


def test_an_object_of_another_format_is_named_when_inferring(world: Any) -> None:
    world.store.put("mem://b/a.json", data=b"<xml/>")
    with pytest.raises(DecodeError, match=r"mem://b/a\.json as 'json'.*'format'"):
        world.source(schema=None).schema()


def test_the_format_and_its_options_are_used(world: Any) -> None:
    world.queue.send(world.store.put("mem://b/a.csv", data=b"id;x\n7;y\n"))
    source = world.source(format="csv", format_options={"delimiter": ";"})
    assert ids(source, START, source.latest_offset(START, ALL)) == [7]


def test_format_options_come_one_by_one_as_spark_options() -> None:
    config = BlobSourceConfig.from_options(
        {"format": "csv", "formatOptions.delimiter": ";", "targetSplitBytes": "1 MiB"}
    )
    assert (config.format_options, config.target_split_bytes) == ({"delimiter": ";"}, 1024 * 1024)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_rows_per_trigger": 5}, "max_files_per_trigger or max_bytes_per_trigger"),
        ({"ignored": "("}, "not a regular expression"),
        ({"visibility_seconds": 0}, "greater than 0"),
        ({"formt": "csv"}, "Did you mean 'format'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BlobSourceConfig(**options)


def test_a_source_in_use_can_be_pickled_and_reads(world: Any) -> None:
    config = BlobSourceConfig(schema="id bigint", state_location=world.state)
    world.store.put("mem://b/a.json", 1)
    source = BlobSource(config, None, world.store, "mem://b/")
    end = source.latest_offset(START, ALL)
    (split,) = source.splits(START, end)
    copy = pickle.loads(pickle.dumps(source))
    assert [record.num_rows for record in copy.read(split)] == [1]
    source.close()


def test_small_objects_share_a_split_and_large_ones_do_not() -> None:
    megabyte = 1024 * 1024
    blobs = [BlobRef(str(n), size) for n, size in enumerate([1, 1, 5 * megabyte, 1, 3 * megabyte, megabyte])]
    packs = list(pack(map(Portion, blobs), 4 * megabyte))
    assert [[portion.blob.uri for portion in found] for found in packs] == [["0", "1"], ["2"], ["3", "4"], ["5"]]


def test_opening_many_tiny_objects_counts_too() -> None:
    packs = list(pack([Portion(BlobRef(str(n), 1)) for n in range(100)], 10 * OPENING_BYTES))
    assert [len(found) for found in packs] == [10] * 10


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("*.json", "a.json", True),
        ("*.json", "deep/er/a.json", True),
        ("*.json", "a.json.gz", False),
        ("2024/*.json", "2024/a.json", True),
        ("2024/*.json", "2024/x/a.json", False),
        ("2024/**/*.json", "2024/x/y/a.json", True),
        ("2024/**/*.json", "2024/a.json", True),
        ("**", "any/thing", True),
        ("?.{json,csv}", "a.csv", True),
        ("?.{json,csv}", "ab.csv", False),
        ("[!a]*.json", "b.json", True),
        ("[!a]*.json", "a.json", False),
        ("a+b(1).json", "a+b(1).json", True),
    ],
)
def test_path_glob(glob: str, path: str, matches: bool) -> None:
    assert Selection(BlobSourceConfig(path_glob=glob), "p/").wants(f"p/{path}") is matches


@pytest.mark.parametrize(
    ("ignored", "path", "wanted"),
    [
        (r"^[._]", "_x", False),
        (r"^[._]", "a/.b/c", False),
        (r"^[._]", "a/b_c", True),
        (r"\.tmp$", "_x", True),
        ("", ".x", True),
    ],
)
def test_ignored(ignored: str, path: str, wanted: bool) -> None:
    assert Selection(BlobSourceConfig(ignored=ignored), "_p/").wants(f"_p/{path}") is wanted
