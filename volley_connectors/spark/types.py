"""Spark's schemas and Arrow's, each from the other."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from volley_core import ConfigError


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark expects of batches with this schema; timestamps in UTC."""
    return to_arrow_schema(schema, timezone="UTC")


def spark_schema(schema: pa.Schema, origin: str) -> StructType:
    """The Spark schema of a source. A type that Spark lacks is an error that names the column."""
    fields = []
    for field in schema:
        try:
            kind = from_arrow_type(field.type, prefer_timestamp_ntz=True)
        except Exception as error:
            raise ConfigError(
                f"{origin}: column {field.name!r} has Arrow type {field.type}, which Spark does not have. "
                "Declare another type for it with the option 'schema'."
            ) from error
        fields.append(StructField(field.name, kind, field.nullable))
    return StructType(fields)
