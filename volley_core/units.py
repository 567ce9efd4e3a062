"""Sizes and durations as people write them: "128 MB", "10 minutes"."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

_NUMBER_UNIT = re.compile(r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?)\s*([a-zA-Zµ]*)\s*")

_BYTES = {"": 1, "b": 1, "byte": 1, "bytes": 1} | {
    spelling: factor
    for power, letter in enumerate("kmgtp", start=1)
    # "128m" follows Spark's and Java's reading (binary); "128 MB" the SI one; "128 MiB" is never in doubt.
    for spelling, factor in (
        (letter, 1024**power),
        (f"{letter}ib", 1024**power),
        (f"{letter}b", 1000**power),
    )
}

_SECONDS = {
    spelling: factor
    for factor, spellings in (
        (0.001, ("ms", "milli", "millis", "millisecond", "milliseconds")),
        (1.0, ("", "s", "sec", "secs", "second", "seconds")),
        (60.0, ("m", "min", "mins", "minute", "minutes")),
        (3600.0, ("h", "hr", "hrs", "hour", "hours")),
        (86400.0, ("d", "day", "days")),
        (604800.0, ("w", "week", "weeks")),
    )
    for spelling in spellings
}


def _measure(text: str, units: dict[str, Any], example: str) -> float:
    match = _NUMBER_UNIT.fullmatch(text)
    unit = match.group(2).lower() if match else ""
    if match is None or unit not in units:
        raise ValueError(f"expected a number and a unit such as {example}")
    return float(match.group(1).replace("_", "").replace(",", "")) * float(units[unit])


def parse_bytes(value: Any) -> Any:
    """ "128 MB" as a number of bytes. Anything but text is left to the model to judge."""
    return round(_measure(value, _BYTES, "'128 MB' or '64 MiB'")) if isinstance(value, str) else value


def parse_seconds(value: Any) -> Any:
    """ "10 minutes" as a number of seconds. Anything but text is left to the model to judge."""
    return _measure(value, _SECONDS, "'10 minutes' or '30 s'") if isinstance(value, str) else value


def _not_negative(value: float) -> float:
    # Not `Field(ge=0)`: pydantic would let that hide a bound that a connector sets on its own field.
    if value < 0:
        raise ValueError("must not be negative")
    return value


ByteSize = Annotated[
    int, Field(json_schema_extra={"unit": "bytes"}), BeforeValidator(parse_bytes), AfterValidator(_not_negative)
]
"""A field that takes bytes as a number or as text with a unit."""

Seconds = Annotated[
    float, Field(json_schema_extra={"unit": "seconds"}), BeforeValidator(parse_seconds), AfterValidator(_not_negative)
]
"""A field that takes a duration as a number of seconds or as text with a unit."""
