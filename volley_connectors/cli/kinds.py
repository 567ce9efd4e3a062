"""The kinds of connectors in the words of the command line."""

from __future__ import annotations

from volley_connectors.registry import KINDS
from volley_core.errors import ConfigError
from volley_core.names import canonical, did_you_mean

ALL_KINDS = (*KINDS, "hooks")


def parse_kind(text: str) -> str:
    """A kind from the user's word for it: `source`, `Sinks`, `blob-reader`."""
    for kind in ALL_KINDS:
        if canonical(text).removesuffix("s") == canonical(kind).removesuffix("s"):
            return kind
    raise ConfigError(f"There is no kind of connector named {text!r}. {did_you_mean(text, ALL_KINDS)}")


def singular(kind: str) -> str:
    """One of a kind: `blob reader`."""
    return kind.removesuffix("s").replace("_", " ")
