"""ISO 8601 texts as timestamps and dates, in the spellings that Spark takes. A text without a zone is taken as UTC."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

_DAY = r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
_DATE = re.compile(_DAY + r"(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    _DAY + r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)? *([A-Za-z+-][\w/:+-]*)?)?)?)?", re.ASCII
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_ZONED = r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$"
_TOO_MANY_DIGITS = r"(\.\d{6})\d+"


def parse_timestamps(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of texts as `kind`. Raises ValueError for a text that is not a timestamp."""
    for parse in (_all_alike, _with_and_without_zone):
        try:
            return parse(texts, kind)
        except pa.ArrowInvalid:
            continue
    return pa.array([None if text is None else parse_timestamp(text, kind) for text in texts.to_pylist()], kind)


def parse_dates(texts: pa.Array) -> pa.Array:
    """A column of texts as dates. Raises ValueError for a text that is not one."""
    try:
        return texts.cast(pa.date32())
    except pa.ArrowInvalid:
        return pa.array([None if text is None else parse_date(text) for text in texts.to_pylist()], pa.date32())


def parse_timestamp(text: str, kind: pa.DataType) -> int:
    """One text, in microseconds since 1970. Digits beyond them are cut off, as Spark does."""
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        raise ValueError("not a timestamp in ISO 8601")
    *numbers, fraction, zone = found.groups()
    year, month, day, hour, minute, second = (
        int(number or default) for number, default in zip(numbers, "011000", strict=True)
    )
    moment = datetime(year, month, day, hour, minute, second, int((fraction or "").ljust(6, "0")[:6]))
    if zone and not kind.tz:
        raise ValueError("a timestamp without zone cannot keep the one of the text")
    # As numbers: in the first and the last year a datetime cannot be moved to UTC.
    ahead = (_zone(zone).utcoffset(moment) if zone else None) or timedelta()
    return (moment - _EPOCH - ahead) // timedelta(microseconds=1)


def parse_date(text: str) -> date:
    """One text. A time behind the day is left out, as Spark does."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError("not a date in ISO 8601")
    year, month, day = (int(number or 1) for number in found.groups())
    return date(year, month, day)


def _all_alike(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    # Arrow wants a zone in every text or in none, and no more digits than the type keeps.
    return texts.cast(kind)


def _with_and_without_zone(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    texts = pc.replace_substring_regex(texts, _TOO_MANY_DIGITS, r"\1")
    if not kind.tz:
        return texts.cast(kind)
    zoned = pc.match_substring_regex(texts, _ZONED)
    nothing = pa.scalar(None, texts.type)
    local = pc.if_else(zoned, nothing, texts).cast(pa.timestamp("us")).cast(kind)
    return pc.coalesce(pc.if_else(zoned, texts, nothing).cast(kind), local)


def _zone(text: str) -> tzinfo:
    if text in ("Z", "UTC", "GMT"):
        return UTC
    if offset := _OFFSET.fullmatch(text):
        sign, hours, minutes = offset.groups()
        ahead = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(ahead if sign == "+" else -ahead)
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        raise ValueError(f"no such time zone: {text!r}") from None
