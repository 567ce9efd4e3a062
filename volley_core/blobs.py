"""Objects in a blob store, and the queue messages that announce them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BlobRef:
    """Names one object exactly, so that reading it twice gives the same bytes."""

    uri: str
    size: int = 0
    version: str = ""
    """The store's version id or generation; the etag where the store has neither."""
    sequencer: str = ""
    """Orders the versions of one object, where the store tells; compare within one store only."""
    event_time_ms: int | None = None
    """When the store says that the object was written."""

    @property
    def identity(self) -> tuple[str, str]:
        """What makes two announcements mean the same object."""
        return (self.uri, self.version)


@dataclass(frozen=True, slots=True)
class Notification:
    """One queue message: the objects that it announces, and the receipt that deletes it."""

    receipt: str = field(repr=False)
    blobs: tuple[BlobRef, ...] = ()
    """May be empty: a store's test event announces nothing but is acknowledged all the same."""
    message_id: str = ""
    """The queue's own name of the message, equal in every delivery of it."""
