"""What a queue message says: the body as JSON, and the objects that it announces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from volley_blob_store_local.paths import absolute
from volley_core import BlobRef


def compose(uris: Iterable[str]) -> str:
    """The body of a message that announces these files."""
    return json.dumps({"uris": [absolute(uri) for uri in uris]})


def parse(body: str | bytes) -> tuple[BlobRef, ...]:
    """The objects of `{"uri": path}` or `{"uris": [path, ...]}`. Raises ValueError if it says something else."""
    message = json.loads(body)
    if not isinstance(message, dict) or not ({"uri", "uris"} & message.keys()):
        raise ValueError("a message must be a JSON object with 'uri' or 'uris'")
    uris: Any = message["uris"] if "uris" in message else [message["uri"]]
    if not isinstance(uris, list) or not all(isinstance(uri, str) and uri for uri in uris):
        raise ValueError("'uri' must be a path, 'uris' a list of paths")
    return tuple(BlobRef(absolute(uri)) for uri in uris)
