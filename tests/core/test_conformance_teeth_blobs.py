"""The suites for queues, blob readers and decoders: a small honest connector passes, each broken one is caught."""

from __future__ import annotations

import io
import json
import logging
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from volley_core import (
    BlobChangedError,
    BlobNotFoundError,
    BlobRef,
    ConnectorConfig,
    DecodeError,
    Notification,
)
from volley_core.conformance import BlobReaderSuite, BlobRemoverSuite, DecoderSuite, NotificationSourceSuite

log = logging.getLogger(__name__)


@dataclass
class Message:
    body: str
    message_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    receipt: str = ""
    hidden_until: float = 0.0


LOCK = threading.Lock()
QUEUE: list[Message] = []
STORE: dict[str, tuple[bytes, str]] = {}


@pytest.fixture(autouse=True)
def empty_world() -> None:
    QUEUE.clear()
    STORE.clear()


class SmallConfig(ConnectorConfig):
    pass


class ListQueue:
    """A queue in a list."""

    Config = SmallConfig

    def __init__(self, config: SmallConfig) -> None:
        self.config = config

    @property
    def connector_id(self) -> str:
        return "list-queue"

    def poll(self, max_notifications: int) -> Sequence[Notification]:
        with LOCK:
            now = time.monotonic()
            shown = [message for message in QUEUE if message.hidden_until <= now][:max_notifications]
            for message in shown:
                message.receipt, message.hidden_until = uuid.uuid4().hex, now + 0.3
            return [n for n in map(self.parse, shown) if n is not None]

    def parse(self, message: Message) -> Notification | None:
        try:
            uri = json.loads(message.body)["uri"]
        except ValueError:
            log.warning("Message %s cannot be parsed", message.message_id)
            return None
        return Notification(message.receipt, (BlobRef(uri),), message.message_id)

    def ack(self, receipts: Sequence[str]) -> None:
        with LOCK:
            QUEUE[:] = [message for message in QUEUE if not message.receipt or message.receipt not in receipts]

    def extend(self, receipts: Sequence[str], seconds: float) -> None:
        with LOCK:
            for message in QUEUE:
                if message.receipt and message.receipt in receipts:
                    message.hidden_until = time.monotonic() + seconds

    def release(self, receipts: Sequence[str]) -> None:
        self.extend(receipts, 0)

    def close(self) -> None:
        """Nothing is open."""


class QueueSuite(NotificationSourceSuite):
    hidden_seconds = 0.3
    patience_seconds = 1.0

    def announce(self, name: str) -> str:
        QUEUE.append(Message(json.dumps({"uri": f"list://{name}"})))
        return f"list://{name}"

    def announce_garbage(self) -> None:
        QUEUE.append(Message("no json"))

    def depth(self) -> int:
        return len(QUEUE)


class TestListQueue(QueueSuite):
    @pytest.fixture
    def make_source(self) -> Any:
        return lambda: ListQueue(SmallConfig())


class AckRaisesOnUnknown(ListQueue):
    def ack(self, receipts: Sequence[str]) -> None:
        if not set(receipts) <= {message.receipt for message in QUEUE}:
            raise KeyError("unknown receipt")
        super().ack(receipts)


class AckStopsAtUnknown(ListQueue):
    def ack(self, receipts: Sequence[str]) -> None:
        if set(receipts) <= {message.receipt for message in QUEUE}:
            super().ack(receipts)


class AckDeletesEverything(ListQueue):
    def ack(self, receipts: Sequence[str]) -> None:
        QUEUE.clear()


class PollDeletes(ListQueue):
    def poll(self, max_notifications: int) -> Sequence[Notification]:
        found = super().poll(max_notifications)
        self.ack([notification.receipt for notification in found])
        return found


class PollHidesNothing(ListQueue):
    def poll(self, max_notifications: int) -> Sequence[Notification]:
        found = super().poll(max_notifications)
        self.release([notification.receipt for notification in found])
        return found


class PollGivesTooMany(ListQueue):
    def poll(self, max_notifications: int) -> Sequence[Notification]:
        return super().poll(10)


class ParseRaises(ListQueue):
    def parse(self, message: Message) -> Notification | None:
        return Notification(message.receipt, (BlobRef(json.loads(message.body)["uri"]),), message.message_id)


class ParseIsSilent(ListQueue):
    def parse(self, message: Message) -> Notification | None:
        return super().parse(message) if message.body.startswith("{") else None


