"""Files that Spark writes hold the rows that Spark reads."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from volley_connectors.registry import build
from volley_core.schema import parse_schema

DDL = (
    "id bigint, small smallint, flag boolean, real float, price decimal(38, 18), text string, raw binary, day date, "
    "moment timestamp, local timestamp_ntz, tags array<string>, geo struct<lat: double, city: string>, "
    "pairs map<string, int>"
)
MOMENT = dt.datetime(2024, 3, 31, 1, 59, 59, 999_999)
ROWS: list[Any] = [
    (
        n,
        -n,
        n % 2 == 0,
        n / 4,
        Decimal(f"{n}.000000000000000001"),
        f"text ü {n}",
        bytes([n % 256]),
        dt.date(1700, 1, 1) + dt.timedelta(days=n),
        (MOMENT + dt.timedelta(hours=n)).replace(tzinfo=dt.UTC),
        MOMENT + dt.timedelta(hours=n),
        [f"tag {n}", None],
        (n / 8, "Wien"),
        {"a": n},
    )
    for n in range(500)
] + [(None,) * 13]


@pytest.mark.parametrize(
    ("name", "conf"),
    [
        ("parquet", {"spark.sql.parquet.outputTimestampType": "INT96"}),
        ("parquet", {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}),
        ("orc", {}),
    ],
    ids=["parquet int96", "parquet", "orc"],
)
def test_what_spark_writes_is_read_as_spark_reads_it(
    spark: SparkSession, tmp_path: Path, name: str, conf: dict[str, str]
) -> None:
    before = {key: spark.conf.get(key) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        spark.createDataFrame(ROWS, DDL).coalesce(1).write.format(name).save(str(tmp_path / "out"))
    finally:
        for key, old in before.items():
            spark.conf.set(key, old)
    judged = spark.read.format(name).schema(DDL).load(str(tmp_path / "out")).toArrow().sort_by("id")
    (path,) = (tmp_path / "out").glob("part-*")
    decoder = build("decoders", name, {})
    schema = parse_schema(DDL)
    with path.open("rb") as file:
        found = pa.Table.from_batches(decoder.decode(file, schema), schema).sort_by("id")
        assert decoder.infer_schema(file).names == schema.names
    assert found.num_rows == len(ROWS)
    assert found.to_pylist() == judged.cast(schema).to_pylist()
