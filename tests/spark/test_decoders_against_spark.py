"""The text decoders against Spark's own readers: the same rows for the same bytes, but for what the table names.

One Spark job reads many small cases: a list of values in one file for a type, or a folder of files for a schema.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.decoder_differences import CSV_TYPES, DIFFERENCES, JSON_TYPES, PAGE, Case, page, shown
from volley_connectors.registry import build
from volley_core import BadRecord, BadRecords, DecodeError
from volley_core.schema import parse_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CORRUPT = "_corrupt"
_EXTRAS = "_extras"
Rows = list[tuple[Any, ...]]
"""Each row's values, and behind them whether it is a bad record."""

JSON_VALUES = r"""
null|true|false|tru|nul|0|-0|1|-1|01|+1|.5|1.|127|128|-129|32768|2147483648|9223372036854775807|9223372036854775808
-9223372036854775809|1.0|1.5|-0.0|1e2|1E400|1e-400|1.7976931348623157e308|123456789012345678901234567.89
123456789012345678901234567890123456789|0.1|0.001|12.50|12.345|1e20|NaN|Infinity|-Infinity|+Infinity|INF|"NaN"
"Infinity"|"-Infinity"|"+INF"|"INF"|"-INF"|"nan"|"1"|"1.5"|" 1 "|"1,234.5"|"1e2"|"1_000"|"true"|"True"|""|" "|"abc"
"2024-02-29"|"2024-02-30"|"2024-1-1"|"2024-01"|"2024"|"2024-01-01T12:00:00"|"2024-01-01T12:00:00Z"
"2024-01-01T12:00:00z"|"2024-01-01T12:00:00+02:00"|"2024-01-01T12:00:00+0200"|"2024-01-01T12:00:00+02"
"2024-01-01 12:00:00"|"2024-01-01 12:00:00 Z"|"2024-01-01 12:00:00.1"|"2024-01-01T12:00:00.123456789Z"
"2024-01-01T12:00:00,5Z"|"2024-01-01T12:00"|"2024-01-01T12"|"2024-01-01T24:00:00"|"2024-01-01T12:00:60"
"2024-01-01 12:00:00 Europe/Vienna"|"2024-01-01 12:00:00 Mars/Olympus"|"2024-01-01 12:00:00 UTC"
"2024-01-01 12:00:00 GMT+2"|" 2024-01-01 "|"12:00:00"|"T12:00:00"|"0001-01-01"|"0001-01-01T00:00:00Z"|"1582-10-10"
"9999-12-31T23:59:59.999999"|"9999-12-31T23:59:59.999999-10:00"|"10000-01-01"|"+12345-01-01"|"-0044-03-15"
"20240101"|"20240101T120000Z"|"2024-W01-1"|"1704067200"|"now"|"epoch"|1704067200|1704067200.5|"aGk="|"aGk"|"a Gk="|"?"
[]|[1]|[1,null]|[1,"x"]|["x"]|[[1]]|[null]|{}|{"x":1}|{"x":"y"}|{"x":null}|{"x":1,"x":2}|{"x":1,"y":2}|{"X":1}
{"x":[1.0,null,"ü"]}|{"x": 1.50, "y": 1e3}|"\u00fc"|"ü"|"\ud83d\ude00"|"\ud83d"|"\u0000"|"a\/b"|"q\"q"|'single'
"unterminated
""".strip().replace("\n", "|").split("|")  # fmt: skip
JSON_FILES = [
    *(b'{"a":1,"b":"x"}', b'{"a":1,}', b'{"a":1', b'{"a":1}}', b'[{"a":1}]', b'[{"a":1},{"a":2}]', b"[]", b"[1]"),
    *(b"1", b'"x"', b"null", b"", b"   ", b"\t", b'{"a":1}{"a":2}', b'{"a":1} x', b'{"a":1,"a":2}'),
    *(b'{"a":1,"a":"x"}', b'{"a":"x","a":2}', b'{"a":null,"a":2}', b'{"a":2,"a":null}', b'{"A":1}', b"{'a':1}"),
    *(b"{a:1}", b'{"a":1} // c', b'/* c */ {"a":1}', b'{"a" 1}', b'{"a":1 "b":"x"}', b'{"a":1;"b":"x"}'),
    *(b'{"a":tru}', b'{"b":"\xff"}', b'{"b":"a\xc3"}', b'{"a":1,"b":"x\x01y"}', rb'{"a":1,"b":"x\qy"}'),
    *(rb'{"a":1,"b":"x\u12"}', b'{"c":1}', b"{}", b'{"a":"bad","b":"good"}', b'{"a":1,"b":{"deep":[1,2,{"x":null}]}}'),
    *(b'{"a":1}\r\n{"a":2}\r\n', b'\xef\xbb\xbf{"a":5}', b'{"a":1}\x00', b"\x00", b'{"a":1,"b":"x\x00y"}'),
    *(b'{"a":"bad"', b'{"b":"x","a":', b'{"a":1,"unknown":bad}', b'{"a":1,"":"empty key"}', b'{"a":1,"b":true}'),
    *(b'  {"a":1}  ', b'{"a":1,,"b":"x"}', b'{,"a":1}', b'{"a":[1,2}', b'{"a":1]', rb'{"\u0061":7}', rb'{"b":"a\\"}'),
    *(b'{"a":-}', b'"a":1', b'{"a":1}\n\n \n{"a":2}', b'{"a":1}\r{"a":2}', b'{"a":1}\nbad\n{"a":2}', b"\xef\xbb\xbf"),
]
JSON_DOCUMENTS = [
    *(b'[{"a":1},{"a":2,"b":"x"}]', b'{\n"a":\n1}', b"[]", b"", b" \n", b'[{"a":1},\n\n{"a":2}\n]\n', b"[1]", b"1"),
    *(b'[{"a":1}', b'[{"a":1},]', b'[{"a":"x","b":"y"}]', b'\xef\xbb\xbf[{"a":1}]', b'{"a":1}\n{"a":2}', b"[null]"),
    *(b'{"b":"\xff"}', '[{"a":1,"b":"ü"}]'.encode("utf-16")),
]
CSV_VALUES = """
1|-1|+1|127|128|2147483648|9223372036854775808|1.0|1.5|-0.0|1e2|1E400|1e-400|0.001|12.345
123456789012345678901234567.89|1,234.5|NaN|nan|Inf|INF|Infinity|-Infinity|-Inf|+Inf| 1|1 | 1 |true|True|TRUE|false|t|0
yes|abc|||""| |"a b"|" "|2024-02-29|2024-02-30|2024-1-1|2024-01|2024|2024-01-01T12:00:00|2024-01-01T12:00:00Z
2024-01-01T12:00:00z|2024-01-01T12:00:00+02:00|2024-01-01T12:00:00+0200|2024-01-01T12:00:00+02|2024-01-01 12:00:00
2024-01-01 12:00:00.1|2024-01-01T12:00:00.123456789Z|2024-01-01T12:00|2024-01-01T12|2024-01-01T24:00:00
2024-01-01 12:00:00 Europe/Vienna| 2024-01-01 |12:00:00|0001-01-01|1582-10-10|9999-12-31T23:59:59.999999|10000-01-01
20240101|1704067200|aGk=|?|0x10|1_000|1L|1f|1d|.5|5.|1e|--1|null|NULL|ü|"q""q"|a"b|a\\b|"open
""".strip("\n").replace("\n", "|").split("|")  # fmt: skip
CSV_FILES = [
    *(b"a,b\n1,x\n", b"b,a\nx,1\n", b"a,b\r\n1,x\r\n", b"a,b\r1,x\r", b"\n\na,b\n\n1,x\n\n2,y", b"a,b\n1\n"),
    *(b"a,b\n1,x,y\n", b'a,b\n1,"x,y"\n', b'a,b\n1,"x""y"\n', b'a,b\n1,""\n', b'a,b\n1,"open\n2,y\n', b"a,b\n1, x \n"),
    *(b'a,b\n1,5" pipe\n', b"a,b\n \n1,x\n", b"\xef\xbb\xbfa,b\n1,x\n", b"a,b\n", b"a,b", b"", b"\n", b"a\n1\n"),
    *(b"a,b,c\n1,x,more\n", b"A,B\n1,x\n", b"a,b\nbad,x\n", b"a,b\n#1,x\n", b"a,b\n1,'x'\n", b'a,b\n1,"x"y\n'),
    *(b"a,b\n1,x\x00y\n", b"a,b\n1,\xff\n", b"a,b\n1,x\\\n", b'a,b\n"1",x\n', b"a,b\n,\n", b'"a","b"\n1,x\n'),
    *(b'a,b\n1,"x\ny"\n2,z\n', b"a,b\n1,x\nbad,y,z\n3,z\n", b"a;b\n1;x\n", b" a,b\n1,x\n", b"a,b\n1,x,\n"),
]
CSV_MULTILINE = [
    *(b'a,b\n1,"x\ny"\n2,z\n', b'a,b\r\n1,"x\r\ny"\r\n2,z\r\n', b'a,b\n1,"x\n\n y"\n', b'a,b\n1,"open\n2,y\n'),
    *(b'a,b\n1,5" pipe\n2,"x\ny"\n', b'"a",\n"b"\n', b'a,b\n1,"x"\n\n2,"y,\n"\n'),
]
CSV_COMMENTS = [b"#c\na,b\n#x\n1,x\n", b"a,b\n #no,x\n", b"a,b\n1,#x\n", b"a,b\n1,x\n#", b'a,b\n"#1",x\n']
TEXT_FILES = [b"a\nb\n", b"a\r\nb", b"a\rb\r", b"\n\n", b"", b"a\x00b", b"a\n\xff\n", b"\xef\xbb\xbfa\n", b" a \n\tb"]


