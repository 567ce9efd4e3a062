"""What a user does wrong gives one clear error, before any task runs, that says what to do; and no secret in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from volley_connectors import registry
from volley_connectors.connection import Connection

SECRET = "hush-hush-4711"


def load(spark, **options):
    return spark.read.format("volley").options(**options).load()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"Option 'connector' is required: .*ticker"),
        ({"connector": "tiker"}, r"There is no source named 'tiker'\. Did you mean 'ticker'\?"),
        ({"connector": "count"}, r"'count' is a sink, not a source"),
        ({"connector": "acme-broken"}, r"acme-connectors 1.0 is installed but cannot be imported .*libacme\.so\.3"),
        ({"connector": "range", "rws": "3"}, r"Connector 'range': Unknown option 'rws'\. Did you mean 'rows'\?"),
        ({"connector": "range", "rows": "many"}, r"Connector 'range': Option 'rows' = 'many': .*integer"),
        ({"connector": "ticker"}, r"Connector 'ticker': Option 'path' is required: A directory"),
        (
            {"connector": "range", "max_bytes_per_trigger": "12 parsecs"},
            r"'12 parsecs': expected a number and a unit such as '128 MB'",
        ),
    ],
)
def test_wrong_options_of_a_source_fail_when_it_is_defined(spark, options, message):
    with pytest.raises(Exception, match=message):
        load(spark, **options)


def test_a_connector_whose_package_is_missing_gives_the_install_line(spark, monkeypatch):
    monkeypatch.setattr(registry, "_rows", lambda kind, path: ())
    with pytest.raises(Exception, match=r"Run: pip install 'volley-connectors\[blob-store\]'"):
        Connection.parse("sources", {"connector": "files"})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("idd bigint", r"column 'idd' is declared but the source has none of that name\. Did you mean 'id'\?"),
        ("id array<int>", r"column 'id' is declared as list<.*> but the source gives int64"),
    ],
)
def test_a_wrong_schema_fails_before_any_task(spark, schema, message):
    frame = spark.read.format("volley").option("connector", "range").schema(schema).load()
    with pytest.raises(Exception, match=message):
        frame.collect()


def test_rows_that_do_not_fit_name_the_source(spark):
    frame = load(spark, connector="range", wrong_type="true").selectExpr("max(id)")
    assert frame.first()[0] == 99, "text that holds numbers can be cast"
    narrow = spark.read.format("volley").options(connector="range", rows=1000).schema("id tinyint").load()
    with pytest.raises(Exception, match="range: rows do not fit the declared schema"):
        narrow.collect()


def test_wrong_options_of_a_sink_fail_the_query_before_any_task(spark, tmp_path, checkpoint):
    frame = spark.readStream.format("volley").option("connector", "range").load()
    writer = frame.writeStream.format("volley").options(connector="log", pth=str(tmp_path))
    query = writer.option("checkpointLocation", checkpoint).start()
    with pytest.raises(Exception, match=r"Connector 'log': Unknown option 'pth'\. Did you mean 'path'\?"):
        query.awaitTermination()


def test_async_progress_tracking_is_refused(spark, tmp_path, checkpoint):
    frame = spark.readStream.format("volley").option("connector", "range").load()
    writer = frame.writeStream.format("volley").options(connector="log", path=str(tmp_path))
    with pytest.raises(Exception, match="(?i)async"):
        writer.options(asyncProgressTrackingEnabled="true", checkpointLocation=checkpoint).start().awaitTermination()


def test_a_polled_source_without_state_location_is_told_to_give_one(spark, tmp_path, checkpoint):
    (tmp_path / "rows").write_text("5")
    frame = spark.readStream.format("volley").options(connector="ticker", path=str(tmp_path)).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    with pytest.raises(Exception, match="option 'state_location' is required"):
        query.awaitTermination()


def test_a_secret_is_in_no_plan_offset_progress_or_error(spark, tmp_path, checkpoint, capfd):
    (tmp_path / "rows").write_text("5")
    options = {"connector": "ticker", "path": str(tmp_path), "api_token": SECRET}
    frame = spark.readStream.format("volley").options(**options, state_location=str(tmp_path / "state")).load()
    frame.explain(extended=True)
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    query.explain(extended=True)
    seen = capfd.readouterr()
    assert SECRET not in seen.out + seen.err
    assert SECRET not in str(query.recentProgress)
    written = [path for place in (checkpoint, tmp_path) for path in _files(place)]
    assert len(written) > 3
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]
    with pytest.raises(Exception, match="Unknown option 'batches'") as failure:
        load(spark, **options, batches=1)
    assert SECRET not in str(failure.value)


def _files(place):
    return [path for path in Path(place).rglob("*") if path.is_file()]
