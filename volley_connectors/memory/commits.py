"""The log of what a memory sink published: one small file per epoch, created only if absent.

Whether an epoch is there already is read from the newest entry, and the new entry takes the number after that one. A
rival that moved the log in between has taken the number, so that the check and the commit are one step.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from volley_connectors.memory.channel import Channel, FileSequence
from volley_core.errors import PipelineConflictError

Pipelines = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Commit:
    """One published epoch."""

    query_id: str
    pipeline_id: str
    epoch: int
    streaming: bool = True
    replace: bool = False
    rows: int = 0
    batches: int = 0
    num_bytes: int = 0
    files: tuple[str, ...] = ()


class CommitLog:
    """The commits of one channel, oldest first."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._entries = FileSequence(channel.path / "log", ".json")

    def commits(self) -> list[Commit]:
        entries = [self._entry(number) for number in range(self._entries.count())]
        return [replace(Commit(**entry["commit"]), files=tuple(entry["commit"]["files"])) for entry in entries]

    def visible(self) -> list[Commit]:
        """The commits whose rows the sink holds: those from the last replacement on."""
        commits = self.commits()
        last = max((i for i, commit in enumerate(commits) if commit.replace), default=0)
        return commits[last:]

    def publish(self, commit: Commit, adopt_pipeline: bool) -> bool:
        """Add a commit. False if it is there already; then nothing changed."""
        draft = self._entries.draft()
        try:
            while True:
                count = self._entries.count()
                pipelines: Pipelines = self._entry(count - 1)["pipelines"] if count else {}
                if self._holds(commit, pipelines, adopt_pipeline):
                    return False
                if commit.streaming:
                    pipelines = _advanced(pipelines, commit)
                draft.write_text(json.dumps({"commit": asdict(commit), "pipelines": pipelines}))
                if self._entries.claim(count, draft):
                    return True
        finally:
            draft.unlink(missing_ok=True)

    def _holds(self, commit: Commit, pipelines: Pipelines, adopt_pipeline: bool) -> bool:
        if not commit.streaming:
            same = [known for known in self.commits() if not known.streaming and known.query_id == commit.query_id]
            return any(set(commit.files) <= set(known.files) for known in same)
        pipeline = pipelines.get(commit.pipeline_id)
        if pipeline is None:
            return False
        if pipeline["owner"] != commit.query_id and not adopt_pipeline:
            raise self._conflict(commit, pipeline["owner"])
        return bool(pipeline["epochs"].get(commit.query_id, -1) >= commit.epoch)

    def _conflict(self, commit: Commit, owner: str) -> PipelineConflictError:
        return PipelineConflictError(
            f"The {self._channel.kind} sink {self._channel.name!r} holds epochs of query {owner} under pipeline_id "
            f"{commit.pipeline_id!r}; query {commit.query_id} may not add to them. If both are to write, give each "
            "its own pipeline_id. If the checkpoint was deleted on purpose, set adopt_pipeline=true once. To begin "
            "anew, use another name, or clear() the sink's handle."
        )

    def _entry(self, number: int) -> dict[str, Any]:
        entry: dict[str, Any] = json.loads(self._entries.path(number).read_bytes())
        return entry


def _advanced(pipelines: Pipelines, commit: Commit) -> Pipelines:
    epochs = pipelines.get(commit.pipeline_id, {}).get("epochs", {})
    return pipelines | {
        commit.pipeline_id: {"owner": commit.query_id, "epochs": epochs | {commit.query_id: commit.epoch}}
    }
