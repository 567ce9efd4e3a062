"""What the memory and count sinks share: tasks stage, the driver publishes an epoch once."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from volley_connectors.memory.channel import Channel, ChannelHandle, ChannelName
from volley_connectors.memory.commits import Commit, CommitLog
from volley_connectors.memory.faults import SINK_POINTS, SinkFaults, fire
from volley_core.config import SinkConfig
from volley_core.protocols import EpochContext
from volley_core.records import StreamRecord


class ChannelSinkConfig(SinkConfig):
    """Options of every sink that writes to a memory channel."""

    name: ChannelName = Field(description="The channel to write: what a handle of the same name shows.")
    faults: SinkFaults = Field(
        (),
        description="Faults to inject, as action@point:epoch separated by commas. Actions: raise, kill, sleep. Points: "
        "write, flush, staged, adopt, commit_before (or commit), commit_after. Each fires once; a * behind it makes "
        "it fire every time.",
    )


@dataclass(frozen=True, slots=True)
class Staged:
    """What one flush made durable. `file` is empty if only the counts are kept."""

    rows: int
    batches: int
    num_bytes: int
    file: str = ""


class ChannelSink(ABC):
    KIND: ClassVar[str]

    def __init__(self, config: ChannelSinkConfig) -> None:
        self.config = config
        self._context = EpochContext(query_id="", epoch=0)
        self._staged: list[Staged] = []

    @property
    def connector_id(self) -> str:
        return f"{self.KIND}:{self.config.name}"

    def begin(self, context: EpochContext) -> None:
        self._context = context

    def write(self, record: StreamRecord) -> None:
        self._fire("write", self._context.epoch)
        self._accept(record.batch)

    def flush(self) -> None:
        self._fire("flush", self._context.epoch)
        staged = self._stage()
        if staged is not None:
            self._staged.append(staged)

    def staged(self) -> bytes:
        self._fire("staged", self._context.epoch)
        return json.dumps([asdict(staged) for staged in self._staged]).encode()

    def adopt(self, staged: Sequence[bytes]) -> None:
        self._fire("adopt", self._context.epoch)
        self._staged += [Staged(**item) for message in staged for item in json.loads(message)]

    def on_checkpoint(self, epoch: int) -> None:
        self._fire("commit_before", epoch)
        commit = Commit(
            self._context.query_id,
            self.config.pipeline_id,
            epoch,
            self._context.streaming,
            self._context.replace,
            sum(staged.rows for staged in self._staged),
            sum(staged.batches for staged in self._staged),
            sum(staged.num_bytes for staged in self._staged),
            tuple(staged.file for staged in self._staged if staged.file),
        )
        if not self._log.publish(commit, self.config.adopt_pipeline):
            self.discard()
        elif commit.replace:
            self._remove_replaced()
        self._staged = []
        # One instance may go on with the next epoch, where no Spark is between source and sink.
        self._context = replace(self._context, epoch=epoch + 1)
        self._fire("commit_after", epoch)

    def discard(self) -> None:
        # Also asked for when only the answer to a successful commit was lost, or when a replay staged anew.
        published = {file for commit in self._log.commits() for file in commit.files}
        self._remove(staged.file for staged in self._staged if staged.file and staged.file not in published)
        self._staged = []

    @abstractmethod
    def _accept(self, batch: pa.RecordBatch) -> None:
        """Take one batch."""

    @abstractmethod
    def _stage(self) -> Staged | None:
        """Make what was accepted since the last call durable. None if there was nothing."""

    def _remove_replaced(self) -> None:
        visible = {file for commit in self._log.visible() for file in commit.files}
        self._remove(file for commit in self._log.commits() for file in commit.files if file not in visible)

    def _remove(self, files: Iterable[str]) -> None:
        for file in files:
            (self._channel.path / "staged" / file).unlink(missing_ok=True)

    @property
    def _channel(self) -> Channel:
        return Channel(self.KIND, self.config.name)

    @property
    def _log(self) -> CommitLog:
        return CommitLog(self._channel)

    def _fire(self, point: str, epoch: int) -> None:
        if self.config.faults:
            fire(self.config.faults, SINK_POINTS, self._channel, point, range(epoch, epoch + 1))


class SinkHandle(ChannelHandle):
    """What a sink published, seen from any process. As a context manager it removes the channel at the end."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(Channel(kind, name))
        self._log = CommitLog(self._channel)

    @property
    def rows(self) -> int:
        """How many rows the sink holds."""
        return sum(commit.rows for commit in self._log.visible())

    def epochs(self) -> list[Commit]:
        """Every epoch that was published, oldest first, replaced ones included."""
        return self._log.commits()
