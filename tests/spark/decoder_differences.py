"""Where the text decoders give something else than Spark's own readers, and why.

The test beside this holds it true. It is also the page docs/decoders.md: python -m tests.spark.decoder_differences
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).resolve().parents[2] / "docs" / "decoders.md"
_ROWS = "a int, b string"
_INTEGERS = ("int", "tinyint", "smallint", "bigint")
_FLOATS = ("double", "float")
_DECIMALS = ("decimal(9,2)", "decimal(38,18)", "decimal(38,0)")
JSON_TYPES = (
    *("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double"),
    *("decimal(9,2)", "decimal(38,18)", "decimal(38,0)", "date", "timestamp", "timestamp_ntz", "binary"),
    *("array<int>", "array<string>", "array<struct<x: int>>", "struct<x: int>", "struct<x: string>"),
    *("struct<x: struct<y: int>>", "map<string, int>", "map<string, string>"),
)
CSV_TYPES = JSON_TYPES[: JSON_TYPES.index("array<int>")]
_TIMES = {"date": "D", "timestamp": "us", "timestamp_ntz": "us"}


@dataclass(frozen=True)
class Case:
    """A text and the schema to read it with: one value and its type, or a file and its columns."""

    format: str
    ddl: str
    text: bytes
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Difference:
    """One deliberate difference. The first case is the one that is shown."""

    what: str
    cases: tuple[Case, ...]
    spark: str
    volley: str
    why: str


def shown(case: Case, rows: list[tuple[Any, ...]]) -> str:
    """What a reader made of a case."""
    if case.ddl != _ROWS and case.format != "text":
        # A value's row begins with its number.
        ((*_, value, bad),) = rows
        if case.ddl in _TIMES and value is not None:
            value = str(np.datetime64(value, _TIMES[case.ddl])).replace(datetime.now(UTC).date().isoformat(), "today")
        return "bad record" if bad else str(value)
    found = [("bad " if bad else "") + repr(tuple(values)) for *values, bad in rows]
    return "; ".join(found) or "no rows"


def page() -> str:
    """The page of the docs."""
    lines = [_HEAD]
    for name, title in (("json", "JSON"), ("csv", "CSV"), ("text", "Text")):
        lines += [f"## {title}", "", "| what | read as | Spark | Volley | why |", "| --- | --- | --- | --- | --- |"]
        for entry in DIFFERENCES:
            case = entry.cases[0]
            if case.format == name:
                text = repr(case.text.decode(errors="backslashreplace"))[1:-1]
                options = "".join(f", `{key}={value}`" for key, value in case.options if case.ddl == _ROWS)
                results = [f"`{entry.spark}`", f"`{entry.volley}`"]
                cells = [f"{entry.what}: `{text}`", f"`{case.ddl}`{options}", *results, entry.why]
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _values(name: str, kinds: tuple[str, ...], *texts: str) -> tuple[Case, ...]:
    return tuple(Case(name, kind, text.encode()) for kind in kinds for text in texts)


def _files(name: str, *texts: bytes, **options: str) -> tuple[Case, ...]:
    return tuple(
        Case(name, "value string" if name == "text" else _ROWS, text, tuple(options.items())) for text in texts
    )


_HEAD = """\
# Decoders beside Spark's own readers

The decoders of JSON, CSV and text give the rows that `spark.read` gives for the same bytes and the same schema.
`tests/spark/test_decoders_against_spark.py` holds that true over generated files and over all that is nasty; it also
says where they deliberately differ, and this page is made of its table: `python -m tests.spark.decoder_differences`.

