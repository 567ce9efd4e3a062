"""Commits of one pipeline's epochs to a table: the check for the tag and the commit are one step.

Every commit carries transaction identifiers, which Delta keeps in the log for ever:

    volley/PIPELINE/QUERY/epoch         the last epoch of the query that is in the table
    volley/PIPELINE/QUERY/generation    which query of the pipeline it is: each that adopts is one more than the last
    volley/PIPELINE/generation          the query that owns the pipeline now
    volley/batch/WRITE                  a batch write, which is nobody's successor

They are read from the snapshot that the commit is based on. delta-rs compares no versions, but it rejects a commit if
one with the same identifier landed after that snapshot: so a zombie and its successor may race, and one of them wins.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from volley_core import EpochContext, PipelineConflictError, TransientError
from volley_delta.checks import check_nulls, check_replaceable, check_table
from volley_delta.errors import said, translated
from volley_delta.location import TableLocation
from volley_delta.part import DataFile

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_ATTEMPTS = 40
_LONGEST_PAUSE_SECONDS = 2.0
_unclear: set[str] = set()
"""Files of this process that a commit without a clear answer may yet have put into a table. Spark gives up an epoch in
the process that tried to commit it, with another instance of the sink."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What tasks wrote for one epoch."""

    schema: pa.Schema | None
    files: Sequence[DataFile]


class TableCommits:
    """The commits that one pipeline makes to one table."""

    def __init__(
        self,
        location: TableLocation,
        pipeline_id: str,
        adopt: bool,
        partition_by: Sequence[str],
        properties: Mapping[str, str],
        user_metadata: str | None,
    ) -> None:
        self._location = location
        self._pipeline_id = pipeline_id
        self._adopt = adopt
        self._partition_by = list(partition_by)
        self._properties = dict(properties)
        self._user_metadata = user_metadata

    @property
    def where(self) -> str:
        return f"Delta table {self._location.shown!r}"

    def create(self, schema: pa.Schema) -> None:
        """Make the table, unless somebody else just did."""
        from deltalake import DeltaTable
        from deltalake.exceptions import CommitFailedError

        with translated(f"Creating {self.where}"):
            try:
                DeltaTable.create(
                    self._location.uri,
                    schema,
                    mode="ignore",
                    partition_by=self._partition_by,
                    configuration=self._properties,
                    storage_options=self._location.options,
                )
            except CommitFailedError:
                if self._location.open() is None:
                    raise

    def publish(self, staged: Staged, context: EpochContext) -> None:
        """Put an epoch into the table, unless it is there. A replay's files are removed."""
        paths = {file.path for file in staged.files}
        failure: Exception | None = None
        for attempt in range(_ATTEMPTS):
            time.sleep(min(_LONGEST_PAUSE_SECONDS, 0.01 * 2**attempt) * random.random() if attempt else 0)
            try:
                table = self._table(staged)
                if table is None:
                    return
                with translated(f"Reading the tags of {self.where}"):
                    tags = Tags.read(table, self._pipeline_id, self._adopt, context, self.where)
            except TransientError as error:
                failure = error
                continue
            if tags.holds_epoch:
                # If a commit was tried, these may be the very files that the table holds.
                if not paths & _unclear:
                    self._remove_unlisted(staged, table)
                break
            if not (paths or context.replace or tags.is_new):
                break
            self._check(table, staged, context)
            _unclear.update(paths)
            failure = self._commit(table, staged, tags, context)
            if failure is None:
                break
        else:
            raise self._gave_up(context.epoch, failure)
        _unclear.difference_update(paths)

    def discard(self, staged: Staged) -> None:
        """Remove the files of an epoch that failed, but for those that are, or may come, into the table."""
        table = self._location.open()
        if not _unclear & {file.path for file in staged.files}:
            self._remove_unlisted(staged, table)

    def _table(self, staged: Staged) -> DeltaTable | None:
        table = self._location.open()
        if table is None and staged.schema is not None:
            self.create(staged.schema)
            table = self._location.open()
        return table

    def _check(self, table: DeltaTable, staged: Staged, context: EpochContext) -> None:
        if staged.schema is not None:
            check_table(table, staged.schema, self._partition_by, self.where)
        check_nulls(table, staged.files, self.where)
        if context.replace:
            check_replaceable(table, self.where)

    def _commit(self, table: DeltaTable, staged: Staged, tags: Tags, context: EpochContext) -> Exception | None:
        """One attempt. The exception after which only a new look at the table tells what happened."""
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction

        actions = [_action(file, AddAction) for file in staged.files]
        mode = "overwrite" if context.replace else "append"
        with translated(f"Committing epoch {context.epoch} to {self.where}"):
            try:
                table.create_write_transaction(
                    actions,
                    mode,
                    # The table's own: delta-rs takes a wider one, whose columns nobody would see.
                    table.schema(),
                    table.metadata().partition_columns,
                    commit_properties=self._properties_of(tags, context),
                )
            except (CommitFailedError, OSError) as error:
                return error
        return None

    def _gave_up(self, epoch: int, failure: Exception | None) -> TransientError:
        return TransientError(
            f"{self.where}: epoch {epoch} could not be committed in {_ATTEMPTS} attempts "
            f"({said(failure) if failure else 'no answer'}). Is something else rewriting the table all the time? "
            "Restart the query: it commits the epoch again."
        )

    def _properties_of(self, tags: Tags, context: EpochContext) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        now = int(time.time() * 1000)
        facts = {"pipeline_id": self._pipeline_id, "query_id": context.query_id, "epoch": context.epoch}
        metadata: dict[str, Any] = {"volley": facts, "isBlindAppend": not context.replace}
        if self._user_metadata is not None:
            metadata["userMetadata"] = self._user_metadata
        return CommitProperties(
            custom_metadata=metadata,
            app_transactions=[Transaction(app, version, now) for app, version in tags.versions.items()],
        )

    def _remove_unlisted(self, staged: Staged, table: DeltaTable | None) -> None:
        # By name, which holds a random part: how a path is encoded differs by store.
        listed = {uri.rpartition("/")[2] for uri in table.file_uris()} if table and staged.files else set()
        self._location.remove(file.path for file in staged.files if file.path.rpartition("/")[2] not in listed)


