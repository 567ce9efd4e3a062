"""Volley's contracts: values, protocols, errors, config, hooks. `volley_connectors` runs them.

A name is imported when it is first asked for: importing a small module of this package, as the command line does to
list connectors, must not wait for pydantic and pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volley_core.bad_records import BadRecord, BadRecords
    from volley_core.blobs import BlobRef, Notification
    from volley_core.config import ConnectorConfig, SinkConfig, SourceConfig
    from volley_core.errors import (
        AmbiguousConnectorError,
        BlobChangedError,
        BlobNotFoundError,
        BrokenConnectorError,
        ConfigError,
        DataError,
        DecodeError,
        MissingConnectorError,
        PipelineConflictError,
        SchemaChangedError,
        SinkError,
        TransientError,
        UnknownConnectorError,
        VolleyError,
    )
    from volley_core.hooks import hookimpl
    from volley_core.protocols import (
        BlobReader,
        BlobRemover,
        CuttingDecoder,
        Decoder,
        EpochContext,
        EpochSink,
        NotificationSource,
        Offset,
        Piece,
        PreparedSink,
        ReadLimit,
        ResumableSource,
        Sink,
        Source,
        Split,
        SplitSource,
        StagingSink,
        TolerantDecoder,
    )
    from volley_core.records import Barrier, Data, StreamElement, StreamRecord, TraceContext, Watermark
    from volley_core.units import ByteSize, Seconds

__all__ = [
    "AmbiguousConnectorError",
    "BadRecord",
    "BadRecords",
    "Barrier",
    "BlobChangedError",
    "BlobNotFoundError",
    "BlobReader",
    "BlobRef",
    "BlobRemover",
    "BrokenConnectorError",
    "ByteSize",
    "ConfigError",
    "ConnectorConfig",
    "CuttingDecoder",
    "Data",
    "DataError",
    "DecodeError",
    "Decoder",
    "EpochContext",
    "EpochSink",
    "MissingConnectorError",
    "Notification",
    "NotificationSource",
    "Offset",
    "Piece",
    "PipelineConflictError",
    "PreparedSink",
    "ReadLimit",
    "ResumableSource",
    "SchemaChangedError",
    "Seconds",
    "Sink",
    "SinkConfig",
    "SinkError",
    "Source",
    "SourceConfig",
    "Split",
    "SplitSource",
    "StagingSink",
    "StreamElement",
    "StreamRecord",
    "TolerantDecoder",
    "TraceContext",
    "TransientError",
    "UnknownConnectorError",
    "VolleyError",
    "Watermark",
    "hookimpl",
]

# The cheapest to import come first: an error class is found before pyarrow is.
_MODULES = ("errors", "bad_records", "blobs", "hooks", "units", "records", "protocols", "config")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            found = vars(import_module(f"{__name__}.{module}"))
            if name in found:
                globals()[name] = found[name]
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
