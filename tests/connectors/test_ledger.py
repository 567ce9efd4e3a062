"""What the ledger knows of objects, and the files that it keeps it in."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.servers.aws import KEYS, client
from volley_connectors.blob.bookkeeping import Bookkeeper, Rules
from volley_connectors.blob.identities import RECORD, Order, identify
from volley_connectors.blob.ledger import Ledger, Verdict
from volley_connectors.blob.manifests import Entry, ManifestLog
from volley_connectors.blob.segment_index import Index, SegmentIndex
from volley_connectors.blob.segments import Segment, StoppedError, merge, write
from volley_connectors.state import StateStore
from volley_core import BlobRef, ConfigError

DAY_MS = 24 * 3600 * 1000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def order(sequencer: str) -> Order:
    return identify(BlobRef("a", sequencer=sequencer)).order


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("0055AED6DCD90281E5", "0055AED6DCD90281E6"),
        ("00617f08299329d189", "00617F08299329D18A"),
        # Azure's, of 32 digits; MinIO's; GCS's generations, which are decimal.
        ("00000000000004420000000000028963", "00000000000004420000000000028964"),
        ("18E9165E39683F64", "18E9165E39683F65"),
        ("1700000000000001", "1700000000000002"),
        # Filled up on either side it is the earlier.
        ("1A", "1B0"),
    ],
)
def test_the_order_of_versions_is_that_of_their_sequencers(early: str, late: str) -> None:
    assert order(early).is_before(order(late))
    assert not order(late).is_before(order(early))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0A1", "0A1"),
        ("", "0A1"),
        ("zebra", "zoo"),
        ("1" * 33, "2" * 33),
        # Filled up on the left the first is the earlier, filled up on the right the second.
        ("9", "10"),
        ("1B", "1A0"),
    ],
)
def test_what_cannot_be_told_is_not_an_order(one: str, other: str) -> None:
    assert not order(one).is_before(order(other))
    assert not order(other).is_before(order(one))


def test_an_identity_is_the_same_in_every_process() -> None:
    blob = BlobRef("s3://b/ü\udcff.json", 1, "v1", "0055AED6DCD90281E5")
    assert identify(blob) == (
        *identify(BlobRef(blob.uri))[:2],
        identify(BlobRef("x", version="v1")).version,
        0,
        0x55AED6DCD90281E5,
        18,
    )
    assert f"{identify(BlobRef('s3://b/a')).high:016x}" == "504f0d76a145d771"


def test_an_object_is_too_old_by_its_time_unless_any_age_is_taken_or_it_was_seen() -> None:
    ledger = Ledger(by_version=False, max_age_ms=DAY_MS)
    old, young, timeless = BlobRef("a", event_time_ms=now_ms() - 2 * DAY_MS), BlobRef("b"), BlobRef("c")
    assert ledger.judge([old, young, timeless]) == [Verdict.TOO_OLD, Verdict.NEW, Verdict.NEW]
    ledger.takes_any_age = True
    assert ledger.judge([old]) == [Verdict.NEW]
    ledger.replace([], 0, horizon_ms=now_ms() - DAY_MS)
    assert ledger.judge([old]) == [Verdict.TOO_OLD], "what may be forgotten is refused whatever the rules are"
    ledger.add([old])
    assert ledger.judge([old]) == [Verdict.SEEN]


def records(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    chance = np.random.default_rng(seed)
    found = np.zeros(count, RECORD)
    for name in ("high", "low", "version", "order_high", "order_low"):
        found[name] = chance.integers(0, 2**64, count, dtype=np.uint64)
    found["digits"] = chance.integers(0, 33, count)
    return found


def find(segment: Segment, high: np.ndarray[Any, Any], low: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Where the records of each uri begin and end."""
    begin, end = np.zeros(len(high), np.int64), np.zeros(len(high), np.int64)
    likely = segment.likely(high, low)
    begin[likely], end[likely] = segment.find(high, low, likely)
    return begin, end


@pytest.mark.parametrize("count", [0, 1, 50, 51, 52, 5000])
def test_a_segment_finds_what_it_holds_and_nothing_else(tmp_path: Path, count: int) -> None:
    held, others = records(count), records(5000, seed=1)
    write(tmp_path / "s", held)
    segment = Segment(tmp_path / "s")
    assert segment.count == count
    begin, end = find(segment, held["high"], held["low"])
    assert (end - begin == 1).all()
    for name in RECORD.names or ():
        assert (segment.columns[name][begin] == held[name]).all()
    begin, end = find(segment, others["high"], others["low"])
    assert (begin == end).all()
    # Of the 128 bits all count, also of those that the filter does not look at.
    for changed in (held["low"] ^ np.uint64(1 << 63), held["low"] ^ np.uint64(1)):
        begin, end = find(segment, held["high"], changed)
        assert (begin == end).all()


def test_all_versions_of_a_name_are_found_together_and_in_order(tmp_path: Path) -> None:
    held = records(1000)
    held["high"][:500], held["low"][:500] = 2**64 - 1, 7
    write(tmp_path / "s", held)
    segment = Segment(tmp_path / "s")
    (begin,), (end,) = find(segment, np.array([2**64 - 1], np.uint64), np.array([7], np.uint64))
    assert end - begin == 500
    assert sorted(held["version"][:500]) == list(segment.columns["version"][begin:end])


