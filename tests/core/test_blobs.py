"""References to objects, and the messages that announce them."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from volley_core import BlobRef, Notification

REF = BlobRef("s3://bucket/a.json", 10, "v1", "0055", 1_700_000_000_000)


def test_two_announcements_of_one_version_have_one_identity() -> None:
    again = dataclasses.replace(REF, size=0, sequencer="0056", event_time_ms=None)
    assert again != REF
    assert again.identity == REF.identity


@pytest.mark.parametrize("change", [{"uri": "s3://bucket/b.json"}, {"version": "v2"}])
def test_another_object_or_version_has_another_identity(change: dict[str, str]) -> None:
    assert dataclasses.replace(REF, **change).identity != REF.identity


def test_a_receipt_is_not_shown() -> None:
    notification = Notification("AQEB-secret-handle", (REF,), "id-1")
    assert "secret" not in repr(notification)
    assert "id-1" in repr(notification)


def test_references_and_notifications_are_frozen_and_picklable() -> None:
    notification = Notification("r", (REF,), "id-1")
    assert pickle.loads(pickle.dumps(notification)) == notification
    with pytest.raises(dataclasses.FrozenInstanceError):
        notification.receipt = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        REF.uri = "other"  # type: ignore[misc]
    assert len({REF, BlobRef(*dataclasses.astuple(REF))}) == 1


def test_a_notification_may_announce_nothing() -> None:
    assert Notification("r").blobs == ()
