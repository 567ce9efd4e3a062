"""Loads the hook plugins of this process once, and calls them so that none can fail a query."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import pluggy

from volley_connectors.registry import installed
from volley_core import hooks as specs
from volley_core.errors import BrokenConnectorError

log = logging.getLogger(__name__)


@cache
def manager() -> pluggy.PluginManager:
    """The hook plugins that are installed. pluggy's own loader is not used: one broken plugin would break them all."""
    plugins = pluggy.PluginManager(specs.PROJECT)
    plugins.add_hookspecs(specs)
    for row in installed("hooks"):
        try:
            plugins.register(row.load(), name=f"{row.distribution}:{row.name}")
        except (BrokenConnectorError, ValueError, pluggy.PluginValidationError) as error:
            log.warning("Hook plugin %s of %s is left out: %s", row.name, row.distribution, error)
    return plugins


def fire(moment: str, **facts: Any) -> None:
    """Tell every hook plugin of a moment. One that raises is logged, and the others still hear of it."""
    for implementation in getattr(manager().hook, moment).get_hookimpls():
        wanted = {name: facts[name] for name in implementation.argnames}
        try:
            implementation.function(**wanted)
        except Exception:
            log.exception("Hook %s of plugin %s failed", moment, implementation.plugin_name)
