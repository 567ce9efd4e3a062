"""Faults on demand: make a memory connector fail at a chosen point, to see a pipeline recover.

A fault is written `action@point:epoch`, for example `kill@write:2`. It fires once in the channel's life, in whichever
process gets there first, so that the restarted query goes on; with a `*` behind it, it fires every time.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from volley_connectors.memory.channel import Channel
from volley_core.config import did_you_mean
from volley_core.errors import TransientError

ACTIONS = ("raise", "kill", "sleep")
SOURCE_POINTS = ("latest_offset", "splits", "read")
SINK_POINTS = ("write", "flush", "staged", "adopt", "commit_before", "commit_after")
SLEEP_SECONDS = 2.0
_SYNTAX = re.compile(r"([a-z]+)@([a-z_]+):([0-9]+)(\*?)")
_SHORT = {"commit": "commit_before"}


@dataclass(frozen=True, slots=True)
class Fault:
    action: str
    point: str
    epoch: int
    always: bool = False

    @classmethod
    def parse(cls, text: str, points: Iterable[str]) -> Fault:
        """Read `action@point:epoch` or `action@point:epoch*`. Raises ValueError that says what is wrong."""
        match = _SYNTAX.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"fault {text!r} is not of the form action@point:epoch, for example raise@read:0")
        action, point, epoch, star = match.groups()
        point = _SHORT.get(point, point)
        if action not in ACTIONS:
            raise ValueError(f"fault {text!r} has the unknown action {action!r}. {did_you_mean(action, ACTIONS)}")
        if point not in points:
            raise ValueError(f"fault {text!r} has the unknown point {point!r}. {did_you_mean(point, points)}")
        return cls(action, point, int(epoch), bool(star))


def fire(faults: Iterable[str], points: Iterable[str], channel: Channel, point: str, epochs: range) -> None:
    """Do what the faults say for this point in these epochs."""
    for text in faults:
        fault = Fault.parse(text, points)
        if fault.point != point or fault.epoch not in epochs:
            continue
        if fault.always or channel.first_time(f"{fault.action}-{point}-{fault.epoch}"):
            _act(fault, channel)


def _act(fault: Fault, channel: Channel) -> None:
    if fault.action == "raise":
        raise TransientError(
            f"Fault {fault.action}@{fault.point}:{fault.epoch} of memory channel {channel.name!r}, as its option "
            "'faults' asks."
        )
    if fault.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(SLEEP_SECONDS)


def _separated(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _checker(points: tuple[str, ...]) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    def check(faults: tuple[str, ...]) -> tuple[str, ...]:
        for fault in faults:
            Fault.parse(fault, points)
        return faults

    return check


SourceFaults = Annotated[tuple[str, ...], BeforeValidator(_separated), AfterValidator(_checker(SOURCE_POINTS))]
"""A field that takes faults of a source, separated by commas."""

SinkFaults = Annotated[tuple[str, ...], BeforeValidator(_separated), AfterValidator(_checker(SINK_POINTS))]
"""A field that takes faults of a sink, separated by commas."""
