"""The watcher: what the operating system tells, and what it does not."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from volley_blob_store_local import FileBlobReader, FileBlobReaderConfig, Watcher


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def watcher(folder: Path) -> Iterator[Watcher]:
    watcher = Watcher(FileBlobReader(FileBlobReaderConfig()), f"{folder}/")
    yield watcher
    watcher.close()


def found(watcher: Watcher, count: int, seconds: float = 5.0) -> list[str]:
    names: list[str] = []
    deadline = time.monotonic() + seconds
    while len(names) < count and time.monotonic() < deadline:
        names += [Path(n.blobs[0].uri).name for n in watcher.poll(10)]
    return sorted(names)


def test_closed_and_renamed_files_are_found_without_listing(watcher: Watcher, folder: Path) -> None:
    assert found(watcher, 1, seconds=0.2) == []
    (folder / "written.json").write_text("{}")
    (folder / ".draft").write_text("{}")
    (folder / ".draft").rename(folder / "renamed.json")
    names: list[str] = []
    while not {"written.json", "renamed.json"} <= set(names):
        news = found(watcher, 1)
        assert news, f"only {names} were found"
        names += news


def test_a_file_that_is_gone_again_is_not_reported(watcher: Watcher, folder: Path) -> None:
    assert found(watcher, 1, seconds=0.2) == []
    (folder / "short.json").write_text("{}")
    (folder / "short.json").unlink()
    (folder / "stays.json").write_text("{}")
    assert found(watcher, 1) == ["stays.json"]


def test_close_ends_its_threads(watcher: Watcher, folder: Path) -> None:
    before = set(threading.enumerate())
    watcher.poll(1)
    assert set(threading.enumerate()) > before
    watcher.close()
    watcher.close()
    assert set(threading.enumerate()) == before


def test_a_watcher_in_use_can_be_pickled(watcher: Watcher, folder: Path) -> None:
    watcher.poll(1)
    copy = pickle.loads(pickle.dumps(watcher))
    copy.poll(1)
    (folder / "a.json").write_text("{}")
    assert found(copy, 1) == ["a.json"]
    copy.close()


def test_importing_the_package_does_not_import_watchdog() -> None:
    program = "import sys, volley_blob_store_local; print('watchdog' in sys.modules, 'pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