`on_bad_record=fail` is Spark's `FAILFAST`, `drop` is `DROPMALFORMED`, and `rescue` is `PERMISSIVE`: what does not fit
is null in its column, and stands in `_rescued_data`. *Bad record* means that all three treat it so. Spark's option
`timeZone` is UTC here: a text without a zone is UTC for Volley, whatever the session's zone is.
"""

_DIGITS = "digits are never dropped without a word"
_NOT_LOST = "nothing is lost"
_LOST = "what follows would be lost without a word"
_YEARS = "most of what reads the table afterwards knows the years 1 to 9999 only"

DIFFERENCES = [
    Difference(
        "A number too big for the column",
        _values("json", ("tinyint",), "128"),
        "-128", "bad record", "a number that wraps round is wrong without a word",
    ),
    Difference(
        "A whole number written with a point or an exponent",
        _values("json", _INTEGERS, "1.0", "-0.0", "1e2"),
        "bad record", "1", _NOT_LOST,
    ),
    Difference(
        "Minus zero without a point", _values("json", _FLOATS, "-0"), "0.0", "-0.0", "it is what was written"
    ),
    Difference(
        "More digits behind the point than the column keeps",
        (
            *_values("json", _DECIMALS[:1], "12.345", "0.001"),
            *_values("json", _DECIMALS, "1e-400"),
            *_values("json", _DECIMALS[2:], "1.5", "123456789012345678901234567.89", "0.1", "0.001", "12.50", "12.345",
                     '"1.5"', "1704067200.5"),
        ),
        "12.35", "bad record", _DIGITS,
    ),
    Difference(
        "Commas within a decimal",
        _values("json", _DECIMALS, '"1,234.5"'),
        "1234.50", "bad record", "elsewhere the comma is the decimal point",
    ),
    Difference(
        "A number for a timestamp",
        _values("json", ("timestamp",), "1704067200", "0", "-0", "1", "-1", "127", "128", "-129", "32768", "2147483648",
                "9223372036854775807"),
        "2024-01-01T00:00:00.000000", "bad record",
        "whether it counts seconds or milliseconds, only `epoch_timestamps` tells",
    ),
    Difference(
        "A number for a date",
        _values("json", ("date",), '"20240101"', '"1"', '"1704067200"'),
        "57385-07-07", "bad record", "days since 1970 are hardly meant",
    ),
    Difference(
        "A time of day for a timestamp",
        _values("json", ("timestamp",), '"12:00:00"', '"T12:00:00"'),
        "todayT12:00:00.000000", "bad record", "a replay tomorrow would give other rows",
    ),
    Difference(
        "Years before 1 and after 9999",
        _values("json", ("date", "timestamp", "timestamp_ntz"), '"10000-01-01"', '"+12345-01-01"', '"-0044-03-15"'),
        "10000-01-01", "bad record", _YEARS,
    ),
    Difference(
        "Base64 with characters that are not of it",
        _values("json", ("binary",), '" "', '"\\u0000"'),
        "b''", "bad record", "it is not Base64",
    ),
    Difference(
        "Bad Base64 beside good values",
        _values("json", ("binary",), '"1"', '"epoch"', '"ü"'),
        "bad record", "bad record", "with `rescue` the good values beside it are kept",
    ),
    Difference(
        "An object as a text",
        _values("json", ("string",), '{"x": 1.50, "y": 1e3}', '{"x":1,"x":2}'),
        '{"x": 1.50, "y": 1e3}', '{"x":1.50,"y":1e3}', "the same value, without blanks and overridden keys",
    ),
    Difference(
        "A key twice in a map",
        _values("json", ("map<string, int>", "map<string, string>"), '{"x":1,"x":2}'),
        "[('x', 1), ('x', 2)]", "[('x', 2)]", "a map has a key once; the last counts, as with a struct",
    ),
    Difference(
        "A bad value within a struct",
        (
            *_values("json", ("struct<x: int>",), '{"x":"y"}', '{"x":[1.0,null,"ü"]}', '{"x": 1.50, "y": 1e3}'),
            *_values("json", ("struct<x: struct<y: int>>",), '{"x":1}', '{"x":"y"}', '{"x":1,"x":2}', '{"x":1,"y":2}',
                     '{"x":[1.0,null,"ü"]}', '{"x": 1.50, "y": 1e3}'),
        ),
        "bad record", "bad record", "with `rescue` the column is null and `_rescued_data` holds the whole struct",
    ),
    Difference(
        "What is not JSON",
        (*_files("json", b"{'a':1}"), *_values("json", JSON_TYPES, "'single'", "+Infinity")),
        "(1, None)", "bad (None, None)", "a format has one grammar",
    ),
    Difference(
        "Something behind the object",
        _files("json", b'{"a":1} x', b'{"a":1}}', b'{"a":1} // c', b'{"a":1}\x00'),
        "(1, None)", "bad (None, None)", _LOST,
    ),
    Difference(
        "Two objects in a line",
        _files("json", b'{"a":1}{"a":2}'),
        "(1, None)", "(1, None); (2, None)", _LOST,
    ),
    Difference(
        "Two objects in a document",
        _files("json", b'{"a":1}\n{"a":2}', multiline="true"),
        "(1, None)", "bad (None, None)", _LOST,
    ),
    Difference(
        "The line `null`",
        (*_files("json", b"null"), *_files("json", b"[null]", multiline="true")),
        "bad (None, None)", "(None, None)", _NOT_LOST,
    ),
    Difference(
        "A key twice, one value bad",
        _files("json", b'{"a":"x","a":2}', b'{"a":1,"a":"x"}'),
        "bad (2, None)", "(2, None)", "the last counts, the others are not looked at",
    ),
    Difference(
        "A line that is JSON up to some point",
        _files("json", rb'{"a":1,"b":"x\u12"}'),
        "bad (1, None)", "bad (None, None)", "half a record is none; `rescue` keeps the text of it all",
    ),
    Difference(
        "A document in UTF-16",
        _files("json", '[{"a":1,"b":"ü"}]'.encode("utf-16"), multiline="true"),
        "(1, 'ü')", "bad (None, None)", "JSON is UTF-8",
    ),
    Difference(
        "Blanks around a number",
        _values("csv", (*_INTEGERS, *_DECIMALS), " 1", "1 ", " 1 "),
        "bad record", "1", _NOT_LOST,
    ),
    Difference(
        "A number in hexadecimal", _values("csv", _INTEGERS, "0x10"), "bad record", "16", _NOT_LOST
    ),
    Difference(
        "A plus before a whole number",
        _values("csv", _INTEGERS, "+1"),
        "1", "bad record", "what is written so is more often a telephone number",
    ),
    Difference(
        "More spellings of what is no number",
        _values("csv", _FLOATS, "nan", "INF", "+Inf"),
        "bad record", "nan", _NOT_LOST,
    ),
    Difference(
        "A number with Java's mark of its type",
        _values("csv", _FLOATS, "1d", "1f"),
        "1.0", "bad record", "in data it is a unit or a code",
    ),
    Difference(
        "More digits behind the point than the column keeps",
        (
            *_values("csv", _DECIMALS[:1], "12.345", "0.001"),
            *_values("csv", _DECIMALS, "1e-400"),
            *_values("csv", _DECIMALS[2:], "1.5", "0.001", "12.345", "123456789012345678901234567.89", ".5"),
        ),
        "12.35", "bad record", _DIGITS,
    ),
    Difference(
        "Commas within a decimal",
        _values("csv", _DECIMALS, "1,234.5"),
        "1234.50", "bad record", "elsewhere the comma is the decimal point",
    ),
    Difference(
        "A time of day for a timestamp",
        _values("csv", ("timestamp",), "12:00:00"),
        "todayT12:00:00.000000", "bad record", "a replay tomorrow would give other rows",
    ),
    Difference(
        "Years before 1 and after 9999",
        _values("csv", ("date", "timestamp", "timestamp_ntz"), "10000-01-01"),
        "10000-01-01", "bad record", _YEARS,
    ),
    Difference(
        "A quote that is never closed",
        (
            *_files("csv", b'a,b\n1,"open\n2,y\n', b'a,b\n1,"x\ny"\n2,z\n'),
            *_files("csv", b'a,b\n1,"open\n2,y\n', multiline="true"),
            *_values("csv", CSV_TYPES, '"open'),
        ),
        "(1, 'open'); (2, 'y')", "bad (None, None); (2, 'y')", "part of the value, or of the file, is missing",
    ),
    Difference(
        "Something behind a closing quote",
        _files("csv", b'a,b\n1,"x"y\n'),
        "(1, '\"x\"y')", "(1, 'xy')", "no writer makes it; Arrow takes both parts",
    ),
    Difference(
        "Columns in another order than the schema's",
        _files("csv", b"b,a\nx,1\n"),
        "bad (None, '1')", "(1, 'x')", "columns are found by name, where there are names",
    ),
    Difference(
        "A column that the file lacks",
        (*_files("csv", b"a\n1\n"), *_files("csv", b"1\n2\n", header="false")),
        "bad (1, None)", "(1, None)", "a missing column is null",
    ),
    Difference(
        "A file with none of the columns",
        _files("csv", b"a;b\n1;x\n"),
        "bad (None, None)", "(None, None)", "a missing column is null",
    ),
    Difference(
        "A column that the schema lacks",
        _files("csv", b"a,b,c\n1,x,more\n"),
        "bad (1, 'x')", "(1, 'x')", "it is left out, or rescued",
    ),
    Difference(
        "Bytes that are not in the encoding",
        _files("csv", b"a,b\n1,\xff\n"),
        "(1, '�')", "bad (None, None)", "a text that was changed without a word is wrong",
    ),
    Difference(
        "A quote doubled within quotes, by default",
        _files("csv", b'a,b\n1,"q""q"\n'),
        "(1, '\"q\"\"q\"')", "(1, 'q\"q')", "RFC 4180; Spark's default is `escape=\\`",
    ),
    Difference(
        "An empty value that `null_values` does not name",
        _files("csv", b"a|b\n-|-\n1|\n", delimiter="|", null_values="-"),
        "(None, None); (1, None)", "(None, None); (1, '')", "`null_values` says what is null",
    ),
    Difference(
        "A carriage return within quotes",
        _files("csv", b'a,b\r\n1,"x\r\ny"\r\n2,z\r\n', multiline="true"),
        "(1, 'x\\ny'); (2, 'z')", "(1, 'x\\r\\ny'); (2, 'z')", "a value is as it was written",
    ),
    Difference(
        "Bytes that are not UTF-8",
        _files("text", b"a\n\xff\n"),
        "('a',); ('\\\\xff',)", "bad (None,)", "what reads it next would fail",
    ),
]  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(page())
