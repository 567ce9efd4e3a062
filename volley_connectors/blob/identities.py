"""What is remembered of an object: a few numbers that stand for its name, its version and its place in time."""

from __future__ import annotations

import re
import struct
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from volley_core import BlobRef

RECORD = np.dtype(
    [
        ("high", "<u8"),
        ("low", "<u8"),
        ("version", "<u8"),
        ("order_high", "<u8"),
        ("order_low", "<u8"),
        ("digits", "<u1"),
    ],
    align=True,
)
"""One identity in an array; the fields are those of `Identity`."""

_HALVES = struct.Struct(">QQ")
_HALF = struct.Struct(">Q")
_HEX = re.compile("[0-9a-fA-F]{1,32}")
_LOW = 2**64 - 1


class Identity(NamedTuple):
    """One object in one version."""

    high: int
    low: int
    """With `high`: 128 bits that stand for the uri. Two names that share them are not to be expected, ever."""
    version: int
    """64 bits that stand for the version; compared within one uri only."""
    order_high: int
    order_low: int
    digits: int
    """How many hexadecimal digits the sequencer had; 0 for none. They are in `order_high` and `order_low`."""

    @property
    def key(self) -> tuple[int, int]:
        return self.high, self.low

    @property
    def order(self) -> Order:
        return Order(self.digits, self.order_high << 64 | self.order_low)


class Order(NamedTuple):
    """A sequencer. Within one uri a greater one is of a later version."""

    digits: int
    value: int

    def is_before(self, other: Order) -> bool:
        """Whether this one is surely the earlier.

        Equal lengths, the normal case, compare as they are. Of different ones, AWS's pages have said to fill up the
        shorter with zeros on the left, and to do so on the right. Here both must agree: to skip a version wrongly
        loses its rows, to read an early one late does not. Nothing is before or after an object without a sequencer.
        """
        if not self.digits or not other.digits:
            return False
        width = max(self.digits, other.digits)
        return self.value < other.value and self.value << 4 * (width - self.digits) < other.value << 4 * (
            width - other.digits
        )


def identify(blob: BlobRef) -> Identity:
    """The same numbers for the same object in every process: segments are kept."""
    name = blob.uri.encode(errors="surrogateescape")
    high, low = _HALVES.unpack(blake2b(name, digest_size=16, person=b"volley uri").digest())
    version = 0
    if blob.version:
        text = blob.version.encode(errors="surrogateescape")
        (version,) = _HALF.unpack(blake2b(text, digest_size=8, person=b"volley version").digest())
    # What is no hexadecimal number, as every store's is, cannot be put in order.
    value, digits = 0, 0
    if _HEX.fullmatch(blob.sequencer):
        value, digits = int(blob.sequencer, 16), len(blob.sequencer)
    return Identity(high, low, version, value >> 64, value & _LOW, digits)
