"""Connectors without a server: batches pushed from a test or notebook, rows read back or counted."""

from volley_connectors.memory.count import CountSink, CountSinkConfig
from volley_connectors.memory.sink import MemorySink, MemorySinkConfig
from volley_connectors.memory.source import MemorySource, MemorySourceConfig

__all__ = ["CountSink", "CountSinkConfig", "MemorySink", "MemorySinkConfig", "MemorySource", "MemorySourceConfig"]