@dataclass(frozen=True)
class Group:
    """Files that one Spark job reads."""

    format: str
    ddl: str
    files: Sequence[bytes]
    ours: dict[str, str] = field(default_factory=dict)
    sparks: dict[str, str] = field(default_factory=dict)

    def cases(self) -> list[Case]:
        return [Case(self.format, self.ddl, text, tuple(self.ours.items())) for text in self.files]


RFC_4180 = {"header": "true", "escape": '"'}
GROUPS = {
    "json lines": Group("json", "a int, b string", JSON_FILES),
    "json documents": Group("json", "a int, b string", JSON_DOCUMENTS, {"multiline": "true"}, {"multiLine": "true"}),
    "csv": Group("csv", "a int, b string", CSV_FILES, {}, RFC_4180),
    "csv, multi-line": Group(
        "csv", "a int, b string", CSV_MULTILINE, {"multiline": "true"}, RFC_4180 | {"multiLine": "true"}
    ),
    "csv, comments": Group("csv", "a int, b string", CSV_COMMENTS, {"comment": "#"}, RFC_4180 | {"comment": "#"}),
    "csv, backslash": Group(
        "csv", "a int, b string", [rb'a,b%b1,"q\"q"%b2,"a\\b"' % (b"\n", b"\n")], {"escape": "\\"}, {"header": "true"}
    ),
    "csv, default escape": Group("csv", "a int, b string", [b'a,b\n1,"q""q"\n'], {}, {"header": "true"}),
    "csv, latin-1": Group(
        "csv", "a int, b string", ["a,b\n1,ü\n".encode("latin-1")], {"encoding": "latin-1"},
        RFC_4180 | {"encoding": "ISO-8859-1"},
    ),
    "csv, utf-16": Group(
        "csv", "a int, b string", ["a,b\n1,ü\n2,y\n".encode("utf-16")], {"encoding": "utf-16"},
        RFC_4180 | {"encoding": "UTF-16", "multiLine": "true"},
    ),
    "csv, nulls and delimiter": Group(
        "csv", "a int, b string", [b"a|b\n-|-\n1|\n"], {"delimiter": "|", "null_values": "-"},
        RFC_4180 | {"sep": "|", "nullValue": "-"},
    ),
    "csv, no header": Group(
        "csv", "a int, b string", [b"1,x\n2,y\n", b"1\n2\n"], {"header": "false"}, {"escape": '"'}
    ),
    "text": Group("text", "value string", TEXT_FILES),
}  # fmt: skip


