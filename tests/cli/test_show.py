"""`volley show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml


def test_a_name_of_several_kinds_is_shown_as_each(volley: Callable[..., Any]) -> None:
    result = volley("show", "memory")
    assert result.exit_code == 0
    assert "memory, a source" in result.stdout
    assert "memory, a sink" in result.stdout


def test_one_kind_can_be_chosen(volley: Callable[..., Any]) -> None:
    result = volley("show", "memory", "--kind", "sink")
    assert "a sink" in result.stdout
    assert "a source" not in result.stdout


@pytest.mark.usefixtures("acme")
def test_options_come_with_type_default_and_description(volley: Callable[..., Any]) -> None:
    text = " ".join(volley("show", "ticker").stdout.split())
    assert "required text" in text
    assert "whole number, default 10" in text
    assert "Rows per record." in text
    assert "size, as '128 MB'" in text
    assert "Guarantee: exactly-once" in text
    assert "A polled, resumable source of consecutive numbers." in text


@pytest.mark.usefixtures("acme")
def test_a_secret_is_marked(volley: Callable[..., Any]) -> None:
    facts = json.loads(volley("show", "ticker", "--json").stdout)[0]
    secret = {option["name"]: option["secret"] for option in facts["options"]}
    assert secret["api_token"] is True
    assert secret["path"] is False
    assert "Secret: never shown." in " ".join(volley("show", "ticker").stdout.split())


@pytest.mark.usefixtures("acme")
def test_required_options_come_first_and_shared_ones_last(volley: Callable[..., Any]) -> None:
    names = [option["name"] for option in json.loads(volley("show", "ticker", "--json").stdout)[0]["options"]]
    assert names[0] == "path"
    assert names.index("batch") < names.index("state_location")


def test_json_holds_the_json_schema(volley: Callable[..., Any]) -> None:
    facts = json.loads(volley("show", "memory", "--kind", "source", "--json").stdout)
    assert [row["kind"] for row in facts] == ["sources"]
    assert facts[0]["schema"]["required"] == ["name"]
    assert facts[0]["schema"]["properties"]["max_bytes_per_trigger"]["anyOf"][0]["unit"] == "bytes"


def test_the_examples_can_be_used_as_they_are(volley: Callable[..., Any]) -> None:
    text = volley("show", "memory", "--kind", "source").stdout
    python, _, rest = text.partition("\nPython\n")[2].partition("\nSQL\n")
    sql, _, document = rest.partition("\nYAML\n")
    compile(python, "example", "exec")
    assert "USING volley OPTIONS" in sql
    example = yaml.safe_load(document)["source"]
    assert example.pop("connector") == "memory"
    from volley_connectors.memory import MemorySource

    assert MemorySource.Config.from_options(example).to_options()


def test_a_misspelt_name_is_refused_with_the_nearest_one(volley: Callable[..., Any]) -> None:
    result = volley("show", "memry")
    assert result.exit_code == 2
    assert result.stderr.strip() == "Error: There is no connector named 'memry'. Did you mean 'memory'?"


def test_a_planned_connector_is_not_called_unknown(volley: Callable[..., Any]) -> None:
    result = volley("show", "kafka")
    assert result.exit_code == 2
    assert "not part of this version" in result.stderr


def test_a_missing_extra_is_named(volley: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from volley_connectors import registry
    from volley_connectors.cli import show

    for module in (registry, show):
        monkeypatch.setattr(module, "installed", lambda kind: [])
    result = volley("show", "sqs")
    assert result.exit_code == 2
    assert "Run: pip install 'volley-connectors[blob-store-aws]'" in result.stderr


@pytest.mark.usefixtures("acme")
def test_a_broken_plugin_is_one_message_and_its_traceback_is_there_on_demand(volley: Callable[..., Any]) -> None:
    result = volley("show", "acme-broken", "--kind", "source")
    assert result.exit_code == 2
    assert "libacme.so.3 is not there" in result.stderr
    assert "Traceback" not in result.stderr
    assert "acme_broken.py" in volley("show", "acme-broken", "--kind", "source", "--verbose").stderr
    assert "acme_broken.py" in volley("--verbose", "show", "acme-broken", "--kind", "source").stderr


def test_every_installed_connector_can_be_shown(volley: Callable[..., Any]) -> None:
    for row in json.loads(volley("connectors", "--json").stdout):
        result = volley("show", row["name"], "--kind", row["kind"])
        assert result.exit_code == 0, f"{row['kind']} {row['name']}: {result.output}"
        assert json.loads(volley("show", row["name"], "--kind", row["kind"], "--json").stdout)


def test_the_version_is_printed(volley: Callable[..., Any]) -> None:
    from volley_connectors import __version__

    assert volley("--version").stdout == f"volley {__version__}\n"
