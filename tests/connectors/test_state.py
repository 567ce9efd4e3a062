"""Durable memory: of two writers exactly one wins."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from pathlib import Path

import pytest

from volley_connectors.state import StateStore
from volley_core import ConfigError

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(str(tmp_path / "state"))


def test_create_writes_once(store: StateStore) -> None:
    assert store.create("a", b"first") is True
    assert store.create("a", b"second") is False
    assert store.read("a") == b"first"


def test_replace_writes_over(store: StateStore) -> None:
    store.replace("a", b"first")
    store.replace("a", b"second")
    assert store.read("a") == b"second"


def test_what_one_instance_wrote_another_reads(store: StateStore) -> None:
    store.create("deep/er/a", b"\0\xff")
    assert StateStore(store.location).read("deep/er/a") == b"\0\xff"


def test_an_empty_file_is_a_file(store: StateStore) -> None:
    assert store.create("a", b"")
    assert store.exists("a")
    assert store.read("a") == b""


def test_read_of_a_missing_file_raises(store: StateStore) -> None:
    with pytest.raises(FileNotFoundError):
        store.read("a")
    assert not store.exists("a")


def test_names_are_sorted_and_of_all_folders(store: StateStore) -> None:
    for name in ("b", "a/2", "a/10", "c"):
        store.create(name, b"")
    assert list(store.names()) == ["a/10", "a/2", "b", "c"]


def test_a_location_that_does_not_exist_yet_is_empty(store: StateStore) -> None:
    assert list(store.names()) == []


def test_delete_of_a_missing_file_is_no_error(store: StateStore) -> None:
    store.create("a", b"x")
    store.delete("a")
    store.delete("a")
    assert not store.exists("a")
    assert store.create("a", b"again")


def test_a_folder_is_a_store_of_its_own(store: StateStore) -> None:
    (store / "manifests").create("0", b"x")
    assert list(store.names()) == ["manifests/0"]
    assert list((store / "manifests").names()) == ["0"]
    assert StateStore(f"{store.location}/manifests").read("0") == b"x"


def test_a_store_is_picklable_after_use(store: StateStore) -> None:
    store.create("a", b"x")
    assert pickle.loads(pickle.dumps(store)).read("a") == b"x"


def test_file_addresses_are_paths(tmp_path: Path) -> None:
    StateStore(f"file://{tmp_path}/with space").create("a", b"x")
    assert (tmp_path / "with space" / "a").read_bytes() == b"x"


def test_a_location_that_cannot_be_used_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"state_location .* cannot be used.*Give a path or an s3://"):
        StateStore(str(tmp_path / "file" / "below")).create("a", b"x")
    with pytest.raises(ConfigError, match="cannot be used"):
        StateStore("gopher://nowhere").create("a", b"x")


def test_of_many_threads_one_creates(store: StateStore) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def race(number: int) -> None:
        mine = StateStore(store.location)
        for name in range(20):
            start.wait()
            if mine.create(str(name), f"{number}".encode() * 1000):
                won.append(name)
                assert store.read(str(name)) == f"{number}".encode() * 1000

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(20))


def _race(location: str, number: int) -> list[int]:
    store = StateStore(location)
    return [name for name in range(100) if store.create(str(name), f"{number}".encode())]


def test_of_many_processes_one_creates(store: StateStore) -> None:
    with SPAWN.Pool(2) as pool:
        results = pool.starmap(_race, [(store.location, number) for number in range(4)], chunksize=1)
    assert sorted(name for names in results for name in names) == list(range(100))
    for number, names in enumerate(results):
        assert all(store.read(str(name)) == f"{number}".encode() for name in names)


def test_names_after_one_are_those_that_sort_later(store: StateStore) -> None:
    for name in ("a", "b", "c"):
        store.create(name, b"")
    assert list(store.names(after="a")) == ["b", "c"]
    assert [(file.name, file.size) for file in store.files(after="b")] == [("c", 0)]


def test_many_files_are_deleted_at_once_and_missing_ones_do_not_matter(store: StateStore) -> None:
    for name in ("a", "b", "c"):
        store.create(name, b"")
    store.delete("a", "x", "c")
    assert list(store.names()) == ["b"]


def test_a_cleared_folder_is_gone(store: StateStore) -> None:
    (store / "folder").create("a", b"")
    (store / "folder").clear()
    (store / "folder").clear()
    assert not Path(store.location, "folder").exists()


def test_a_big_file_goes_up_and_comes_down(store: StateStore, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 20_000_000)
    store.upload("big", tmp_path / "big")
    store.download("big", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"x" * 20_000_000
    with pytest.raises(FileNotFoundError):
        store.download("small", tmp_path / "small")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big", "copy", "state"]