@pytest.mark.parametrize("kind", JSON_TYPES)
def test_json_values(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    records = [b'{"i":%d,"a":%b}\n' % (number, value.encode()) for number, value in enumerate(JSON_VALUES)]
    _values_agree(spark, tmp_path, Group("json", f"i int, a {kind}", records), kind, JSON_VALUES)


@pytest.mark.parametrize("kind", CSV_TYPES)
def test_csv_values(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    records = [b"%d;%b\n" % (number, value.encode()) for number, value in enumerate(CSV_VALUES)]
    options = {"header": "false", "delimiter": ";"}
    group = Group("csv", f"i int, a {kind}", records, options, options | {"escape": '"'})
    _values_agree(spark, tmp_path, group, kind, CSV_VALUES)


def _values_agree(spark: SparkSession, folder: Path, group: Group, kind: str, values: list[str]) -> None:
    (folder / "values").write_bytes(b"".join(group.files))
    sparks = _rows(_read(spark, group, str(folder / "values")).toArrow())
    found = {}
    for record, value, theirs in zip(group.files, values, sparks, strict=True):
        found[Case(group.format, kind, value.encode())] = ([theirs], _ours(group, record))
    # The first column only tells where a row belongs; whether it survives beside a bad value is seen there too.
    _only_known_differences(found, {case for entry in DIFFERENCES for case in entry.cases if case.ddl == kind})


@pytest.mark.parametrize("name", GROUPS)
def test_files(spark: SparkSession, tmp_path: Path, name: str) -> None:
    group = GROUPS[name]
    for number, data in enumerate(group.files):
        (tmp_path / f"{number:03d}").write_bytes(data)
    table = _read(spark, group, str(tmp_path)).select("*", "_metadata.file_name").toArrow()
    names = table["file_name"].to_pylist()
    sparks = _rows(table.drop(["file_name"]))
    found = {}
    for number, case in enumerate(group.cases()):
        theirs = [row for row, file in zip(sparks, names, strict=True) if file == f"{number:03d}"]
        found[case] = (theirs, _ours(group, case.text))
    _only_known_differences(found, set(group.cases()))


@pytest.mark.parametrize("seed", range(4))
def test_generated_json(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    group = Group("json", "id bigint, t string, x double, d decimal(20,4), at timestamp, ok boolean, s struct<a: int, "
                  "b: array<string>>, m map<string, double>, day date", [])  # fmt: skip
    lines = [json.dumps(_record(chance), ensure_ascii=chance.random() < 0.5) for _ in range(500)]
    data = (chance.choice(["\n", "\r\n"]).join(lines)).encode()
    (tmp_path / "data").write_bytes(data)
    assert _ours(group, data) == _rows(_read(spark, group, str(tmp_path / "data")).toArrow())


@pytest.mark.parametrize("seed", range(4))
def test_generated_csv(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    group = Group("csv", "id bigint, t string, x double, d decimal(20,4), at timestamp, ok boolean, day date", [], {},
                  RFC_4180)  # fmt: skip
    end = chance.choice(["\n", "\r\n"])
    names = parse_schema(group.ddl).names
    lines = [",".join(names)]
    for _ in range(500):
        record = _record(chance)
        lines.append(",".join(_csv(record.get(name), chance) for name in names))
    data = end.join(lines).encode()
    (tmp_path / "data").write_bytes(data)
    assert _ours(group, data) == _rows(_read(spark, group, str(tmp_path / "data")).toArrow())


@pytest.mark.parametrize("name", ["json lines", "csv"])
def test_failing_and_dropping_follow_spark_too(spark: SparkSession, tmp_path: Path, name: str) -> None:
    group = GROUPS[name]
    good, bad = {"json": (b'{"a":1}\n', b'{"a":"x"}\n'), "csv": (b"1,\n", b"x,\n")}[group.format]
    path = tmp_path / "data"
    path.write_bytes((b"a,b\n" if group.format == "csv" else b"") + good + bad + good)
    schema = parse_schema(group.ddl)
    read = spark.read.schema(group.ddl).options(**group.sparks).format(group.format)
    with pytest.raises(Exception, match="FAILFAST|MALFORMED"):
        read.option("mode", "FAILFAST").load(str(path)).collect()
    decoder = build("decoders", group.format, group.ours)
    with pytest.raises(DecodeError):
        list(decoder.decode(io.BytesIO(path.read_bytes()), schema))
    dropped = read.option("mode", "DROPMALFORMED").load(str(path)).toArrow().to_pylist()
    ignored: list[BadRecord] = []
    batches = decoder.decode_tolerantly(io.BytesIO(path.read_bytes()), schema, BadRecords(ignored.append))
    assert [row for batch in batches for row in batch.to_pylist()] == dropped == [{"a": 1, "b": None}] * 2
    assert [record.row for record in ignored] == [2]


def test_every_difference_is_tried() -> None:
    tried = {Case("json", kind, value.encode()) for kind in JSON_TYPES for value in JSON_VALUES}
    tried |= {Case("csv", kind, value.encode()) for kind in CSV_TYPES for value in CSV_VALUES}
    tried |= {case for group in GROUPS.values() for case in group.cases()}
    assert [case for entry in DIFFERENCES for case in entry.cases if case not in tried] == []


def test_the_page_of_differences_is_fresh() -> None:
    assert PAGE.read_text() == page(), "Run: python -m tests.spark.decoder_differences"


def _only_known_differences(found: dict[Case, tuple[Rows, Rows]], candidates: Iterable[Case]) -> None:
    """What differs is what the table names, and the table's examples are as it shows them."""
    named = {case: entry for entry in DIFFERENCES for case in entry.cases}
    expected = {case for case in candidates if case in named and case in found}
    differing = {case: rows for case, rows in found.items() if repr(rows[0]) != repr(rows[1])}
    unnamed = [(case, *differing[case]) for case in differing if case not in expected]
    gone = [case for case in expected if case not in differing]
    assert (unnamed, gone) == ([], [])
    for case, (theirs, ours) in found.items():
        if case in named and case == named[case].cases[0]:
            entry = named[case]
            assert (entry.spark, entry.volley) == (shown(case, theirs), shown(case, ours)), entry.what


def _read(spark: SparkSession, group: Group, path: str) -> DataFrame:
    if group.format == "text":
        return spark.read.text(path)
    read = spark.read.schema(f"{group.ddl}, {_CORRUPT} string").option("columnNameOfCorruptRecord", _CORRUPT)
    return read.option("timeZone", "UTC").options(**group.sparks).format(group.format).load(path)


def _ours(group: Group, data: bytes) -> Rows:
    """What `on_bad_record=rescue` makes of it. A file that is refused as a whole is one bad record."""
    bad: list[BadRecord] = []
    decoder = build("decoders", group.format, group.ours)
    try:
        if group.format == "text":
            batches = list(decoder.decode(io.BytesIO(data), parse_schema(group.ddl)))
        else:
            schema = parse_schema(f"{group.ddl}, {_EXTRAS} string")
            how = BadRecords(bad.append, extras=_EXTRAS, rescue=True)
            batches = list(decoder.decode_tolerantly(io.BytesIO(data), schema, how))
    except DecodeError:
        return [(*[None] * len(parse_schema(group.ddl)), True)]
    numbers = {record.row for record in bad}
    rows = [row for batch in batches for row in zip(*map(_comparable, batch.columns), strict=True)]
    width = len(parse_schema(group.ddl))
    return [(*row[:width], number in numbers) for number, row in enumerate(rows, 1)]


def _rows(table: pa.Table) -> Rows:
    names = [name for name in table.column_names if name != _CORRUPT]
    columns = [_comparable(table[name].combine_chunks()) for name in names]
    corrupt = table[_CORRUPT].cast(pa.binary()).is_valid().to_pylist() if _CORRUPT in table.column_names else None
    return list(zip(*columns, corrupt or [False] * table.num_rows, strict=True))


def _comparable(array: pa.Array) -> list[Any]:
    """Values in which years beyond Python's and texts that are not UTF-8 have a place, and NaN equals itself."""
    if pa.types.is_timestamp(array.type):
        return list(array.cast(pa.int64()).to_pylist())
    if pa.types.is_date(array.type):
        return list(array.cast(pa.int32()).to_pylist())
    if pa.types.is_string(array.type):
        texts = array.cast(pa.binary()).to_pylist()
        return [None if text is None else text.decode(errors="backslashreplace") for text in texts]
    return list(array.to_pylist())


def _record(chance: random.Random) -> dict[str, Any]:
    text = "".join(chance.choice("aZ 9,;'\"\\/\t{}[]:üß€😀") for _ in range(chance.randint(1, 12))).strip() or "x"
    second = f"{chance.randrange(1, 9999):04d}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}T10:20:30"
    values = {
        "id": chance.choice([chance.randrange(-(2**63), 2**63), chance.randrange(100)]),
        "t": text,
        "x": chance.choice([chance.uniform(-1e9, 1e9), chance.uniform(-1, 1) * 1e-300, float(chance.randrange(9))]),
        "d": chance.choice(["1.5", "-0.0001", "9999999999999999.9999", "12"]),
        "at": second + chance.choice(["", "Z", "+05:30", ".5", ".123456Z", ".1234567"]),
        "ok": chance.random() < 0.5,
        "s": {"a": chance.randrange(100), "b": [text, None][: chance.randint(0, 2)], "more": [{}]},
        "m": {text: 1.5, "k": None},
        "day": second[:10],
        "unknown": {"deep": [1, {"x": text}]},
    }
    return {name: None if chance.random() < 0.1 else value for name, value in values.items() if chance.random() < 0.9}


def _csv(value: Any, chance: random.Random) -> str:
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    quoted = any(mark in text for mark in ',"') or chance.random() < 0.2
    return '"' + text.replace('"', '""') + '"' if quoted else text
