"""The source `files`, alone and together with the sink in one process."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from volley_blob_store_local import FilesSink, FilesSinkConfig, FilesSource, FilesSourceConfig

from volley_connectors import build
from volley_core import BlobChangedError, ConfigError, EpochContext, ReadLimit


def put(file: Path, *ids: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps({"id": i}) + "\n" for i in ids))


def source(folder: Path, **options: Any) -> FilesSource:
    settings = {"path": str(folder / "in"), "schema": "id bigint", "state_location": str(folder / "state")} | options
    return FilesSource(FilesSourceConfig(**settings))


def read(files: FilesSource, start: Any, end: Any) -> list[int]:
    records = [record for split in files.splits(start, end) for record in files.read(split)]
    return [row["id"] for record in records for row in record.batch.to_pylist()]


def test_is_found_by_name_with_options_as_text(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.json", 1)
    options = {"path": str(tmp_path / "in"), "schema": "id bigint", "stateLocation": str(tmp_path / "s")}
    files = build("sources", "files", options)
    end = files.latest_offset(files.initial_offset(), ReadLimit())
    assert read(files, files.initial_offset(), end) == [1]
    files.close()


def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    for call in (FilesSource.freeze, FilesSource.schema):
        files = source(tmp_path, schema=None)
        with pytest.raises(ConfigError, match=r"/in/: there is no such directory.*'path'"):
            call(files)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"discovery": "notifications"}, "needs the option 'queue'"),
        ({"discovery": "both"}, "needs the option 'queue'"),
        ({"discovery": "watch", "queue": "/q"}, "not used with discovery = watch"),
        ({"discovery": "magic"}, "discovery"),
        ({"pth": "/x"}, "Did you mean 'path'"),
        ({"path": ""}, "path"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        source(tmp_path, **options)


@pytest.mark.parametrize("name", ["messages", "q.sqlite", "q.db"])
def test_a_queue_announces_files(tmp_path: Path, name: str) -> None:
    put(tmp_path / "in" / "announced.json", 1)
    put(tmp_path / "in" / "unannounced.json", 2)
    files = source(tmp_path, queue=str(tmp_path / name), include_existing_files=False)
    files._queue.send(str(tmp_path / "in" / "announced.json"))
    start = files.initial_offset()
    end = files.latest_offset(start, ReadLimit())
    assert read(files, start, end) == [1]
    assert files.latest_offset(end, ReadLimit()) == end
    files.close()


def test_switching_the_discovery_on_a_restart_reads_nothing_twice(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.json", 1)
    listing = source(tmp_path)
    end = listing.latest_offset(listing.initial_offset(), ReadLimit())
    listing.close()
    put(tmp_path / "in" / "b.json", 2)
    for options in ({"discovery": "watch"}, {"queue": str(tmp_path / "q")}, {}):
        files = source(tmp_path, **options)
        if "queue" in options:
            for name in ("a.json", "b.json"):
                files._queue.send(str(tmp_path / "in" / name))
        files.freeze()
        after = files.latest_offset(end, ReadLimit())
        assert (read(files, end, after) if after != end else []) == ([2] if options.get("discovery") == "watch" else [])
        end = after
        files.close()


def test_hidden_names_and_the_sinks_own_folders_are_left_out(tmp_path: Path) -> None:
    for name in ("a.json", "sub/b.json", "_staging/c.json", ".d.json", "sub/_e.json"):
        put(tmp_path / "in" / name, len(name))
    files = source(tmp_path)
    end = files.latest_offset(files.initial_offset(), ReadLimit())
    assert sorted(read(files, files.initial_offset(), end)) == [6, 10]
    files.close()


def test_a_file_that_changes_after_it_was_planned_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.json", 1)
    files = source(tmp_path)
    end = files.latest_offset(files.initial_offset(), ReadLimit())
    put(tmp_path / "in" / "a.json", 1, 2)
    with pytest.raises(BlobChangedError, match=r"a\.json"):
        read(files, files.initial_offset(), end)
    files.close()


def test_a_batch_read_leaves_queue_and_disk_as_they_were(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.json", 1)
    options = {"state_location": None, "delivery": "at-least-once", "queue": str(tmp_path / "q")}
    for _ in range(2):
        batch = source(tmp_path, **options)
        if not (tmp_path / "q").exists():
            batch._queue.send(str(tmp_path / "in" / "a.json"))
        batch.freeze()
        splits = batch.splits(batch.initial_offset(), batch.latest_offset(batch.initial_offset(), ReadLimit()))
        batch.close()
        assert [record.num_rows for split in splits for record in batch.read(split)] == [1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "q"]


def test_source_to_sink_in_one_process(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path / "in" / f"{number}.json", number, number + 100)
    files = source(tmp_path)
    offset, epoch = files.initial_offset(), 0
    files.freeze()
    while (end := files.latest_offset(offset, ReadLimit(max_files=2))) != offset:
        sink = FilesSink(FilesSinkConfig(path=str(tmp_path / "out")))
        sink.prepare(files.schema())
        sink.begin(EpochContext("query", epoch))
        for split in files.splits(offset, end):
            for record in files.read(split):
                sink.write(record)
        sink.flush()
        sink.on_checkpoint(epoch)
        offset, epoch = end, epoch + 1
    files.close()
    assert epoch == 3
    table = ds.dataset(tmp_path / "out", format="parquet").to_table()
    assert sorted(table["id"].to_pylist()) == sorted([*range(5), *range(100, 105)])


def test_a_watched_directory_gives_what_was_there_and_what_arrives_without_listing_again(tmp_path: Path) -> None:
    put(tmp_path / "in" / "old.json", 1)
    files = source(tmp_path, discovery="watch", backfill_interval=3600)
    seen: list[int] = []
    start = files.initial_offset()
    deadline = time.monotonic() + 20
    while len(seen) < 2 and time.monotonic() < deadline:
        end = files.latest_offset(start, ReadLimit())
        seen += read(files, start, end) if end != start else []
        if seen == [1] and not (tmp_path / "in" / "new.json").exists():
            put(tmp_path / "in" / "new.json", 2)
        start = end
    assert seen == [1, 2]
    files.close()


def test_what_the_system_does_not_tell_is_found_by_the_next_listing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    files = source(tmp_path, discovery="watch", backfill_interval=0.1)
    start = files.initial_offset()
    assert files.latest_offset(start, ReadLimit()) == start
    files._queue._observer.unschedule_all()
    put(tmp_path / "in" / "silent.json", 1)
    deadline = time.monotonic() + 20
    while (end := files.latest_offset(start, ReadLimit())) == start:
        assert time.monotonic() < deadline
    assert read(files, start, end) == [1]
    files.close()


def test_an_archive_within_the_directory_is_refused_by_whatever_name(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in")
    for inside in (tmp_path / "in", tmp_path / "in" / "old", tmp_path / "link" / "old", tmp_path / "x" / ".." / "in"):
        with pytest.raises(ConfigError, match="where archived files would be found as new ones"):
            source(tmp_path, clean_source="archive", archive_path=str(inside))
    source(tmp_path, clean_source="archive", archive_path=str(tmp_path / "in-archive"))


def test_read_files_are_archived_with_their_folders(tmp_path: Path) -> None:
    put(tmp_path / "in" / "2024" / "a.json", 1)
    archive = tmp_path / "archive"
    files = source(tmp_path, clean_source="archive", clean_source_retention=0, archive_path=archive.as_uri())
    end = files.latest_offset(files.initial_offset(), ReadLimit())
    assert read(files, files.initial_offset(), end) == [1]
    files.freeze()
    assert files.latest_offset(end, ReadLimit()) == end
    files.close()
    assert [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("a.json")] == ["archive/2024/a.json"]