def test_names_that_share_the_first_half_of_their_hash_are_told_apart(tmp_path: Path) -> None:
    held = records(300)
    held["high"][:30] = held["high"][0]
    held["low"][:30] = np.repeat(np.arange(10, dtype=np.uint64) * np.uint64(8), 3)
    write(tmp_path / "s", held)
    begin, end = find(Segment(tmp_path / "s"), held["high"][:30], held["low"][:30])
    assert (end - begin == 3).all()
    assert len(set(begin)) == 10
    begin, end = find(Segment(tmp_path / "s"), held["high"][:1], np.array([2**60], np.uint64))
    assert (begin == end).all()


def test_a_merge_is_the_same_file_as_if_all_had_been_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volley_connectors.blob.segments._CHUNK", 200)
    parts = [records(count, seed) for seed, count in enumerate((1000, 0, 37, 2500))]
    for number, part in enumerate(parts):
        write(tmp_path / str(number), part)
    merge(tmp_path / "merged", [Segment(tmp_path / str(number)) for number in range(len(parts))])
    write(tmp_path / "whole", np.concatenate(parts))
    assert (tmp_path / "merged").read_bytes() == (tmp_path / "whole").read_bytes()
    with pytest.raises(StoppedError):
        merge(tmp_path / "stopped", [Segment(tmp_path / "0")], is_stopped=lambda: True)


@pytest.mark.parametrize("data", [b"", b"VOLLEY", b"something else entirely, and longer than a header"])
def test_a_file_that_is_no_segment_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "s").write_bytes(data)
    with pytest.raises(ValueError, match="not a whole ledger segment"):
        Segment(tmp_path / "s")


def test_a_deleted_segment_stays_readable(tmp_path: Path) -> None:
    held = records(100)
    write(tmp_path / "s", held)
    segment = Segment(tmp_path / "s")
    (tmp_path / "s").unlink()
    begin, end = find(segment, held["high"], held["low"])
    assert (begin < end).all()


@pytest.fixture
def remote(moto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Bookkeeper]:
    """Starts a bookkeeper whose state is in a bucket."""
    for name, value in {
        "AWS_ENDPOINT_URL": moto,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": KEYS["region"],
        "AWS_ACCESS_KEY_ID": KEYS["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": KEYS["secret_access_key"],
        "VOLLEY_CACHE_DIR": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    client("s3", moto).create_bucket(Bucket="ledgers")
    rules = Rules(DAY_MS, DAY_MS, fold_identities=10, fan_out=2)
    return lambda: Bookkeeper(StateStore(f"s3://ledgers/{tmp_path.name}"), Ledger(False), rules)


def test_a_remote_ledger_is_downloaded_once(
    remote: Callable[[], Bookkeeper], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateStore(f"s3://ledgers/{tmp_path.name}")
    writer = remote()
    writer.load()
    blobs = [BlobRef(f"s3://b/{number}", 1, "v") for number in range(70)]
    for number in range(1, 8):
        batch = blobs[number * 10 - 10 : number * 10]
        ManifestLog(state).write(number, [Entry(blob) for blob in batch])
        writer.add(number, batch)
        writer.work()
    (cache,) = (tmp_path / "cache" / "ledger").iterdir()
    assert len(list(cache.iterdir())) == 3, "of 40, 20 and 10 objects; those that were merged are gone"
    for path in cache.iterdir():
        path.unlink()
    assert remote().load().judge(blobs) == [Verdict.SEEN] * 70
    assert len(list(cache.iterdir())) == 3
    monkeypatch.setattr(StateStore, "download", lambda *_: pytest.fail("it was downloaded again"))
    restarted = remote()
    assert restarted.load().judge([*blobs, BlobRef("s3://b/new")]) == [Verdict.SEEN] * 70 + [Verdict.NEW]
    assert restarted.last() == 7


def test_a_start_reads_only_the_manifests_that_are_not_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = StateStore(str(tmp_path))

    def bookkeeper() -> Bookkeeper:
        return Bookkeeper(state, Ledger(False), Rules(DAY_MS, DAY_MS, fold_manifests=5))

    one = bookkeeper()
    one.load()
    for number in range(1, 13):
        ManifestLog(state).write(number, [Entry(BlobRef(str(number)))])
        one.add(number, [BlobRef(str(number))])
    one.work()
    read, heard = ManifestLog.read, []
    monkeypatch.setattr(ManifestLog, "read", lambda log, number: heard.append(number) or read(log, number))
    ledger = bookkeeper().load()
    assert sorted(heard) == [11, 12]
    assert ledger.judge([BlobRef(str(number)) for number in range(14)]) == [
        Verdict.NEW,
        *[Verdict.SEEN] * 12,
        Verdict.NEW,
    ]


def test_one_who_slept_while_another_went_on_commits_nothing(tmp_path: Path) -> None:
    sleeper, other = SegmentIndex(StateStore(str(tmp_path))), SegmentIndex(StateStore(str(tmp_path)))
    assert sleeper.commit(Index(1, folded=1))
    for number in range(2, 7):
        assert other.commit(Index(number, folded=number))
    for number in (2, 5, 6):
        assert not sleeper.commit(Index(number, folded=100))
    assert sleeper.last() == Index(6, folded=6)
    assert len(list((tmp_path / "ledger" / "index").iterdir())) == 2


def test_a_commit_whose_answer_got_lost_is_recognised(tmp_path: Path) -> None:
    index = SegmentIndex(StateStore(str(tmp_path)))
    assert index.commit(Index(1, folded=1))
    assert index.commit(Index(1, folded=1))


def test_a_later_format_is_not_misread(tmp_path: Path) -> None:
    (StateStore(str(tmp_path)) / "ledger" / "index").create(f"{1:020d}.json", b'{"format": 2}')
    with pytest.raises(ConfigError, match="later version of Volley"):
        Bookkeeper(StateStore(str(tmp_path)), Ledger(False), Rules(DAY_MS, DAY_MS)).load()
