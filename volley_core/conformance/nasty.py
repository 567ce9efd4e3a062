"""Data that breaks connectors: each table holds one kind of it, in types that Spark has."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

_UTC = pa.timestamp("us", tz="UTC")
_FIRST = dt.datetime(1, 1, 1)
_LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)


def _nulls() -> pa.Table:
    kinds = {
        "flag": pa.bool_(),
        "number": pa.int64(),
        "real": pa.float64(),
        "text": pa.string(),
        "raw": pa.binary(),
        "day": pa.date32(),
        "moment": _UTC,
        "price": pa.decimal128(38, 18),
        "items": pa.list_(pa.int32()),
        "nested": pa.struct([("a", pa.int32()), ("b", pa.string())]),
        "pairs": pa.map_(pa.string(), pa.int64()),
    }
    return pa.table({name: pa.nulls(3, kind) for name, kind in kinds.items()})


def _some_nulls() -> pa.Table:
    return pa.table(
        {
            "number": pa.array([None, 1, None, 2], pa.int64()),
            "text": pa.array(["a", None, "", None], pa.string()),
            "items": pa.array([[], None, [None], [1, None, 2]], pa.list_(pa.int32())),
        }
    )


def _unicode() -> pa.Table:
    texts = [
        "plain",
        "",
        " leading and trailing ",
        "naïve façade Ünïcödé",
        "日本語 한국어 中文",
        "مرحبا بالعالم",
        "שלום \u202eright to left\u202c",
        "👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag, 🇦🇹",
        "e\u0301 combining, \ufeff mark, \u00a0 space, \u2028 line, \u2029 paragraph",
        "\U0010ffff last, \uffff no character, \ufffd replacement",
        "\\ud83d looks like half a pair",
        "quotes \" and ' and `, comma, semicolon; tab\t, back\\slash",
        "two\nlines\r\nand more",
    ]
    return pa.table({"id": pa.array(range(len(texts)), pa.int64()), "text": pa.array(texts, pa.string())})


def _nul_character() -> pa.Table:
    return pa.table({"text": pa.array(["a\0b", "\0", "end\0"], pa.string())})


def _binary() -> pa.Table:
    return pa.table({"raw": pa.array([b"", b"\0", bytes(range(256)), b"\xff\xfe invalid text"], pa.binary())})


def _nested() -> pa.Table:
    kind = pa.struct(
        [("tags", pa.list_(pa.struct([("k", pa.string()), ("v", pa.list_(pa.int64()))]))), ("n", pa.int32())]
    )
    rows = [
        {"tags": [{"k": "a", "v": [1, 2]}, {"k": "b", "v": []}], "n": 1},
        {"tags": [], "n": None},
        {"tags": None, "n": 3},
        {"tags": [{"k": None, "v": None}, None], "n": 4},
        None,
    ]
    return pa.table({"nested": pa.array(rows, kind)})


def _maps() -> pa.Table:
    rows = [[("a", 1), ("b", None)], [], None, [("👩", -1)]]
    return pa.table({"pairs": pa.array(rows, pa.map_(pa.string(), pa.int64()))})


def _decimals() -> pa.Table:
    texts = ["0", "-0.000000000000000001", "99999999999999999999.999999999999999999", "-99999999999999999999", "1.10"]
    return pa.table(
        {
            "wide": pa.array([Decimal(text) for text in texts], pa.decimal128(38, 18)),
            "money": pa.array(
                [Decimal("0.01"), Decimal("-0.01"), None, Decimal("9999999.99"), Decimal(0)], pa.decimal128(9, 2)
            ),
        }
    )


def _floats() -> pa.Table:
    values = [float("nan"), float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308, 0.1, None]
    singles = [float("nan"), float("inf"), float("-inf"), 1.401298464324817e-45, 3.4028234663852886e38, 0.5, None]
    return pa.table({"double": pa.array(values, pa.float64()), "single": pa.array(singles, pa.float32())})


def _integers() -> pa.Table:
    bits = {"tiny": (8, pa.int8()), "small": (16, pa.int16()), "medium": (32, pa.int32()), "big": (64, pa.int64())}
    return pa.table(
        {name: pa.array([-(2 ** (n - 1)), 2 ** (n - 1) - 1, 0, -1], kind) for name, (n, kind) in bits.items()}
    )


def _times() -> pa.Table:
    moments = [_FIRST, dt.datetime(1582, 10, 4), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), _LAST, None]
    return pa.table(
        {
            "day": pa.array([m and m.date() for m in moments], pa.date32()),
            "moment": pa.array([m and m.replace(tzinfo=dt.UTC) for m in moments], _UTC),
            "local": pa.array(moments, pa.timestamp("us")),
        }
    )


def _no_rows() -> pa.Table:
    return pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))]).empty_table()


def _many_batches() -> pa.Table:
    chunks = [pa.array(range(first, first + size), pa.int64()) for first, size in ((0, 1), (1, 0), (1, 2), (3, 4097))]
    return pa.table({"id": pa.chunked_array(chunks)})


def _odd_names() -> pa.Table:
    names = ["with space", "dot.ted", "UPPER", "ünï", "quote`d", "1st", "select", "a,b"]
    return pa.table({name: pa.array([number, None], pa.int32()) for number, name in enumerate(names)})


NASTY: dict[str, pa.Table] = {
    "nulls": _nulls(),
    "some_nulls": _some_nulls(),
    "no_rows": _no_rows(),
    "unicode": _unicode(),
    "nul_character": _nul_character(),
    "binary": _binary(),
    "nested": _nested(),
    "maps": _maps(),
    "decimals": _decimals(),
    "floats": _floats(),
    "integers": _integers(),
    "times": _times(),
    "wide": pa.table({f"column_{n}": pa.array([n, None, -n], pa.int64()) for n in range(250)}),
    "long_text": pa.table({"text": pa.array(["x" * 3_000_000, "ü" * 100_000, ""], pa.string())}),
    "many_batches": _many_batches(),
    "odd_names": _odd_names(),
}
