"""`spark.readStream.format("volley")`, `writeStream`, `read` and `write`: the one data source that Spark sees."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from volley_connectors.connection import Connection
from volley_connectors.spark.reader import VolleyReader, VolleyStreamReader
from volley_connectors.spark.types import spark_schema
from volley_connectors.spark.writer import VolleyStreamWriter, VolleyWriter


class VolleyDataSource(DataSource):
    """Holds the user's options, and hands them to a reader or writer. Spark pickles it between processes."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._plans_write = True

    def __getstate__(self) -> dict[str, Any]:
        # Only the process that plans a write makes its data source itself. The one that commits, which is asked for a
        # writer once per epoch, gets it pickled: there the sink need not be prepared again.
        return self.__dict__ | {"_plans_write": False}

    @classmethod
    def name(cls) -> str:
        return "volley"

    def schema(self) -> StructType:
        connection = Connection.parse("sources", self.options)
        source = connection.source()
        try:
            return spark_schema(source.schema(), connection.name)
        finally:
            source.close()

    def reader(self, schema: StructType) -> DataSourceReader:
        return VolleyReader(dict(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return VolleyStreamReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        writer = VolleyWriter(dict(self.options), schema, overwrite)
        writer.prepare()
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        writer = VolleyStreamWriter(dict(self.options), schema, overwrite)
        if self._plans_write:
            writer.prepare()
        return writer
