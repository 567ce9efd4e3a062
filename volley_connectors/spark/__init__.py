"""Runs Volley connectors inside Spark. Importing this package does not import PySpark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volley_connectors.spark.sessions import session, tune

__all__ = ["session", "tune"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("volley_connectors.spark.sessions"), name)
