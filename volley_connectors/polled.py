"""What every SplitSource over a polled `Source` has in common."""

from __future__ import annotations

import pyarrow as pa

from volley_core import Source


class PolledSource:
    """Passes on what the polled source knows of itself."""

    def __init__(self, source: Source) -> None:
        self._polled = source

    @property
    def connector_id(self) -> str:
        return self._polled.connector_id

    def schema(self) -> pa.Schema:
        return self._polled.schema()

    def close(self) -> None:
        # A polled source need not have anything to close.
        close = getattr(self._polled, "close", None)
        if close is not None:
            close()
