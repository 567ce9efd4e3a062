"""A text cut into pieces gives the rows of the whole, wherever the cuts fall."""

from __future__ import annotations

import io
import random
from typing import Any

import pyarrow as pa
import pytest

from volley_connectors.decoders.csv import CsvDecoder, CsvDecoderConfig
from volley_connectors.decoders.json_lines import JsonLinesDecoder, JsonLinesDecoderConfig
from volley_connectors.decoders.text import TextDecoder, TextDecoderConfig
from volley_core import DecodeError

SCHEMA = pa.schema([("a", pa.string())])
DECODERS = {
    "json": (JsonLinesDecoder(JsonLinesDecoderConfig(block_bytes=1024)), '{{"a":"{}"}}', ""),
    "csv": (CsvDecoder(CsvDecoderConfig(block_bytes=1024)), "{}", "a"),
    "text": (TextDecoder(TextDecoderConfig(block_bytes=1024)), "{}", ""),
}


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("seed", range(20))
def test_the_rows_of_all_pieces_are_the_rows_of_the_whole(name: str, seed: int) -> None:
    decoder, line, header = DECODERS[name]
    chance = random.Random(seed)
    end = chance.choice(["\n", "\r\n"])
    values = ["v" + "x" * chance.choice([0, 1, 30, 3000]) for _ in range(chance.randint(1, 60))]
    lines = [header] * bool(header) + [line.format(value) for value in values]
    data = (end.join(lines) + chance.choice(["", end])).encode()
    assert rows(decoder, data) == values
    pieces = decoder.cut(io.BytesIO(data), chance.choice([1, 7, 100, 5000]))
    assert [value for piece in pieces for value in rows(decoder.within(piece), data)] == values


def rows(decoder: Any, data: bytes) -> list[str]:
    return [value for batch in decoder.decode(io.BytesIO(data), SCHEMA) for value in batch.column(0).to_pylist()]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("begin", [0, 5_000_000])
def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    name: str, begin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volley_connectors.decoders.lines.LONGEST_RECORD_BYTES", 1024 * 1024)
    decoder, line, _ = DECODERS[name]
    file = io.BytesIO(b"a\n" * (name == "csv") + line.format("x" * 20_000_000).encode())
    with pytest.raises(DecodeError, match="does not end within 1 MB"):
        list(decoder.within((begin, 10_000_000)).decode(file, SCHEMA))
    assert file.tell() < begin + 1_200_000


def test_a_record_in_many_blocks_is_no_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley_connectors.decoders.lines.LONGEST_RECORD_BYTES", 10_000)
    for name, (decoder, line, header) in DECODERS.items():
        data = "\n".join([header] * bool(header) + [line.format("x" * 9_000)] * 20).encode()
        assert rows(decoder, data) == ["x" * 9_000] * 20, name
