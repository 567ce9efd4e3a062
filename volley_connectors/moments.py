"""Points in time as people write them: "2024-05-01 12:00", "2 hours" ago."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from volley_core.units import parse_seconds


def parse_moment(text: str, now_ms: int | None = None) -> int:
    """Milliseconds since 1970 of a time in ISO 8601 (UTC unless it names a zone), or of so long ago.

    Raises ValueError.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return _so_long_ago(text, time.time_ns() // 1_000_000 if now_ms is None else now_ms)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _so_long_ago(text: str, now_ms: int) -> int:
    # A bare number would be read as seconds, and more likely means something else.
    if text.strip().isdigit():
        raise ValueError("expected a time such as '2024-05-01 12:00', or how long ago, such as '2 hours'")
    try:
        return now_ms - round(float(parse_seconds(text.strip().removesuffix("ago"))) * 1000)
    except ValueError:
        raise ValueError("expected a time such as '2024-05-01 12:00', or how long ago, such as '2 hours'") from None