class GarbageIsDeleted(ListQueue):
    def poll(self, max_notifications: int) -> Sequence[Notification]:
        QUEUE[:] = [message for message in QUEUE if message.body.startswith("{")]
        log.warning("Removed what cannot be parsed")
        return super().poll(max_notifications)


class ExtendDoesNothing(ListQueue):
    def extend(self, receipts: Sequence[str], seconds: float) -> None:
        """Leaves the message as it is."""


class ExtendIsForEver(ListQueue):
    def extend(self, receipts: Sequence[str], seconds: float) -> None:
        super().extend(receipts, seconds * 1000)


class IdPerDelivery(ListQueue):
    def parse(self, message: Message) -> Notification | None:
        found = super().parse(message)
        return found and Notification(found.receipt, found.blobs, found.receipt)


QUEUE_DEFECTS: list[tuple[type[ListQueue], str, dict[str, Any], type[BaseException]]] = [
    (AckRaisesOnUnknown, "test_an_unknown_receipt_is_not_an_error", {"method": "ack"}, KeyError),
    (AckRaisesOnUnknown, "test_an_expired_receipt_is_not_an_error", {"method": "ack"}, KeyError),
    (AckRaisesOnUnknown, "test_a_receipt_of_a_deleted_message_is_not_an_error", {"method": "ack"}, KeyError),
    (AckStopsAtUnknown, "test_unknown_receipts_do_not_stop_known_ones", {}, AssertionError),
    (AckDeletesEverything, "test_ack_deletes_these_messages_and_no_others", {}, AssertionError),
    (PollDeletes, "test_a_polled_message_is_hidden", {}, AssertionError),
    (PollDeletes, "test_a_message_that_was_not_acknowledged_comes_again", {}, AssertionError),
    (PollHidesNothing, "test_a_polled_message_is_hidden", {}, AssertionError),
    (PollGivesTooMany, "test_poll_gives_no_more_than_was_asked_for", {}, AssertionError),
    (ExtendDoesNothing, "test_extend_keeps_messages_hidden", {}, AssertionError),
    (ExtendDoesNothing, "test_release_shows_messages_at_once", {}, AssertionError),
    (ExtendIsForEver, "test_extend_ends", {}, AssertionError),
    (IdPerDelivery, "test_a_message_that_was_not_acknowledged_comes_again", {}, AssertionError),
]


@pytest.mark.parametrize(("broken", "test", "arguments", "error"), QUEUE_DEFECTS)
def test_the_notification_source_suite_catches(
    broken: type[ListQueue], test: str, arguments: dict[str, Any], error: type[BaseException], monkeypatch: Any
) -> None:
    # A release that does nothing would show only after the hiding ends by itself.
    monkeypatch.setattr(QueueSuite, "patience_seconds", 0.15)
    with pytest.raises(error):
        getattr(QueueSuite(), test)(lambda: broken(SmallConfig()), **arguments)


