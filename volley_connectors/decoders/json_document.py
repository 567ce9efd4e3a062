"""One JSON document, an array of objects or one object, as lines: what then reads lines reads it too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from volley_core import DecodeError

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"
_BOM = "\ufeff"


def elements(stream: Any, block_bytes: int) -> Iterator[bytes]:
    """The document's objects, one per line, in blocks. The whole text is held: where an object ends, only it tells."""
    lines: list[bytes] = []
    length = 0
    for text in _elements(_text(stream)):
        # A line end cannot stand inside a JSON text's quotes, so it is white space.
        line = text.replace("\n", " ").encode() + b"\n"
        lines.append(line)
        length += len(line)
        if length >= block_bytes:
            yield b"".join(lines)
            lines, length = [], 0
    if lines:
        yield b"".join(lines)


def _text(stream: Any) -> str:
    parts = []
    while chunk := stream.read(1 << 20):
        parts.append(chunk)
    try:
        return b"".join(parts).decode().removeprefix(_BOM)
    except UnicodeDecodeError as error:
        raise DecodeError(f"the document is not UTF-8: {error}") from error


def _elements(text: str) -> Iterator[str]:
    at = _skip(text, 0)
    if at == len(text):
        return
    if text[at] != "[":
        end = _end_of(text, at)
        if _skip(text, end) != len(text):
            raise DecodeError("the document goes on after its end; are these JSON lines? Then leave 'multiline' out")
        yield text[at:end]
        return
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        end = _end_of(text, at)
        yield text[at:end]
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
            if text[at : at + 1] == "]":
                raise DecodeError(f"the array has a comma behind its last element, at character {at}")
        elif text[at : at + 1] != "]":
            raise DecodeError(f"the array ends too early, or lacks a comma, at character {at}")
    if _skip(text, at + 1) != len(text):
        raise DecodeError("the document goes on after its array")


def _end_of(text: str, at: int) -> int:
    try:
        return _DECODER.raw_decode(text, at)[1]
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"the document is not JSON: {error}") from error


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
