"""The decoder for an object: the one format of the source, or with `auto` the one that the object's name tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from volley_connectors.registry import build
from volley_core import DecodeError, Decoder

AUTO = "auto"
_COMPRESSIONS = (".gz", ".gzip", ".bz2", ".zst", ".zstd", ".lz4", ".sz", ".snappy", ".xz")
_SUFFIXES = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".avro": "avro",
    ".orc": "orc",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".txt": "text",
    ".log": "text",
}


class Formats:
    """Decoders by the names of objects. Each is made once, where it is first used."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        """`options`: of the one format or, with `auto`, of each under its name."""
        self._name = name
        self._options = options
        self._made: dict[str, Decoder] = {}

    def of(self, uri: str) -> Decoder:
        """The decoder of one object. Raises DecodeError if its name tells no format."""
        return self._get(_format_of(uri) if self._name == AUTO else self._name)

    def any(self) -> Decoder | None:
        """The one decoder of all objects; None if that depends on the object."""
        return None if self._name == AUTO else self._get(self._name)

    def _get(self, name: str) -> Decoder:
        if name not in self._made:
            options = self._options.get(name, {}) if self._name == AUTO else self._options
            self._made[name] = build("decoders", name, options)
        return self._made[name]


def _format_of(uri: str) -> str:
    name = uri.rpartition("/")[2].lower()
    for compression in _COMPRESSIONS:
        name = name.removesuffix(compression)
    dot = name.rfind(".")
    found = _SUFFIXES.get(name[dot:]) if dot >= 0 else None
    if found is None:
        raise DecodeError(
            f"the name {uri.rpartition('/')[2]!r} tells no format; known endings are {', '.join(_SUFFIXES)}. Set the "
            "option 'format', or leave such objects out with 'path_glob'"
        )
    return found
