"""Input that a decoder could not make a row of, and what is to become of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

CORRUPT_RECORD = "_corrupt_record"
"""The key, in the column of extras, under which a record stands that could not be read at all."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One record that cannot be read or does not fit the schema."""

    raw: bytes
    """The record as it stands in the object; of a binary format, the values that could be read, as JSON."""
    error: str
    row: int
    """Counted from 1 through the object or the piece, bad records included."""


@dataclass(frozen=True, slots=True)
class BadRecords:
    """How a decoder is to treat input that it cannot make a row of."""

    add: Callable[[BadRecord], None]
    """Told of every bad record, in order. May raise, which ends the decoding."""
    extras: str | None = None
    """A text column of the schema that takes, as one JSON object per row, what the record holds but the schema lacks;
    null where there is nothing."""
    rescue: bool = False
    """A bad record becomes a row as well: values that do not fit are null, and stand in the column of extras. A record
    that cannot be read at all is a row of nulls, with its text under `_corrupt_record` in the column of extras."""
