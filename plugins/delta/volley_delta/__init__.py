"""Delta Lake tables: an exactly-once sink that stands on delta-rs and needs no JAR."""

from volley_delta.sink import DeltaSink, DeltaSinkConfig

__all__ = ["DeltaSink", "DeltaSinkConfig"]
