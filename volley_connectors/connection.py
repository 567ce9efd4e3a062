"""What a user's Spark options name: one connector and its config.

Everything that a connector needs in another process travels as these options: they work on classic Spark, on Spark
Connect and from SQL alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from volley_connectors.drain import DrainSource
from volley_connectors.registry import find, installed, parse_config
from volley_connectors.spool import SpoolSource
from volley_core import ConfigError, ReadLimit, Sink, SinkConfig, Source, SourceConfig, SplitSource

# Spark adds these to a stream writer's options; the rest are the user's.
_SPARK_OPTIONS = ("checkpointlocation", "queryname")
_UNSAFE_OPTIONS = {
    "asyncprogresstrackingenabled": "it reports epochs as done too early, and what was read would be acknowledged",
}


@dataclass(frozen=True)
class Connection:
    """A connector's class and its parsed options. Made anew in each process; parsing touches no network."""

    name: str
    connector: type[Any]
    config: Any
    batch: bool = False
    """One batch read: there are no later epochs to remember anything for."""

    @classmethod
    def parse(cls, kind: str, options: Mapping[str, str], schema: pa.Schema | None = None) -> Connection:
        """Validate the options of a source or sink. `schema` is what the user told Spark, if anything."""
        rest = {key: value for key, value in options.items() if key.lower() not in _SPARK_OPTIONS}
        for key, reason in _UNSAFE_OPTIONS.items():
            if str(rest.pop(key, "false")).lower() == "true":
                raise ConfigError(f"Option {key!r} cannot be used with Volley: {reason}. Remove it.")
        name = rest.pop("connector", None)
        if name is None:
            names = ", ".join(row.name for row in installed(kind)) or "none"
            raise ConfigError(f"Option 'connector' is required: the name of one of the installed {kind} ({names}).")
        row = find(kind, name)
        connector = row.load()
        config = parse_config(connector, row.name, rest)
        expected = SourceConfig if kind == "sources" else SinkConfig
        if not isinstance(config, expected):
            raise ConfigError(
                f"Connector {row.name!r} of {row.distribution}: its Config must derive from {expected.__name__}."
            )
        if isinstance(config, SourceConfig) and config.schema is None and schema is not None:
            config = config.with_schema(schema)
        return cls(row.name, connector, config)

    def source(self) -> SplitSource:
        """The connector as a SplitSource; a polled `Source` behind a spool, or drained in one go for a batch."""
        made = self.connector(self.config)
        if isinstance(made, SplitSource):
            return made
        if isinstance(made, Source):
            return DrainSource(made) if self.batch else SpoolSource(made, self.config)
        raise ConfigError(f"Connector {self.name!r} is neither a Source nor a SplitSource; see volley_core.protocols.")

    def sink(self) -> Sink:
        made = self.connector(self.config)
        if not isinstance(made, Sink):
            raise ConfigError(f"Connector {self.name!r} is not a Sink; see volley_core.protocols.")
        return made

    def for_batch(self) -> Connection:
        """The same connection for one batch read, which must neither follow nor disturb a stream's memory."""
        return Connection(self.name, self.connector, self.config.detached(), batch=True)

    @property
    def read_limit(self) -> ReadLimit:
        """The user's bounds on one epoch, all together."""
        return ReadLimit(
            self.config.max_files_per_trigger, self.config.max_bytes_per_trigger, self.config.max_rows_per_trigger
        )
