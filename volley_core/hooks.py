"""The moments in a query's life that other packages may listen to.

A hook plugin is a module or object with functions marked `@hookimpl`, registered under the entry-point group
`volley.hooks`. Hooks run where the moment happens: `query_started` and `query_ended` in the user's process, the rest
in the processes that Spark keeps for the driver side of a source or sink. A hook that raises is logged and ignored:
it can never fail a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pluggy

PROJECT = "volley"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def query_started(query_id: str, run_id: str, name: str | None) -> None:
    """A query began to run. Called again, with another run id, each time it is restarted."""


@hookspec
def epoch_planned(connector_id: str, start: Mapping[str, Any], end: Mapping[str, Any], splits: int) -> None:
    """A source's next epoch is fixed. Called again when an epoch is replayed."""


@hookspec
def epoch_committed(connector_id: str, query_id: str, epoch: int, rows: int, seconds: float) -> None:
    """A sink published an epoch. Its tasks wrote `rows`; the driver's part of the commit took `seconds`."""


@hookspec
def bad_records(connector_id: str, origin: str, count: int, reason: str) -> None:
    """Input that could not be read was dropped, rescued or put aside."""


@hookspec
def query_ended(query_id: str, run_id: str, error: str | None) -> None:
    """A query stopped; `error` is None if that was asked for."""