@pytest.mark.parametrize(
    ("broken", "error"),
    [(ParseRaises, ValueError), (ParseIsSilent, AssertionError), (GarbageIsDeleted, AssertionError)],
)
def test_the_notification_source_suite_catches_wrong_care_of_garbage(
    broken: type[ListQueue], error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(error):
        QueueSuite().test_an_unparseable_message_is_never_an_error(lambda: broken(SmallConfig()), caplog)


class DictReader:
    """A store in a dict; a version is a random word."""

    Config = SmallConfig

    def __init__(self, config: SmallConfig) -> None:
        self.config = config

    def open(self, ref: BlobRef) -> BinaryIO:
        data, version = self.find(ref)
        if ref.version and ref.version != version:
            raise BlobChangedError(f"{ref.uri} was overwritten")
        return io.BytesIO(data)

    def list(self, prefix: str) -> Iterator[BlobRef]:
        return (BlobRef(uri, len(data), v) for uri, (data, v) in STORE.items() if uri.startswith(prefix))

    def stat(self, ref: BlobRef) -> BlobRef:
        data, version = self.find(ref)
        return BlobRef(ref.uri, len(data), version)

    def find(self, ref: BlobRef) -> tuple[bytes, str]:
        try:
            return STORE[ref.uri]
        except KeyError:
            raise BlobNotFoundError(f"{ref.uri} is gone") from None


class ReaderSuite(BlobReaderSuite):
    def put(self, name: str, data: bytes) -> None:
        STORE[self.uri(name)] = (data, uuid.uuid4().hex)

    def remove(self, name: str) -> None:
        del STORE[self.uri(name)]

    def uri(self, name: str) -> str:
        return f"dict://{name}"


class TestDictReader(ReaderSuite):
    @pytest.fixture
    def make_reader(self) -> Any:
        return lambda: DictReader(SmallConfig())


class IgnoresVersions(DictReader):
    def open(self, ref: BlobRef) -> BinaryIO:
        return io.BytesIO(self.find(ref)[0])


class ComparesSizes(DictReader):
    def open(self, ref: BlobRef) -> BinaryIO:
        data, _ = self.find(ref)
        if ref.version and ref.size != len(data):
            raise BlobChangedError(f"{ref.uri} was overwritten")
        return io.BytesIO(data)


class RaisesKeyError(DictReader):
    def find(self, ref: BlobRef) -> tuple[bytes, str]:
        return STORE[ref.uri]


class Unseekable(DictReader):
    def open(self, ref: BlobRef) -> BinaryIO:
        class Pipe(io.BytesIO):
            def seekable(self) -> bool:
                return False

        return Pipe(super().open(ref).read())


class ListsDirectories(DictReader):
    def list(self, prefix: str) -> Iterator[BlobRef]:
        return super().list(prefix if prefix.endswith("/") else f"{prefix}/")


class ListsOnePage(DictReader):
    def list(self, prefix: str) -> Iterator[BlobRef]:
        return iter([*super().list(prefix)][:100])


class ListsNoVersions(DictReader):
    def list(self, prefix: str) -> Iterator[BlobRef]:
        return (BlobRef(ref.uri, ref.size) for ref in super().list(prefix))


class QuotesNames(DictReader):
    def list(self, prefix: str) -> Iterator[BlobRef]:
        return (BlobRef(ref.uri.replace(" ", "%20"), ref.size, ref.version) for ref in super().list(prefix))


class RemembersWhatItReads(DictReader):
    def open(self, ref: BlobRef) -> BinaryIO:
        self.current = ref
        time.sleep(0.01)
        return super().open(self.current)


class BindsFilesToThreads(DictReader):
    def open(self, ref: BlobRef) -> BinaryIO:
        owner = threading.get_ident()

        class Bound(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                if threading.get_ident() != owner:
                    raise RuntimeError("made in another thread")
                return super().read(size)

        return Bound(super().open(ref).read())


READER_DEFECTS: list[tuple[type[DictReader], str, dict[str, Any], type[BaseException]]] = [
    (IgnoresVersions, "test_open_of_a_changed_object_never_gives_the_new_bytes", {"data": b"longer"}, AssertionError),
    (ComparesSizes, "test_open_of_a_changed_object_never_gives_the_new_bytes", {"data": b"equal"}, AssertionError),
    (RaisesKeyError, "test_open_of_a_missing_object_raises", {}, KeyError),
    (RaisesKeyError, "test_open_of_a_deleted_object_raises", {}, KeyError),
    (RaisesKeyError, "test_stat_of_a_missing_object_raises", {}, KeyError),
    (Unseekable, "test_open_gives_a_seekable_file", {}, AssertionError),
    (ListsDirectories, "test_list_takes_the_beginning_of_a_name", {}, AssertionError),
    (ListsOnePage, "test_list_gives_many_objects", {}, AssertionError),
    (ListsNoVersions, "test_list_gives_the_version_and_size_of_now", {}, AssertionError),
    (RemembersWhatItReads, "test_several_threads_share_one_reader", {}, AssertionError),
    (BindsFilesToThreads, "test_a_file_is_read_by_another_thread_than_opened_it", {}, RuntimeError),
    (QuotesNames, "test_odd_names_are_listed_and_opened", {"name": "with space.json"}, AssertionError),
]


@pytest.mark.parametrize(("broken", "test", "arguments", "error"), READER_DEFECTS)
def test_the_blob_reader_suite_catches(
    broken: type[DictReader], test: str, arguments: dict[str, Any], error: type[BaseException]
) -> None:
    with pytest.raises(error):
        getattr(ReaderSuite(), test)(lambda: broken(SmallConfig()), **arguments)


class DictRemover(DictReader):
    """By the letter of the contract."""

    def now(self, uri: str) -> str | None:
        return STORE[uri][1] if uri in STORE else None

    def delete(self, ref: BlobRef) -> bool:
        if self.now(ref.uri) == ref.version:
            del STORE[ref.uri]
        return ref.uri not in STORE

    def move(self, ref: BlobRef, uri: str) -> bool:
        if self.now(ref.uri) != ref.version:
            return self.now(ref.uri) is None and self.now(uri) == ref.version
        if uri in STORE and self.now(uri) != ref.version:
            return False
        STORE[uri] = STORE.pop(ref.uri)
        return True


class RemoverSuite(ReaderSuite, BlobRemoverSuite):
    pass


class TestDictRemover(RemoverSuite):
    @pytest.fixture
    def make_reader(self) -> Any:
        return lambda: DictRemover(SmallConfig())


class DeletesWhateverIsThere(DictRemover):
    def delete(self, ref: BlobRef) -> bool:
        STORE.pop(ref.uri, None)
        return True


class DeletesThePrefix(DictRemover):
    def delete(self, ref: BlobRef) -> bool:
        for uri in [uri for uri in STORE if uri.startswith(ref.uri)]:
            del STORE[uri]
        return True


class DeleteRaisesWhenGone(DictRemover):
    def delete(self, ref: BlobRef) -> bool:
        self.find(ref)
        return super().delete(ref)


class SaysNothing(DictRemover):
    def delete(self, ref: BlobRef) -> bool:
        super().delete(ref)
        return None  # type: ignore[return-value]


class OnlyCopies(DictRemover):
    def move(self, ref: BlobRef, uri: str) -> bool:
        STORE[uri] = STORE[ref.uri]
        return True


class MovesWhateverIsThere(DictRemover):
    def move(self, ref: BlobRef, uri: str) -> bool:
        STORE[uri] = STORE.pop(ref.uri)
        return True


class MoveForgetsThatItWasDone(DictRemover):
    def move(self, ref: BlobRef, uri: str) -> bool:
        return ref.uri in STORE and super().move(ref, uri)


class TakesGoneForMoved(DictRemover):
    def move(self, ref: BlobRef, uri: str) -> bool:
        return ref.uri not in STORE or super().move(ref, uri)


class ReplacesOthers(DictRemover):
    def move(self, ref: BlobRef, uri: str) -> bool:
        STORE.pop(uri, None)
        return super().move(ref, uri)


class OneThreadOnly(DictRemover):
    def delete(self, ref: BlobRef) -> bool:
        return LOCK.acquire(blocking=False) and (time.sleep(0.05) or LOCK.release() or super().delete(ref))


REMOVER_DEFECTS: list[tuple[type[DictReader], str, dict[str, Any], type[BaseException]]] = [
    (DictReader, "test_has_the_methods_of_a_blob_remover", {}, AssertionError),
    (DeletesThePrefix, "test_delete_deletes_this_object_and_no_other", {}, AssertionError),
    (SaysNothing, "test_delete_deletes_this_object_and_no_other", {}, AssertionError),
    (DeleteRaisesWhenGone, "test_delete_of_what_is_gone_is_not_an_error", {}, BlobNotFoundError),
    (DeletesWhateverIsThere, "test_delete_leaves_an_overwritten_object_alone", {"data": b"equal"}, AssertionError),
    (OnlyCopies, "test_move_brings_the_object_to_the_uri", {}, AssertionError),
    (MoveForgetsThatItWasDone, "test_a_move_that_was_done_ends_the_same_again", {}, AssertionError),
    (TakesGoneForMoved, "test_move_of_what_is_gone_is_not_an_error", {}, AssertionError),
    (MovesWhateverIsThere, "test_move_of_what_is_gone_is_not_an_error", {}, KeyError),
    (MovesWhateverIsThere, "test_move_leaves_an_overwritten_object_alone", {"data": b"equal"}, AssertionError),
    (ReplacesOthers, "test_move_never_replaces_another_object", {}, AssertionError),
    (OnlyCopies, "test_odd_names_are_moved", {"name": "with space.json"}, AssertionError),
    (OneThreadOnly, "test_several_threads_remove_at_once", {}, AssertionError),
]


@pytest.mark.parametrize(("broken", "test", "arguments", "error"), REMOVER_DEFECTS)
def test_the_blob_remover_suite_catches(
    broken: type[DictReader], test: str, arguments: dict[str, Any], error: type[BaseException]
) -> None:
    with pytest.raises(error):
        getattr(RemoverSuite(), test)(lambda: broken(SmallConfig()), **arguments)


class SmallParquet:
    """Parquet, by the letter of the contract."""

    Config = SmallConfig

    def __init__(self, config: SmallConfig) -> None:
        self.config = config

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        return self.opened(file).schema_arrow

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        parquet = self.opened(file)
        for group in range(parquet.num_row_groups):
            # Over several row groups at once, iter_batches reads all of them before the first batch.
            for batch in parquet.iter_batches(10_000, row_groups=[group]):
                try:
                    yield self.fitted(batch, schema)
                except (pa.ArrowException, ValueError) as error:
                    raise DecodeError(f"does not fit: {error}") from error

    def opened(self, file: BinaryIO) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(file)
        except pa.ArrowException as error:
            raise DecodeError(f"not Parquet: {error}") from error

    def fitted(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        columns = [
            batch.column(f.name).cast(f.type) if f.name in batch.schema.names else pa.nulls(len(batch), f.type)
            for f in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


class ParquetSuite(DecoderSuite):
    def encode(self, table: pa.Table) -> bytes:
        file = io.BytesIO()
        pq.write_table(table, file, row_group_size=20_000)
        return file.getvalue()


class TestSmallParquet(ParquetSuite):
    @pytest.fixture
    def make_decoder(self) -> Any:
        return lambda: SmallParquet(SmallConfig())


class ForeignErrors(SmallParquet):
    def opened(self, file: BinaryIO) -> pq.ParquetFile:
        return pq.ParquetFile(file)


class CutsNumbers(SmallParquet):
    def fitted(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        columns = [batch.column(f.name).cast(f.type, safe=False) for f in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


class OwnSchema(SmallParquet):
    def fitted(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        return batch


class MissingIsAnError(SmallParquet):
    def fitted(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        return batch.select(schema.names).cast(schema)


class OneBatch(SmallParquet):
    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        return pa.Table.from_batches(super().decode(file, schema), schema).combine_chunks().to_batches()


class ReadsWhole(SmallParquet):
    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        return list(super().decode(io.BytesIO(file.read()), schema))


class Backwards(SmallParquet):
    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        return [b.take(pa.array(range(len(b) - 1, -1, -1), pa.int64())) for b in super().decode(file, schema)]


class EmptyIsAnError(SmallParquet):
    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        batches = list(super().decode(file, schema))
        if not batches:
            raise DecodeError("no rows")
        return batches


class EmptyTextIsNull(SmallParquet):
    def fitted(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        rows = [{name: None if value == "" else value for name, value in row.items()} for row in batch.to_pylist()]
        return pa.RecordBatch.from_pylist(rows, schema=schema)


DECODER_DEFECTS: list[tuple[type[SmallParquet], str, dict[str, Any], type[BaseException]]] = [
    (ForeignErrors, "test_decode_refuses_garbage", {}, pa.ArrowInvalid),
    (ForeignErrors, "test_infer_schema_refuses_garbage", {}, pa.ArrowInvalid),
    (ForeignErrors, "test_a_file_without_bytes_gives_no_rows_or_is_not_in_the_format", {}, pa.ArrowInvalid),
    (CutsNumbers, "test_numbers_too_large_for_the_schema_are_refused", {}, pytest.fail.Exception),
    (OwnSchema, "test_batches_have_exactly_the_schema", {"nullable": False}, AssertionError),
    (OwnSchema, "test_a_column_that_the_schema_lacks_is_left_out", {}, AssertionError),
    (MissingIsAnError, "test_a_column_that_the_file_lacks_is_null", {}, Exception),
    (OneBatch, "test_batches_are_bounded", {}, AssertionError),
    (ReadsWhole, "test_the_first_batch_comes_before_the_file_is_read_whole", {}, AssertionError),
    (Backwards, "test_rows_come_in_order", {}, AssertionError),
    (EmptyIsAnError, "test_a_file_without_rows_gives_no_rows", {}, DecodeError),
    (EmptyTextIsNull, "test_nasty_data_comes_through", {"name": "some_nulls"}, AssertionError),
]


@pytest.mark.parametrize(("broken", "test", "arguments", "error"), DECODER_DEFECTS)
def test_the_decoder_suite_catches(
    broken: type[SmallParquet], test: str, arguments: dict[str, Any], error: type[BaseException]
) -> None:
    with pytest.raises(error):
        getattr(ParquetSuite(), test)(lambda: broken(SmallConfig()), **arguments)