@dataclass(frozen=True, slots=True)
class Tags:
    """What one snapshot says about a query's epoch, and what a commit on that snapshot will say."""

    versions: Mapping[str, int]
    holds_epoch: bool
    is_new: bool
    """The table knows nothing of this query yet."""

    @classmethod
    def read(cls, table: DeltaTable, pipeline_id: str, adopt: bool, context: EpochContext, where: str) -> Tags:
        """Raises PipelineConflictError if another query owns the pipeline."""
        if not context.streaming:
            app = f"volley/batch/{context.query_id}"
            return cls({app: 0}, table.transaction_version(app) is not None, False)
        pipeline = f"volley/{pipeline_id}"
        query = f"{pipeline}/{context.query_id}"
        last = table.transaction_version(f"{query}/epoch")
        owner = table.transaction_version(f"{pipeline}/generation")
        mine = table.transaction_version(f"{query}/generation")
        if mine is None:
            if owner is not None and not adopt:
                raise _conflict(where, pipeline_id, context)
            mine = 0 if owner is None else owner + 1
        elif owner is not None and owner > mine:
            raise _succeeded(where, pipeline_id, context)
        versions = {f"{query}/epoch": context.epoch, f"{query}/generation": mine, f"{pipeline}/generation": mine}
        return cls(versions, last is not None and last >= context.epoch, last is None)


def _action(file: DataFile, kind: Any) -> Any:
    facts = asdict(file)
    del facts["null_columns"]
    return kind(**facts, data_change=True)


def _conflict(where: str, pipeline_id: str, context: EpochContext) -> PipelineConflictError:
    return PipelineConflictError(
        f"{where} was written by another query under pipeline_id {pipeline_id!r}; this is query {context.query_id}. If "
        "two pipelines share the id, give this one a pipeline_id of its own. If the checkpoint was deleted on purpose, "
        "set adopt_pipeline=true once: this query goes on after the epochs that are there, and reads its source from "
        "the beginning."
    )


def _succeeded(where: str, pipeline_id: str, context: EpochContext) -> PipelineConflictError:
    return PipelineConflictError(
        f"{where}: another query has taken over pipeline_id {pipeline_id!r} from query {context.query_id}, which may "
        "not write any more. Stop it; or, if both are to write, give it a pipeline_id of its own."
    )
