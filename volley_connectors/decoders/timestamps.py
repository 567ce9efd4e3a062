"""ISO 8601 texts as timestamps, with and without a zone. A text without one is taken as UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa


def parse_timestamps(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of texts as `kind`. Raises ValueError for a text that is not a timestamp."""
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        # Arrow wants a zone in every text or in none, and no more digits than the type keeps.
        values = [None if text is None else parse_timestamp(text, kind) for text in texts.to_pylist()]
        return pa.array(values, kind)


def parse_timestamp(text: str, kind: pa.DataType) -> datetime:
    """One text. Digits beyond microseconds are cut off, as Spark does."""
    moment = datetime.fromisoformat(text.strip())
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment if kind.tz else moment.replace(tzinfo=None)
