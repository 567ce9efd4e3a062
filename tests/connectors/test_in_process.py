"""A SplitSource polled in one process: what is read, where it goes on, and when an epoch counts as durable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from volley_blob_store_local import FilesSource, FilesSourceConfig

from volley_connectors.in_process import InProcessSource
from volley_core import ReadLimit, ResumableSource

Make = Callable[..., InProcessSource]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[InProcessSource] = []
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"id": {number}}}\n')
    config = FilesSourceConfig(
        path=str(tmp_path / "in"), schema="id bigint", state_location=str(tmp_path / "state"), target_split_bytes=1
    )

    def make(max_files: int | None = None) -> InProcessSource:
        made.append(InProcessSource(FilesSource(config), ReadLimit(max_files=max_files)))
        return made[-1]

    yield make
    for source in made:
        source.close()


def poll_ids(source: InProcessSource) -> list[int]:
    found: list[int] = []
    while (record := source.poll()) is not None:
        found += record.batch["id"].to_pylist()
    return found


def test_is_a_resumable_source_of_the_same_rows(make: Make) -> None:
    source = make()
    assert isinstance(source, ResumableSource)
    assert source.connector_id.startswith("files:")
    assert source.schema().names == ["id"]
    assert sorted(poll_ids(source)) == [0, 1, 2]


def test_the_next_epoch_waits_until_the_last_is_durable(make: Make) -> None:
    source = make(max_files=1)
    seen = []
    for epoch in range(3):
        seen += poll_ids(source)
        assert len(seen) == epoch + 1
        source.on_checkpoint(epoch)
    assert sorted(seen) == [0, 1, 2]
    assert poll_ids(source) == []


def test_what_arrives_later_is_read_later(make: Make, tmp_path: Path) -> None:
    source = make()
    poll_ids(source)
    source.on_checkpoint(0)
    (tmp_path / "in" / "9.json").write_text('{"id": 9}\n')
    assert poll_ids(source) == [9]


@pytest.mark.parametrize("taken", [0, 1, 2, 3])
def test_a_new_instance_goes_on_inside_an_epoch(make: Make, taken: int) -> None:
    source = make()
    records = [source.poll() for _ in range(taken)]
    position = source.position()
    again = make()
    again.seek(position)
    before = [value for record in records if record for value in record.batch["id"].to_pylist()]
    assert sorted(before + poll_ids(again)) == [0, 1, 2]
