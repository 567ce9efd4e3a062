"""The suites for polled sources: a small honest source passes, each broken one is caught."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pydantic import Field, SecretStr

from volley_core import Offset, SourceConfig, StreamRecord
from volley_core.conformance import ResumableSourceSuite, SourceSuite, sample

UPSTREAM: list[pa.RecordBatch] = []
ACKNOWLEDGED = [0]


@pytest.fixture(autouse=True)
def empty_world() -> None:
    UPSTREAM.clear()
    ACKNOWLEDGED[0] = 0


class ListConfig(SourceConfig):
    password: SecretStr = Field(SecretStr("hunter2"), description="A secret.")


class ListSource:
    """Batches of a list, from the first that was not acknowledged."""

    Config = ListConfig

    def __init__(self, config: ListConfig) -> None:
        self.config = config
        self.next: int | None = None

    @property
    def connector_id(self) -> str:
        return "list"

    def schema(self) -> pa.Schema:
        return sample(0, 0).schema

    def poll(self) -> StreamRecord | None:
        at = ACKNOWLEDGED[0] if self.next is None else self.next
        if at >= len(UPSTREAM):
            return None
        self.next = at + 1
        return StreamRecord(UPSTREAM[at])

    def on_checkpoint(self, epoch: int) -> None:
        if self.next is not None:
            ACKNOWLEDGED[0] = self.next


class SeekableListSource(ListSource):
    def position(self) -> Offset:
        return {"next": ACKNOWLEDGED[0] if self.next is None else self.next}

    def seek(self, position: Offset) -> None:
        self.next = position["next"]


class Feeding:
    patience_seconds = 0.2

    def feed(self, table: pa.Table) -> None:
        UPSTREAM.extend(table.combine_chunks().to_batches())


class TestListSource(Feeding, SourceSuite):
    @pytest.fixture
    def make_source(self) -> Any:
        return lambda: ListSource(ListConfig())


class TestSeekableListSource(Feeding, ResumableSourceSuite):
    @pytest.fixture
    def make_source(self) -> Any:
        return lambda: SeekableListSource(ListConfig())


class AcknowledgesAtPoll(ListSource):
    def poll(self) -> StreamRecord | None:
        record = super().poll()
        self.on_checkpoint(0)
        return record


class AcknowledgesWhatItNeverGave(ListSource):
    def on_checkpoint(self, epoch: int) -> None:
        ACKNOWLEDGED[0] = len(UPSTREAM)


class EndsAtNone(ListSource):
    ended = False

    def poll(self) -> StreamRecord | None:
        record = None if self.ended else super().poll()
        self.ended = record is None
        return record


class SkipsAtTheSecondCheckpoint(ListSource):
    def on_checkpoint(self, epoch: int) -> None:
        self.next = (self.next or 0) + (ACKNOWLEDGED[0] == self.next)
        super().on_checkpoint(epoch)


class RaisesInsteadOfNone(ListSource):
    def poll(self) -> StreamRecord | None:
        record = super().poll()
        if record is None:
            raise StopIteration
        return record


class AnotherSchema(ListSource):
    def schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int32())])


class GivesEmptyRecords(ListSource):
    def poll(self) -> StreamRecord | None:
        return super().poll() or StreamRecord(sample(0, 1).to_batches()[0].slice(1))


class TellsItsPassword(ListSource):
    @property
    def connector_id(self) -> str:
        return f"list:{self.config.password.get_secret_value()}"


class KeepsNoConfig(ListSource):
    def __init__(self, config: ListConfig) -> None:
        self.next = None


class SeekIsIgnored(SeekableListSource):
    def seek(self, position: Offset) -> None:
        """Begins where it likes."""


class PositionIsBehind(SeekableListSource):
    def position(self) -> Offset:
        return {"next": max(0, super().position()["next"] - 1)}


class PositionIsBytes(SeekableListSource):
    def position(self) -> Offset:
        return {"next": b"1"}


DEFECTS: list[tuple[type[ListSource], str, type[BaseException]]] = [
    (AcknowledgesAtPoll, "test_rows_not_checkpointed_come_again_after_a_crash", AssertionError),
    (AcknowledgesWhatItNeverGave, "test_on_checkpoint_keeps_what_was_not_polled", AssertionError),
    (EndsAtNone, "test_none_is_not_the_end", AssertionError),
    (SkipsAtTheSecondCheckpoint, "test_on_checkpoint_may_be_called_twice", AssertionError),
    (RaisesInsteadOfNone, "test_poll_gives_none_if_nothing_is_ready", StopIteration),
    (AnotherSchema, "test_schema_is_that_of_every_record", AssertionError),
    (GivesEmptyRecords, "test_poll_gives_none_if_nothing_is_ready", AssertionError),
    (TellsItsPassword, "test_connector_id_holds_no_secret", AssertionError),
    (KeepsNoConfig, "test_a_pickled_copy_reads_the_same_rows", AssertionError),
    (SeekIsIgnored, "test_a_crash_after_polling_loses_and_doubles_nothing", AssertionError),
    (PositionIsBehind, "test_a_crash_after_polling_loses_and_doubles_nothing", AssertionError),
    (PositionIsBehind, "test_a_position_goes_on_after_on_checkpoint", AssertionError),
    (PositionIsBytes, "test_position_is_json", TypeError),
]


class AnySuite(Feeding, ResumableSourceSuite):
    pass


@pytest.mark.parametrize(("broken", "test", "error"), DEFECTS)
def test_the_source_suites_catch(broken: type[ListSource], test: str, error: type[BaseException]) -> None:
    with pytest.raises(error):
        getattr(AnySuite(), test)(lambda: broken(ListConfig()))
