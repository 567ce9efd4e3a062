"""Finds connectors by name among the installed packages.

The catalogue is read from package metadata and imports nothing; a connector's module is imported when it is first
used, and one that fails to import spoils no other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from volley_connectors.known import KNOWN, find_known
from volley_core.errors import (
    AmbiguousConnectorError,
    BrokenConnectorError,
    ConfigError,
    MissingConnectorError,
    UnknownConnectorError,
)
from volley_core.names import canonical, did_you_mean

if TYPE_CHECKING:
    from volley_core.config import ConnectorConfig

KINDS = ("sources", "sinks", "notification_sources", "blob_readers", "decoders")
DISABLE_VARIABLE = "VOLLEY_DISABLE_CONNECTORS"


@dataclass(frozen=True, slots=True)
class Installed:
    """A connector that some installed package registers. Nothing of it has been imported."""

    kind: str
    name: str
    distribution: str
    version: str
    entry_point: EntryPoint

    def load(self) -> type[Any]:
        """Import the connector's class."""
        try:
            loaded: type[Any] = self.entry_point.load()
        except (Exception, SystemExit) as error:
            raise BrokenConnectorError(
                f"The {_singular(self.kind)} {self.name!r} of package {self.distribution} {self.version} is installed "
                f"but cannot be imported ({type(error).__name__}: {error}). Reinstall or remove {self.distribution}, "
                f"or hide it with {DISABLE_VARIABLE}={self.name}."
            ) from error
        return loaded


def disabled() -> set[str]:
    """The names, in canonical spelling, that the environment tells Volley to hide."""
    names = os.environ.get(DISABLE_VARIABLE, "").split(",")
    return {canonical(name.strip()) for name in names if name.strip()}


def installed(kind: str) -> list[Installed]:
    """Every connector of this kind that is installed and not disabled, duplicates included, by name."""
    hidden = disabled()
    return [row for row in _rows(kind, tuple(sys.path)) if canonical(row.name) not in hidden]


@lru_cache(maxsize=64)
def _rows(kind: str, path: tuple[str, ...]) -> tuple[Installed, ...]:
    """What the packages on the path register, read once: every task asks, and it takes 20 ms."""
    found = {
        # A checkout that is on the path and installed too shows its metadata twice.
        (point.name, point.value, point.dist.name if point.dist else ""): point
        for point in _entry_points(path).select(group=f"volley.{kind}")
    }
    rows = [
        Installed(
            kind,
            point.name,
            point.dist.name if point.dist else "unknown",
            point.dist.version if point.dist else "",
            point,
        )
        for point in found.values()
    ]
    return tuple(sorted(rows, key=lambda row: (row.name, row.distribution)))


@lru_cache(maxsize=8)
def _entry_points(path: tuple[str, ...]) -> Any:
    return entry_points()


def find(kind: str, name: str) -> Installed:
    """The one installed connector of this name, in any case and spelling."""
    rows = installed(kind)
    matches = [row for row in rows if canonical(row.name) == canonical(name)]
    if not matches:
        raise _not_found(kind, name, rows)
    if len(matches) > 1:
        owners = " and ".join(f"{row.distribution} {row.version}".strip() for row in matches)
        raise AmbiguousConnectorError(
            f"Two packages provide a {_singular(kind)} named {name!r}: {owners}. Uninstall one of them."
        )
    return matches[0]


def load(kind: str, name: str) -> type[Any]:
    """Import the connector of this name and return its class."""
    return find(kind, name).load()


def build(kind: str, name: str, options: Mapping[str, Any]) -> Any:
    """Import the connector, parse its options, return an instance."""
    cls = load(kind, name)
    return cls(parse_config(cls, name, options))


def parse_config(cls: type[Any], name: str, options: Mapping[str, Any]) -> ConnectorConfig:
    """The connector's own config out of options; an error names the connector."""
    config: type[ConnectorConfig] = cls.Config
    try:
        return config.from_options(options)
    except ConfigError as error:
        raise ConfigError(f"Connector {name!r}: {error} See: volley show {name}") from None


def _not_found(kind: str, name: str, rows: list[Installed]) -> ConfigError:
    what = _singular(kind)
    here = f"(installed: {', '.join(row.name for row in rows) or 'none'})"
    known = find_known(kind, name)
    if canonical(name) in disabled():
        then = f" If it is missing then, run: {known.install}" if known is not None and known.released else ""
        return MissingConnectorError(f"The {what} {name!r} is hidden {here}. Take it out of {DISABLE_VARIABLE}.{then}")
    if known is not None and not known.released:
        return MissingConnectorError(f"The {what} {known.name!r} is not part of this version of Volley yet {here}.")
    if known is not None:
        return MissingConnectorError(f"No {what} named {known.name!r} is installed {here}. Run: {known.install}")
    for other in KINDS:
        if any(canonical(row.name) == canonical(name) for row in installed(other)):
            return UnknownConnectorError(f"{name!r} is a {_singular(other)}, not a {what} {here}.")
    candidates = {*(row.name for row in rows), *(k.name for k in KNOWN if k.kind == kind and k.released)}
    return UnknownConnectorError(f"There is no {what} named {name!r}. {did_you_mean(name, candidates)}")


def _singular(kind: str) -> str:
    return kind.removesuffix("s").replace("_", " ")
