"""The reader and writer alone, without a session: what crosses them is what was given."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from volley_connectors.connection import Connection
from volley_connectors.memory import MemorySource
from volley_connectors.spark.reader import VolleyStreamReader
from volley_connectors.spark.types import spark_schema
from volley_core import ConfigError, StreamRecord

SCHEMA = StructType([StructField("id", LongType())])


class Given:
    """A source that gives the batches it was made with."""

    connector_id = "given"

    def __init__(self, *batches: pa.RecordBatch) -> None:
        self._batches = batches

    def read(self, split):
        return (StreamRecord(batch) for batch in self._batches)

    def close(self):
        self.closed = True


@pytest.fixture
def channel(tmp_path):
    with MemorySource.handle(tmp_path.name) as handle:
        handle.push(pa.record_batch([[1]], names=["id"]))
        yield tmp_path.name


def test_batches_pass_as_the_same_objects_neither_copied_nor_split(channel, monkeypatch):
    batches = [pa.record_batch([pa.array(range(size), pa.int64())], names=["id"]) for size in (1, 100_000)]
    source = Given(*batches)
    monkeypatch.setattr(Connection, "source", lambda self: source)
    reader = VolleyStreamReader({"connector": "memory", "name": channel}, SCHEMA)
    read = list(reader.read(InputPartition(None)))
    assert [id(batch) for batch in read] == [id(batch) for batch in batches]
    assert source.closed


def test_a_batch_without_rows_does_not_cross(channel, monkeypatch):
    monkeypatch.setattr(Connection, "source", lambda self: Given(pa.record_batch([pa.array([], pa.int64())], ["id"])))
    reader = VolleyStreamReader({"connector": "memory", "name": channel}, SCHEMA)
    assert list(reader.read(InputPartition(None))) == []


def test_a_reader_travels_to_its_tasks_without_its_source(channel):
    reader = VolleyStreamReader({"connector": "memory", "name": channel}, SCHEMA)
    assert reader.initialOffset() == {"next": 0}
    assert "_source" in vars(reader)
    travelled = pickle.loads(pickle.dumps(reader))
    assert set(vars(travelled)) == {"_options", "_schema"}
    (partition,) = reader.partitions({"next": 0}, {"next": 1})
    assert [batch.column(0).to_pylist() for batch in travelled.read(partition)] == [[1]]


def test_a_type_that_spark_lacks_is_named_with_its_column():
    with pytest.raises(ConfigError, match="acme: column 'took' has Arrow type .*, which Spark does not have"):
        spark_schema(pa.schema([("took", pa.float16()), ("id", pa.int64())]), "acme")
