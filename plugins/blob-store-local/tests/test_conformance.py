"""Every class of the package against the contract that it claims to keep."""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from volley_blob_store_local import (
    DirectoryQueue,
    DirectoryQueueConfig,
    FileBlobReader,
    FileBlobReaderConfig,
    FilesSink,
    FilesSinkConfig,
    FilesSource,
    FilesSourceConfig,
    SqliteQueue,
    SqliteQueueConfig,
)

from volley_core.conformance import (
    BlobReaderSuite,
    BlobRemoverSuite,
    EpochSinkSuite,
    NotificationSourceSuite,
    PreparedSinkSuite,
    SplitSourceSuite,
    StagingSinkSuite,
)


class TestFileBlobReader(BlobReaderSuite, BlobRemoverSuite):
    @pytest.fixture
    def make_reader(self, tmp_path: Path) -> Callable[[], FileBlobReader]:
        self.root = tmp_path
        return lambda: FileBlobReader(FileBlobReaderConfig())

    def put(self, name: str, data: bytes) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def uri(self, name: str) -> str:
        return f"{self.root}/{name}"


class TestFileBlobReaderAcrossFileSystems(TestFileBlobReader):
    @pytest.fixture(autouse=True)
    def rename_stays_within_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(source: str, target: str) -> None:
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        monkeypatch.setattr("volley_blob_store_local.reader.os.rename", refuse)

    def test_a_move_that_died_before_the_original_was_deleted_is_finished(
        self, make_reader: Callable[[], FileBlobReader], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ref = self.stored(make_reader(), "a.json", b"a")
        with monkeypatch.context() as patch:
            patch.setattr("volley_blob_store_local.reader.os.unlink", lambda path: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                make_reader().move(ref, self.uri("archive/a.json"))
        assert make_reader().move(ref, self.uri("archive/a.json")) is True
        assert [file.name for file in self.root.rglob("*.json")] == ["a.json"]
        assert not (self.root / "a.json").exists()


class TestDirectoryQueue(NotificationSourceSuite):
    hidden_seconds = 0.5

    @pytest.fixture
    def make_source(self, tmp_path: Path) -> Callable[[], DirectoryQueue]:
        self.path = tmp_path / "queue"
        self.path.mkdir()
        return self.make

    def make(self) -> DirectoryQueue:
        return DirectoryQueue(DirectoryQueueConfig(path=str(self.path), visibility_seconds=self.hidden_seconds))

    def announce(self, name: str) -> str:
        self.make().send(f"/objects/{name}")
        return f"/objects/{name}"

    def announce_garbage(self) -> None:
        (self.path / "0000-garbage.json").write_bytes(b"{garbage")

    def depth(self) -> int:
        return len(list(self.path.iterdir()))


class TestSqliteQueue(NotificationSourceSuite):
    hidden_seconds = 0.5

    @pytest.fixture
    def make_source(self, tmp_path: Path) -> Iterator[Callable[[], SqliteQueue]]:
        self.path = tmp_path / "queue.sqlite"
        self.made: list[SqliteQueue] = []
        yield self.make
        for queue in self.made:
            queue.close()

    def make(self) -> SqliteQueue:
        config = SqliteQueueConfig(path=str(self.path), visibility_seconds=self.hidden_seconds)
        self.made.append(SqliteQueue(config))
        return self.made[-1]

    def announce(self, name: str) -> str:
        self.make().send(f"/objects/{name}")
        return f"/objects/{name}"

    def announce_garbage(self) -> None:
        self.make().send_body("{garbage")

    def depth(self) -> int:
        with closing(sqlite3.connect(self.path)) as connection:
            return int(connection.execute("SELECT count(*) FROM messages").fetchone()[0])


class FilesSourceSuite(SplitSourceSuite):
    """A directory of Parquet files, which hold every type; how they are found differs."""

    limits = frozenset({"max_files", "max_bytes"})
    options: dict[str, Any] = {}

    @pytest.fixture
    def make_source(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], FilesSource]]:
        self.root = tmp_path
        self.fed = 0
        self.made: list[FilesSource] = []
        (tmp_path / "in").mkdir()
        yield self.make
        for source in self.made:
            source.close()

    def make(self) -> FilesSource:
        config = FilesSourceConfig(
            path=str(self.root / "in"), format="parquet", state_location=str(self.root / "state"), **self.settings()
        )
        self.made.append(FilesSource(config))
        return self.made[-1]

    def settings(self) -> dict[str, Any]:
        return self.options

    def feed(self, table: pa.Table) -> None:
        self.fed += 1
        draft, file = self.root / "in" / f".{self.fed}", self.root / "in" / f"{self.fed:04d}.parquet"
        pq.write_table(table, draft)
        draft.rename(file)

    def as_read(self, table: pa.Table) -> pa.Table:
        return table


class TestFilesSourceByListing(FilesSourceSuite):
    options = {"discovery": "listing"}


class TestFilesSourceByWatching(FilesSourceSuite):
    options = {"discovery": "watch", "backfill_interval": 3600}
    settle_seconds = 0.3


class TestFilesSourceByDirectoryQueue(FilesSourceSuite):
    def settings(self) -> dict[str, Any]:
        return {"discovery": "notifications", "queue": str(self.root / "queue"), "visibility_seconds": 0.2}

    def feed(self, table: pa.Table) -> None:
        super().feed(table)
        queue = DirectoryQueue(DirectoryQueueConfig(path=str(self.root / "queue")))
        # Announced twice: queues deliver at least once.
        for _ in range(2):
            queue.send(str(self.root / "in" / f"{self.fed:04d}.parquet"))


class TestFilesSink(StagingSinkSuite, EpochSinkSuite, PreparedSinkSuite):
    @pytest.fixture
    def make_sink(self, tmp_path: Path) -> Callable[..., FilesSink]:
        self.path = tmp_path / "out"
        return lambda **options: FilesSink(FilesSinkConfig(path=str(self.path), **options))

    def published(self) -> pa.Table:
        if not self.path.exists():
            return pa.table({})
        # Another reader than our own, which skips hidden names as Spark does.
        return ds.dataset(self.path, format="parquet").to_table()

    def unfit(self) -> pa.Schema:
        return pa.schema([("id", pa.string()), ("name", pa.string())])


def test_the_commit_tag_names_query_and_epoch(tmp_path: Path) -> None:
    sink = FilesSink(FilesSinkConfig(path=str(tmp_path / "out"), pipeline_id="events"))
    TestFilesSink().run(sink, 7, pa.table({"id": [1]}))
    tag = json.loads((tmp_path / "out" / "epoch=0000000007" / "_commit.json").read_bytes())
    assert (tag["pipeline_id"], tag["epoch"]) == ("events", 7)
