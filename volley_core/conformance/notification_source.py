"""The contract of `NotificationSource` as tests."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from volley_core.blobs import Notification
from volley_core.config import ConnectorConfig
from volley_core.conformance import identity
from volley_core.conformance.rows import eventually
from volley_core.protocols import NotificationSource

MakeSource = Callable[[], Any]
STRANGE_RECEIPTS = ["", "unknown", "☃ not a receipt"]


class NotificationSourceSuite:
    """Give a fixture `make_source` (a function that makes a new instance on the same queue) and the three methods."""

    hidden_seconds: ClassVar[float] = 1.0
    """For how long the queue hides a message that was polled; `make_source` sets it so. Tests wait that long."""
    patience_seconds: ClassVar[float] = 10.0
    """How long a message that is there may take to be polled."""
    unknown_receipts: ClassVar[list[str]] = ["unknown"]
    """Receipts that the queue never gave."""

    def announce(self, name: str) -> str:
        """Put a message into the queue that announces one object of this name; gives the object's uri."""
        raise NotImplementedError("a suite's class says how an object is announced")

    def announce_garbage(self) -> None:
        """Put a message into the queue that nobody can parse."""
        raise NotImplementedError("a suite's class says what cannot be parsed")

    def depth(self) -> int:
        """How many messages the queue holds, hidden ones included."""
        raise NotImplementedError("a suite's class says how deep the queue is")

    def drain(self, source: Any, count: int) -> list[Notification]:
        """Poll until `count` messages came, or patience ends."""
        found: list[Notification] = []

        def look() -> int:
            found.extend(source.poll(10))
            return len(found)

        eventually(look, lambda polled: polled >= count, self.patience_seconds)
        return found

    def one(self, source: Any, name: str = "one") -> Notification:
        """Announce an object and poll its message."""
        self.announce(name)
        found = self.drain(source, 1)
        assert len(found) == 1, f"one message was announced, {len(found)} came"
        return found[0]

    def expect_depth(self, depth: int) -> None:
        assert eventually(self.depth, lambda seen: seen == depth, self.patience_seconds) == depth

    def expire(self) -> None:
        """Wait until what was polled is no longer hidden."""
        time.sleep(self.hidden_seconds * 1.2)

    def test_has_the_methods_of_a_notification_source(self, make_source: MakeSource) -> None:
        assert isinstance(make_source(), NotificationSource)

    def test_connector_id_is_the_same_in_every_run(self, make_source: MakeSource) -> None:
        """Name this queue in checkpoints and logs. The same in every run."""
        identity.assert_stable_id(make_source)

    def test_connector_id_holds_no_secret(self, make_source: MakeSource) -> None:
        identity.assert_id_without_secrets(make_source)

    def test_is_made_from_its_config(self, make_source: MakeSource) -> None:
        identity.assert_config_class(make_source, ConnectorConfig)

    def test_a_pickled_copy_polls_the_same_queue(self, make_source: MakeSource) -> None:
        """Constructors hold the config and nothing else."""
        assert self.one(identity.assert_picklable(make_source)).blobs

    def test_poll_gives_nothing_if_the_queue_gave_none(self, make_source: MakeSource) -> None:
        """An empty sequence if the queue gave none."""
        assert len(make_source().poll(10)) == 0

    def test_poll_names_the_announced_object(self, make_source: MakeSource) -> None:
        uris = {self.announce("first"), self.announce("ünï code & 100%+1.json")}
        found = self.drain(make_source(), 2)
        assert {blob.uri for notification in found for blob in notification.blobs} == uris
        assert all(notification.receipt and notification.message_id for notification in found)

    def test_poll_gives_no_more_than_was_asked_for(self, make_source: MakeSource) -> None:
        """Return up to `max_notifications`."""
        for number in range(5):
            self.announce(f"object-{number}")
        source = make_source()
        sizes: list[int] = []

        def look() -> int:
            sizes.append(len(source.poll(2)))
            return sum(sizes)

        assert eventually(look, lambda polled: polled >= 5, self.patience_seconds) == 5
        assert max(sizes) <= 2

    def test_poll_of_more_than_one_page_works(self, make_source: MakeSource) -> None:
        """Return up to `max_notifications`, also if the queue hands out fewer at a time."""
        for number in range(25):
            self.announce(f"object-{number}")
        source = make_source()
        found: list[Notification] = []

        def look() -> int:
            found.extend(source.poll(100))
            return len(found)

        eventually(look, lambda polled: polled >= 25, self.patience_seconds)
        assert len({notification.message_id for notification in found}) == 25

    def test_a_polled_message_is_hidden(self, make_source: MakeSource) -> None:
        """A returned message stays in the queue, hidden."""
        source, other = make_source(), make_source()
        # Connected first: that may take longer than a message is hidden.
        assert (len(source.poll(10)), len(other.poll(10))) == (0, 0)
        self.one(source)
        assert (len(source.poll(10)), len(other.poll(10))) == (0, 0)
        self.expect_depth(1)

    def test_a_message_that_was_not_acknowledged_comes_again(self, make_source: MakeSource) -> None:
        """It stays in the queue until `ack`: a crash loses nothing, and the message keeps its id."""
        first = self.one(make_source())
        self.expire()
        again = self.drain(make_source(), 1)
        assert [(n.message_id, n.blobs) for n in again] == [(first.message_id, first.blobs)]

    def test_ack_deletes(self, make_source: MakeSource) -> None:
        """Delete these messages."""
        source = make_source()
        source.ack([self.one(source).receipt])
        self.expect_depth(0)
        self.expire()
        assert len(source.poll(10)) == 0

    def test_ack_deletes_these_messages_and_no_others(self, make_source: MakeSource) -> None:
        """Delete *these* messages."""
        source = make_source()
        for number in range(12):
            self.announce(f"object-{number}")
        found = self.drain(source, 12)
        source.ack([notification.receipt for notification in found[1:]])
        self.expect_depth(1)
        source.release([found[0].receipt])
        assert [n.message_id for n in self.drain(source, 1)] == [found[0].message_id]

    @pytest.mark.parametrize("method", ["ack", "extend", "release"])
    def test_no_receipts_is_no_error(self, make_source: MakeSource, method: str) -> None:
        self._tell(make_source(), method, [])

    @pytest.mark.parametrize("method", ["ack", "extend", "release"])
    def test_an_unknown_receipt_is_not_an_error(self, make_source: MakeSource, method: str) -> None:
        """An unknown receipt is not an error."""
        source = make_source()
        self._tell(source, method, self.unknown_receipts)
        self._tell(source, method, STRANGE_RECEIPTS)

    @pytest.mark.parametrize("method", ["ack", "extend", "release"])
    def test_a_receipt_of_a_deleted_message_is_not_an_error(self, make_source: MakeSource, method: str) -> None:
        """An unknown or expired receipt is not an error."""
        source = make_source()
        receipt = self.one(source).receipt
        source.ack([receipt])
        self._tell(source, method, [receipt])
        self.expect_depth(0)

    @pytest.mark.parametrize("method", ["ack", "extend", "release"])
    def test_an_expired_receipt_is_not_an_error(self, make_source: MakeSource, method: str) -> None:
        """An expired receipt is not an error: the message was handed out again in the meantime."""
        source = make_source()
        expired = self.one(source).receipt
        self.expire()
        again = self.drain(source, 1)
        assert len(again) == 1
        self._tell(source, method, [expired])
        source.ack([notification.receipt for notification in again])

    def test_unknown_receipts_do_not_stop_known_ones(self, make_source: MakeSource) -> None:
        """Delete these messages. An unknown receipt is not an error."""
        source = make_source()
        source.ack([*self.unknown_receipts, self.one(source).receipt, *STRANGE_RECEIPTS])
        self.expect_depth(0)

    def test_extend_keeps_messages_hidden(self, make_source: MakeSource) -> None:
        """Keep these messages hidden for so long from now."""
        source = make_source()
        receipt = self.one(source).receipt
        source.extend([receipt], self.hidden_seconds * 4)
        self.expire()
        assert len(source.poll(10)) == 0
        source.ack([receipt])
        self.expect_depth(0)

    def test_extend_ends(self, make_source: MakeSource) -> None:
        """For so long *from now*: not for ever, and not on top of what was left."""
        source = make_source()
        first = self.one(source)
        source.extend([first.receipt], self.hidden_seconds)
        self.expire()
        assert [n.message_id for n in self.drain(source, 1)] == [first.message_id]

    def test_release_shows_messages_at_once(self, make_source: MakeSource) -> None:
        """Show these messages again at once."""
        source = make_source()
        first = self.one(source)
        source.extend([first.receipt], self.hidden_seconds + 60)
        source.release([first.receipt])
        assert [n.message_id for n in self.drain(source, 1)] == [first.message_id]

    def test_an_unparseable_message_is_never_an_error(
        self, make_source: MakeSource, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A message that cannot be parsed is never an error: it is logged, and left in the queue."""
        self.announce_garbage()
        uris = {self.announce("good-1"), self.announce("good-2")}
        source = make_source()
        with caplog.at_level(logging.WARNING):
            found = self.drain(source, 2)
        assert {blob.uri for notification in found for blob in notification.blobs} == uris
        assert any(record.levelno >= logging.WARNING for record in caplog.records), "nothing was logged"
        source.ack([notification.receipt for notification in found])
        self.expect_depth(1)

    def test_several_threads_share_one_instance(self, make_source: MakeSource) -> None:
        """Reads object notifications from several threads."""
        uris = {self.announce(f"object-{number}") for number in range(20)}
        source = make_source()
        seen: list[str] = []
        errors: list[Exception] = []
        deadline = time.monotonic() + self.patience_seconds

        def work() -> None:
            try:
                while len(set(seen)) < len(uris) and time.monotonic() < deadline:
                    found = source.poll(3)
                    source.extend([n.receipt for n in found], self.hidden_seconds + 5)
                    seen.extend(blob.uri for n in found for blob in n.blobs)
                    source.ack([n.receipt for n in found])
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert set(seen) == uris
        self.expect_depth(0)

    def test_close_may_be_called_twice(self, make_source: MakeSource) -> None:
        """May be called twice, or never."""
        source = make_source()
        source.poll(1)
        source.close()
        source.close()
        make_source().close()

    def _tell(self, source: Any, method: str, receipts: list[str]) -> None:
        arguments: tuple[Any, ...] = (receipts, 5.0) if method == "extend" else (receipts,)
        getattr(source, method)(*arguments)
