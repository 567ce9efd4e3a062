"""Batch reads and writes through the format `volley`, from Python and from SQL."""

from __future__ import annotations

import pyarrow as pa
import pytest

from volley_connectors.memory import MemorySink, MemorySource


@pytest.fixture
def channel(tmp_path):
    name = f"{tmp_path.name}-batch"
    with MemorySource.handle(name), MemorySink.handle(name):
        yield name


def test_a_source_is_read_whole(spark, channel):
    MemorySource.handle(channel).push([pa.record_batch([[1, 2]], names=["id"]), pa.record_batch([[3]], names=["id"])])
    frame = spark.read.format("volley").options(connector="memory", name=channel, max_files_per_trigger=1).load()
    assert sorted(row.id for row in frame.collect()) == [1, 2, 3]


def test_a_source_without_rows_gives_an_empty_frame_with_its_schema(spark, channel):
    frame = spark.read.format("volley").options(connector="memory", name=channel).schema("id bigint").load()
    assert frame.columns == ["id"]
    assert frame.collect() == []


def test_a_polled_source_is_read_until_it_has_no_more(spark, tmp_path):
    (tmp_path / "rows").write_text("37")
    frame = spark.read.format("volley").options(connector="ticker", path=str(tmp_path)).load()
    assert sorted(row.id for row in frame.collect()) == list(range(37))
    assert not (tmp_path / "acked").exists(), "a batch read acknowledges nothing"


def test_load_with_a_path_sets_the_option_path(spark, tmp_path):
    (tmp_path / "rows").write_text("3")
    assert spark.read.format("volley").option("connector", "ticker").load(str(tmp_path)).count() == 3


def test_a_temporary_view_passes_its_options(spark, tmp_path):
    (tmp_path / "rows").write_text("12")
    spark.sql(f"CREATE TEMPORARY VIEW ticks USING volley OPTIONS (connector 'ticker', path '{tmp_path}')")
    try:
        assert spark.sql("SELECT max(id) AS top FROM ticks").first().top == 11
    finally:
        spark.catalog.dropTempView("ticks")


def test_every_batch_write_appends(spark, channel):
    for first in (0, 5):
        frame = spark.range(first, first + 5)
        frame.write.format("volley").options(connector="memory", name=channel).mode("append").save()
    assert sorted(MemorySink.handle(channel).table()["id"].to_pylist()) == list(range(10))


def test_overwrite_replaces(spark, channel):
    for first in (0, 5):
        frame = spark.range(first, first + 5)
        frame.write.format("volley").options(connector="memory", name=channel).mode("overwrite").save()
    assert sorted(MemorySink.handle(channel).table()["id"].to_pylist()) == list(range(5, 10))


def test_a_failed_batch_write_leaves_nothing_visible(spark, channel):
    frame = spark.range(0, 10, numPartitions=2).selectExpr("if(id < 9, id, raise_error('boom')) as id")
    with pytest.raises(Exception, match="boom"):
        frame.write.format("volley").options(connector="memory", name=channel).mode("append").save()
    assert MemorySink.handle(channel).rows == 0


def test_types_that_spark_has_come_through_unharmed(spark, channel):
    sql = """SELECT 1Y AS b, 2S AS s, 3 AS i, 4L AS l, 1.5F AS f, 2.5D AS d, true AS t, 'ü🙂' AS u, X'00ff' AS bin,
             date'2020-02-29' AS day, timestamp'2020-02-29 12:00:00' AS at, timestamp_ntz'2020-02-29 12:00:00' AS ntz,
             1234567890.123456789BD AS dec, array(1, null) AS a, map('k', 1L) AS m,
             named_struct('x', 1, 'y', array(named_struct('z', 'deep'))) AS n, cast(null AS string) AS nothing"""
    frame = spark.sql(sql)
    frame.write.format("volley").options(connector="memory", name=channel).mode("append").save()
    table = MemorySink.handle(channel).table()
    MemorySource.handle(channel).push(table)
    back = spark.read.format("volley").options(connector="memory", name=channel).load()
    assert back.collect() == frame.collect()
    # Spark's nested types do not say whether nulls may occur once they have been through Arrow and back.
    assert [f.dataType.typeName() for f in back.schema] == [f.dataType.typeName() for f in frame.schema]
