"""Reading again what another query has read."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from volley_connectors.blob import BlobSource, BlobSourceConfig, planner
from volley_connectors.blob.manifests import Entry, ManifestLog
from volley_connectors.blob.reprocessing import Survey
from volley_connectors.state import StateStore
from volley_core import BlobNotFoundError, BlobRef, ConfigError, Offset, ReadLimit

ALL = ReadLimit()
START: Offset = {"manifest": 0}


def read(source: BlobSource, start: Offset, end: Offset) -> list[int]:
    records = [record for split in source.splits(start, end) for record in source.read(split)]
    return [i for record in records for i in record.batch["id"].to_pylist()]


def drain(source: BlobSource, start: Offset = START, limit: ReadLimit = ALL) -> list[list[int]]:
    """Epoch by epoch until there is nothing more."""
    epochs = []
    while (end := source.latest_offset(start, limit)) != start:
        epochs.append(read(source, start, end))
        start = end
    return epochs


@pytest.fixture
def old(world: Any) -> str:
    """The memory of a query that has read five epochs of two objects each."""
    world.state, new = f"{world.state}-old", world.state
    source, offset = world.source(), START
    for number in range(5):
        world.announce(f"{number}-a.json", number * 10)
        world.announce(f"{number}-b.json", number * 10 + 1)
        offset = source.latest_offset(offset, ALL)
        read(source, {"manifest": number}, offset)
    source.latest_offset(offset, ALL)
    old, world.state = world.state, new
    return str(old)


def again(world: Any, old: str, **options: Any) -> BlobSource:
    source: BlobSource = world.source(reprocess_state_location=old, **options)
    return source


def test_the_same_objects_come_in_the_same_epochs_and_nothing_else(world: Any, old: str) -> None:
    world.announce("new.json", 99)
    source = again(world, old)
    source.freeze()
    assert drain(source) == [[0, 1], [10, 11], [20, 21], [30, 31], [40, 41]]
    assert len(world.queue.visible) == 1, "the queue is left alone"
    resting = again(world, old)
    assert resting.latest_offset({"manifest": 5}, ALL) == {"manifest": 5}


@pytest.mark.parametrize(
    ("options", "epochs"),
    [
        ({"reprocess_from": "2", "reprocess_to": "3"}, [[10, 11], [20, 21]]),
        ({"reprocess_to": 1}, [[0, 1]]),
        ({"reprocess_from": "4", "path_glob": "*-b.json"}, [[31], [41]]),
        ({"reprocess_from": "1 hour", "reprocess_to": "2"}, [[0, 1], [10, 11]]),
    ],
)
def test_epochs_are_named_by_number_or_time(
    world: Any, old: str, options: dict[str, Any], epochs: list[list[int]]
) -> None:
    assert drain(again(world, old, **options)) == epochs


def test_times_are_when_an_epoch_was_planned(world: Any, old: str) -> None:
    planned_ms = [ManifestLog(StateStore(old)).planned(number)[0] for number in range(1, 6)]
    for number in range(1, 6):
        file = Path(old, "manifests", f"{number:020d}.json")
        head, *lines = file.read_text().splitlines(keepends=True)
        moved = json.dumps(json.loads(head) | {"written_ms": planned_ms[0] - 86_400_000 * (6 - number)})
        file.write_text(f"{moved}\n{''.join(lines)}")
    options = {"reprocess_from": "3 days", "reprocess_to": "36 hours"}
    assert drain(again(world, old, **options)) == [[30, 31]]


def test_limits_cut_an_old_epoch_and_never_mix_two(world: Any, old: str) -> None:
    source = again(world, old, reprocess_to="3")
    assert drain(source, limit=ReadLimit(max_files=1)) == [[0], [1], [10], [11], [20], [21]]


def test_a_byte_limit_never_mixes_two_either(world: Any, old: str) -> None:
    source = again(world, old, reprocess_to="2", target_split_bytes=1)
    assert drain(source, limit=ReadLimit(max_bytes=1)) == [[0], [1], [10], [11]]


def test_a_restart_in_the_middle_goes_on_and_replays_the_same(world: Any, old: str) -> None:
    limit = ReadLimit(max_files=1)
    first = again(world, old)
    offset, epochs = START, []
    for _ in range(3):
        end = first.latest_offset(offset, limit)
        epochs.append(read(first, offset, end))
        start, offset = offset, end
    # The old query goes on meanwhile: what it reads now is not part of this.
    ManifestLog(StateStore(old)).write(6, [Entry(world.store.put("mem://b/late.json", 77))])
    restarted = again(world, old)
    assert read(restarted, start, offset) == epochs[-1] == [10]
    assert restarted.latest_offset(start, limit) == offset
    assert drain(restarted, offset, limit) == [[11], [20], [21], [30], [31], [40], [41]]


def test_a_plan_that_never_reached_sparks_log_is_adopted(world: Any, old: str) -> None:
    planned = again(world, old).latest_offset(START, ALL)
    assert drain(again(world, old)) == [[0, 1], [10, 11], [20, 21], [30, 31], [40, 41]]
    assert planned == {"manifest": 1}


def test_a_restart_at_the_end_is_quick_to_see_it_however_long_the_past(
    world: Any, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(drain(again(world, old, reprocess_to="4"))) == 4
    monkeypatch.setattr(planner, "PLANNING_SECONDS", -1.0)
    # Nothing is left out because what was seen took long.
    other = again(world, old, reprocess_to="4")
    other.freeze()
    assert other.latest_offset({"manifest": 3}, ALL) == {"manifest": 4}
    assert other.latest_offset({"manifest": 4}, ALL) == {"manifest": 4}


def test_every_version_that_was_read_is_read_again_also_if_names_count_once(world: Any) -> None:
    world.state, new = f"{world.state}-old", world.state
    source, offset = world.source(allow_overwrites=True), START
    versions: dict[tuple[str, str], bytes] = {}
    for number in range(2):
        blob = world.store.put("mem://b/a.json", number)
        versions[blob.identity] = world.store.objects[blob.uri][1]
        world.queue.send(blob)
        offset = source.latest_offset(offset, ALL)
    old, world.state = world.state, new

    def open_version(ref: BlobRef) -> Any:
        """As a store that keeps versions."""
        return io.BytesIO(versions[ref.identity])

    world.store.open = open_version
    assert drain(again(world, old)) == [[0], [1]]


def test_objects_that_are_gone_follow_the_option(world: Any, old: str) -> None:
    del world.store.objects["mem://b/1-a.json"]
    world.store.put("mem://b/2-b.json", 5)
    with pytest.raises(BlobNotFoundError, match="'on_missing_file'"):
        drain(again(world, old))
    skipping = again(world, old, on_missing_file="skip", state_location=f"{world.state}-2")
    assert drain(skipping) == [[0, 1], [11], [20], [30, 31], [40, 41]]


def test_a_batch_reads_all_of_it_at_once_and_leaves_no_trace(world: Any, old: str) -> None:
    config = BlobSourceConfig(schema="id bigint", reprocess_state_location=old, reprocess_from="2")
    source = BlobSource(config.detached(), None, world.store, "mem://b/")
    source.freeze()
    end = source.latest_offset(START, ALL)
    assert read(source, START, end) == [10, 11, 20, 21, 30, 31, 40, 41]
    source.close()
    assert not Path(old, "reprocessing.json").exists()


def test_a_survey_tells_what_there_is_and_what_is_gone(world: Any, old: str) -> None:
    del world.store.objects["mem://b/1-a.json"]
    world.store.put("mem://b/2-b.json", 5)
    heard: list[tuple[int, int]] = []
    source = again(world, old, reprocess_from="2", path_glob="?-*.json", regex="[^4]-")
    found = source.survey(lambda done, total: heard.append((done, total)))
    assert found == Survey(old, 2, 5, 4, 6, 6 * 10, 6, 0, missing=1, overwritten=1, left_out=2)
    assert heard == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reprocess_from": "3"}, "need 'reprocess_state_location'"),
        ({"reprocess_state_location": "/old", "reprocess_from": "soon"}, "expected a time such as"),
        ({"reprocess_state_location": "/old", "state_location": "/x/../old/"}, "rows would be doubled"),
        ({"reprocess_state_location": "s3://b/old/", "state_location": "s3://b/old"}, "rows would be doubled"),
        ({"reprocess_state_location": "/old", "clean_source": "delete"}, "clean_source does not go with"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BlobSourceConfig(**options)


def test_a_memory_that_is_not_new_is_refused(world: Any, old: str) -> None:
    with pytest.raises(ConfigError, match="has no epochs in what .* It has epochs 1 to 5"):
        again(world, old, reprocess_from="6").latest_offset(START, ALL)
    drain(again(world, old, reprocess_to="2"))
    with pytest.raises(ConfigError, match=r"belongs to another reprocessing .*reprocess_to = 2"):
        again(world, old, reprocess_to="3").latest_offset(START, ALL)
    used = world.source(state_location=f"{world.state}-used")
    world.announce("x.json", 1)
    used.latest_offset(START, ALL)
    with pytest.raises(ConfigError, match="belongs to a query that has read other objects"):
        again(world, old, state_location=f"{world.state}-used").latest_offset({"manifest": 1}, ALL)
    with pytest.raises(ConfigError, match="holds no manifests"):
        again(world, f"{old}-nowhere", state_location=f"{world.state}-3").latest_offset(START, ALL)
