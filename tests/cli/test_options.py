"""Options as people read them."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import Field, SecretStr

from volley_connectors.cli.options import OptionRow, describe
from volley_core import ByteSize, Seconds, SourceConfig


class EverythingConfig(SourceConfig):
    text: str
    size: ByteSize = Field(128 * 1024 * 1024)
    odd_size: ByteSize = Field(1500)
    wait: Seconds = Field(600.0)
    short: Seconds = Field(0.5)
    mode: Literal["fast", "slow"] = "fast"
    names: list[str] = Field(default_factory=list)
    headers: dict[str, str] = Field(default_factory=dict)
    either: int | str | None = None
    password: SecretStr | None = None
    flag: bool = True


ROWS: dict[str, OptionRow] = {row.name: row for row in describe(EverythingConfig)}


@pytest.mark.parametrize(
    ("name", "type", "default"),
    [
        ("text", "text", ""),
        ("size", "size, as '128 MB'", "128 MiB"),
        ("odd_size", "size, as '128 MB'", "1500 bytes"),
        ("wait", "duration, as '10 minutes'", "10 minutes"),
        ("short", "duration, as '10 minutes'", "0.5 seconds"),
        ("mode", "fast | slow", "fast"),
        ("names", "list of text", ""),
        ("headers", "mapping", ""),
        ("either", "whole number or text", ""),
        ("password", "secret", ""),
        ("flag", "true or false", "true"),
        ("schema", "schema, as 'id bigint'", ""),
    ],
)
def test_an_option_is_told_in_words(name: str, type: str, default: str) -> None:
    assert (ROWS[name].type, ROWS[name].default) == (type, default)


def test_only_a_secret_is_a_secret() -> None:
    assert [row.name for row in ROWS.values() if row.secret] == ["password"]
