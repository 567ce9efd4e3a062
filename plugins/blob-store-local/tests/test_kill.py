"""A driver killed with SIGKILL at named points: every row that went in comes out, once.

The child runs source and sink in one process under a small engine that keeps Spark's order: plan, log the offset,
run, publish, log the commit. It kills itself at a point that the test names; the next child finds what it left.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from volley_blob_store_local import DirectoryQueue, DirectoryQueueConfig

ENGINE = """
import json, os, pathlib, signal, sys
from volley_blob_store_local import FilesSink, FilesSinkConfig, FilesSource, FilesSourceConfig
from volley_connectors.blob.manifests import ManifestLog
from volley_connectors.state import StateStore
from volley_core import EpochContext, ReadLimit

root, point, discovery = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
countdown = int(sys.argv[4])


def reach(name):
    global countdown
    if name == point:
        countdown -= 1
        if countdown < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def around(owner, method, label):
    original = getattr(owner, method)

    def wrapped(self, *args):
        if not label[1] or label[1](self, *args):
            reach("before " + label[0])
        result = original(self, *args)
        if not label[1] or label[1](self, *args):
            reach("after " + label[0])
        return result

    setattr(owner, method, wrapped)


around(ManifestLog, "write", ("manifest", None))
around(pathlib.Path, "rename", ("epoch rename", lambda self, target: "epoch=" in str(target)))
around(pathlib.Path, "rename", ("commit record", lambda self, target: str(target).endswith("default.json")))

log = StateStore(str(root / "checkpoint"))
names = list(log.names())
planned = sorted(int(n.split(".")[0]) for n in names if n.endswith(".offset"))
committed = sorted(int(n.split(".")[0]) for n in names if n.endswith(".commit"))
queue = {}
if discovery == "queue":
    queue = {"queue": str(root / "queue"), "visibility_seconds": 0.3, "include_existing_files": False}
source = FilesSource(FilesSourceConfig(
    path=str(root / "in"), schema="id bigint", state_location=str(root / "state"), **queue))


def offset_of(epoch):
    return json.loads(log.read(f"{epoch}.offset")) if epoch >= 0 else source.initial_offset()


def run(epoch):
    start, end = offset_of(epoch - 1), offset_of(epoch)
    messages = []
    for number, split in enumerate(source.splits(start, end)):
        task = FilesSink(FilesSinkConfig(path=str(root / "out")))
        task.begin(EpochContext("query", epoch, partition=number))
        for record in source.read(split):
            task.write(record)
            reach("in a task")
        task.flush()
        messages.append(task.staged())
    reach("before publishing")
    driver = FilesSink(FilesSinkConfig(path=str(root / "out")))
    driver.begin(EpochContext("query", epoch))
    driver.adopt(messages)
    driver.on_checkpoint(epoch)
    reach("before the commit log")
    log.create(f"{epoch}.commit", b"")


epoch = (planned[-1] if planned else -1)
if planned and (not committed or committed[-1] < planned[-1]):
    run(epoch)
quiet = 0
while quiet < (4 if discovery == "queue" else 1):
    start = offset_of(epoch)
    end = source.latest_offset(start, ReadLimit(max_files=3))
    if end == start:
        quiet += 1
        if discovery == "queue":
            import time
            time.sleep(0.15)
        continue
    quiet = 0
    reach("before the offset log")
    log.create(f"{epoch + 1}.offset", json.dumps(end).encode())
    epoch += 1
    run(epoch)
source.close()
"""

POINTS = [
    "before manifest",
    "after manifest",
    "before the offset log",
    "in a task",
    "before publishing",
    "before commit record",
    "after commit record",
    "before epoch rename",
    "after epoch rename",
    "before the commit log",
]


# The sink does not know how files are found: with a queue, only the source's own steps matter.
QUEUE_POINTS = ["after manifest", "before the offset log", "in a task", "before the commit log"]


def run_child(root: Path, point: str, discovery: str, countdown: int) -> int:
    command = [sys.executable, "-c", ENGINE, str(root), point, discovery, str(countdown)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.parametrize(
    ("point", "discovery"), [*((point, "listing") for point in POINTS), *((point, "queue") for point in QUEUE_POINTS)]
)
def test_rows_in_equal_rows_out_after_a_kill(tmp_path: Path, point: str, discovery: str) -> None:
    queue = DirectoryQueue(DirectoryQueueConfig(path=str(tmp_path / "queue")))
    (tmp_path / "in").mkdir()
    expected = []
    for number in range(8):
        ids = range(number * 10, number * 10 + 5)
        file = tmp_path / "in" / f"{number}.json"
        file.write_text("".join(json.dumps({"id": i}) + "\n" for i in ids))
        expected += ids
        # Announced twice: a queue delivers at least once.
        queue.send(str(file))
        queue.send(str(file))
    assert run_child(tmp_path, point, discovery, countdown=0) == -signal.SIGKILL, "the first epoch dies"
    assert run_child(tmp_path, point, discovery, countdown=1) in (0, -signal.SIGKILL)
    assert run_child(tmp_path, "never", discovery, countdown=0) == 0
    table = ds.dataset(tmp_path / "out", format="parquet").to_table()
    assert sorted(table["id"].to_pylist()) == expected
    if discovery == "queue":
        assert list((tmp_path / "queue").iterdir()) == [], "every message is acknowledged in the end"
