"""Which epochs a directory holds, and whose they are.

    path/_volley/ID.json              the last epoch of pipeline ID: query, epoch, and the number of its directory
    path/epoch=N/_commit.json         the same facts, published together with the rows

A pipeline's record is written just before its epoch appears, and so proves nothing alone: an epoch is there if the
directory that the record names says so itself. Epochs come in order, so that one record per pipeline is enough.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from volley_core import EpochContext, PipelineConflictError

PARTITION = "epoch"
TAG = "_commit.json"
_FOLDER = "_volley"
_LOCK = "lock"
_BATCH = "batch="
_FORGET_BATCHES_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Commit:
    """One epoch of one query."""

    pipeline_id: str
    query_id: str
    epoch: int
    number: int | None
    """The number of its directory; None if it is known to be committed, wherever its rows are now."""

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class CommitLog:
    """The commits of one directory, as seen by one pipeline."""

    def __init__(self, path: Path, pipeline_id: str, adopt: bool) -> None:
        self._path = path
        self._pipeline_id = pipeline_id
        self._adopt = adopt

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other drivers out. The lock goes with the process that holds it."""
        lock = self._path / _FOLDER / _LOCK
        while True:
            lock.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError), open(lock, "a") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                # While this one waited, the directory may have been replaced, and its lock with it.
                if os.fstat(file.fileno()).st_ino == lock.stat().st_ino:
                    yield
                    return

    def check(self, context: EpochContext) -> None:
        """Raise PipelineConflictError if another query owns this pipeline_id, unless it is to be adopted."""
        record = self._record(context)
        if record is None or record.query_id == context.query_id or self._adopt:
            return
        raise PipelineConflictError(
            f"Directory {self._path} was written by another query ({record.query_id}) under pipeline_id "
            f"{self._pipeline_id!r}; this is query {context.query_id}. If two pipelines share the id, give this one a "
            "pipeline_id of its own. If the checkpoint was deleted on purpose, set adopt_pipeline=true once: this "
            "query goes on after the epochs that are there, and reads its source from the beginning."
        )

    def holds(self, context: EpochContext, epoch: int) -> bool:
        """Whether this epoch is published. Raises PipelineConflictError as `check` does."""
        self.check(context)
        record = self._record(context)
        if record is None or record.query_id != context.query_id or epoch > record.epoch:
            return False
        return epoch < record.epoch or self._is_published(record)

    def plan(self, context: EpochContext, epoch: int) -> Commit:
        """The commit that would come next: never below Spark's own number, so that in the plain case both agree."""
        number = max([epoch if context.streaming else 0, *(last + 1 for last in self.numbers())])
        return Commit(self._pipeline_id, context.query_id, epoch, number)

    def record(self, context: EpochContext, commit: Commit) -> None:
        """Remember what is about to be published."""
        write_durably(self._file(context), commit.to_json())

    def numbers(self) -> list[int]:
        """The numbers of the epochs that readers see, in order."""
        return sorted(int(folder.name.partition("=")[2]) for folder in self._path.glob(f"{PARTITION}=[0-9]*"))

    def folder(self, number: int) -> Path:
        return self._path / f"{PARTITION}={number:010d}"

    def carry_over(self, fresh: CommitLog) -> None:
        """Give another directory, which will take this one's place, the memory of what was committed here."""
        (fresh._path / _FOLDER).mkdir()
        for file in (self._path / _FOLDER).glob("*.json"):
            commit = Commit(**json.loads(file.read_bytes()))
            if self._is_published(commit):
                commit = replace(commit, number=None)
            write_durably(fresh._path / _FOLDER / file.name, commit.to_json())

    def forget_batches(self) -> None:
        """Batch writes are not repeated by later runs: their records are kept for a day only."""
        long_ago = time.time() - _FORGET_BATCHES_SECONDS
        for file in (self._path / _FOLDER).glob(f"{_BATCH}*.json"):
            if file.stat().st_mtime < long_ago:
                file.unlink()

    def _is_published(self, commit: Commit) -> bool:
        if commit.number is None:
            return True
        try:
            return (self.folder(commit.number) / TAG).read_bytes() == commit.to_json()
        except FileNotFoundError:
            return False

    def _record(self, context: EpochContext) -> Commit | None:
        try:
            return Commit(**json.loads(self._file(context).read_bytes()))
        except FileNotFoundError:
            return None

    def _file(self, context: EpochContext) -> Path:
        # Every batch write is a query of its own and no rival of a pipeline; a pipeline_id holds no '='.
        name = self._pipeline_id if context.streaming else f"{_BATCH}{re.sub(r'[^A-Za-z0-9-]', '', context.query_id)}"
        return self._path / _FOLDER / f"{name}.json"


def write_durably(file: Path, data: bytes) -> None:
    """Write a small file in one step."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    with open(draft, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    draft.rename(file)
