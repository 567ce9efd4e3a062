"""Runs Volley connectors, alone or inside Spark."""

from volley_connectors.registry import build, find, installed, load

__version__ = "0.1.0"
__all__ = ["build", "find", "installed", "load"]
