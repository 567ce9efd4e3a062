"""Connectors are found by metadata, imported on use, and one broken package spoils no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from volley_connectors import build, find, installed, load
from volley_connectors.memory import MemorySource
from volley_connectors.registry import KINDS
from volley_core import (
    AmbiguousConnectorError,
    BrokenConnectorError,
    ConfigError,
    MissingConnectorError,
    UnknownConnectorError,
)

SDKS = {
    "boto3",
    "botocore",
    "azure",
    "google",
    "deltalake",
    "pyiceberg",
    "confluent_kafka",
    "pyspark",
    "fastavro",
    "datafusion",
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a package as pip would: a module, its metadata and its entry points."""
    monkeypatch.syspath_prepend(tmp_path)

    def install_package(name: str, entry_points: dict[str, str], source: str = "", version: str = "1.0") -> None:
        (tmp_path / f"{name}.py").write_text(source)
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [
            f"[volley.{group.split('/')[0]}]\n{group.split('/')[1]} = {value}" for group, value in entry_points.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")

    return install_package


def run(code: str, *path: Path, **environment: str) -> Any:
    """What a fresh interpreter prints as JSON."""
    setup = "".join(f"sys.path.insert(0, {str(p)!r})\n" for p in path)
    result = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{setup}{code}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_catalogue_imports_nothing() -> None:
    code = (
        "from volley_connectors.registry import KINDS, installed\n"
        "rows = [row for kind in (*KINDS, 'hooks') for row in installed(kind)]\n"
        "own = {row.entry_point.module for row in rows}\n"
        "print(json.dumps([len(rows), sorted(own & set(sys.modules)), sorted({m.split('.')[0] for m in sys.modules})]))"
    )
    count, own, packages = run(code)
    assert count >= 7
    assert own == []
    assert not SDKS.union({"pyarrow", "pydantic", "obstore", "pluggy", "typer", "rich"}) & set(packages)


def test_importing_every_connector_imports_no_sdk() -> None:
    code = (
        "from volley_connectors.registry import KINDS, installed\n"
        "names = [row.load().__name__ for kind in KINDS for row in installed(kind)]\n"
        "print(json.dumps([names, sorted({m.split('.')[0] for m in sys.modules})]))"
    )
    names, packages = run(code)
    assert {"MemorySource", "MemorySink", "CountSink"} <= set(names)
    assert not SDKS & set(packages)


def test_the_built_in_connectors_are_installed() -> None:
    assert "memory" in {row.name for row in installed("sources")}
    assert {"memory", "count"} <= {row.name for row in installed("sinks")}
    row = find("sources", "memory")
    assert (row.kind, row.distribution, row.version) == ("sources", "volley-connectors", "0.1.0")


@pytest.mark.parametrize("name", ["memory", "Memory", "MEMORY", "mem_ory"])
def test_a_connector_is_found_in_any_case_and_spelling(name: str) -> None:
    assert load("sources", name) is MemorySource


def test_build_parses_the_options() -> None:
    source = build("sources", "memory", {"NAME": "x", "splitsPerEpoch": "3"})
    assert (source.config.name, source.config.splits_per_epoch) == ("x", 3)


def test_wrong_options_name_the_connector_and_where_to_look() -> None:
    with pytest.raises(ConfigError) as caught:
        build("sources", "memory", {"name": "x", "split_per_epoch": "3"})
    expected = (
        "Connector 'memory': Unknown option 'split_per_epoch'. Did you mean 'splits_per_epoch'? See: volley show memory"
    )
    assert str(caught.value) == expected


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownConnectorError) as caught:
        find("sources", "memry")
    assert str(caught.value) == "There is no source named 'memry'. Did you mean 'memory'?"


def test_a_name_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(UnknownConnectorError, match=r"There is no sink named 'zzzzzz'\. Known: .*count.*memory"):
        find("sinks", "zzzzzz")


def test_a_name_of_another_kind_is_told_apart() -> None:
    with pytest.raises(UnknownConnectorError, match="'count' is a sink, not a source"):
        find("sources", "count")


@pytest.mark.parametrize(
    ("kind", "name", "what", "line"),
    [
        ("sources", "files", "source", "pip install 'volley-connectors[blob-store]'"),
        ("notification_sources", "SQS", "notification source", "pip install 'volley-connectors[blob-store-aws]'"),
        ("blob_readers", "s3", "blob reader", "pip install 'volley-connectors[blob-store-aws]'"),
        ("decoders", "avro", "decoder", "pip install 'volley-connectors[file-formats]'"),
        ("sources", "memory", "source", "pip install volley-connectors"),
    ],
)
def test_a_known_connector_that_is_not_installed_is_answered_with_the_pip_line(
    kind: str, name: str, what: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An empty path is a machine on which nothing is installed.
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(MissingConnectorError) as caught:
        find(kind, name)
    assert str(caught.value) == f"No {what} named {name.lower()!r} is installed (installed: none). Run: {line}"


def test_a_connector_of_a_later_version_is_not_answered_with_a_pip_line() -> None:
    with pytest.raises(MissingConnectorError, match="'pubsub' is not part of this version of Volley yet") as caught:
        find("notification_sources", "pubsub")
    assert "pip install" not in str(caught.value)


def test_two_packages_with_one_name_are_both_named(install: Callable[..., None]) -> None:
    install("acme_one", {"sources/twice": "acme_one:Source"}, "class Source: pass")
    install("acme_two", {"sources/TWICE": "acme_two:Source"}, "class Source: pass", version="2.5")
    with pytest.raises(AmbiguousConnectorError) as caught:
        find("sources", "twice")
    assert "acme_one 1.0 and acme_two 2.5" in str(caught.value) or "acme_two 2.5 and acme_one 1.0" in str(caught.value)
    assert "Uninstall one of them" in str(caught.value)
    assert load("sources", "memory") is MemorySource


def test_a_package_of_the_same_name_as_a_built_in_one_is_told(install: Callable[..., None]) -> None:
    install("acme_memory", {"sources/memory": "acme_memory:Source"}, "class Source: pass")
    with pytest.raises(AmbiguousConnectorError, match="volley-connectors"):
        load("sources", "memory")


BROKEN = {
    "missing": ("import no_such_sdk", "ModuleNotFoundError: No module named 'no_such_sdk'"),
    "raising": ("raise RuntimeError('boom at import')", "RuntimeError: boom at import"),
    "leaving": ("raise SystemExit(3)", "SystemExit: 3"),
    "nameless": ("", "AttributeError"),
    "garbled": ("this is no python", "SyntaxError"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_package_tells_what_to_do_and_keeps_the_cause(install: Callable[..., None], kind: str) -> None:
    source, reason = BROKEN[kind]
    install(f"acme_{kind}", {f"sources/{kind}": f"acme_{kind}:Source"}, source)
    with pytest.raises(BrokenConnectorError) as caught:
        load("sources", kind)
    message = str(caught.value)
    assert message.startswith(f"The source {kind!r} of package acme_{kind} 1.0 is installed but cannot be imported (")
    assert reason in message
    assert message.endswith(f"Reinstall or remove acme_{kind}, or hide it with VOLLEY_DISABLE_CONNECTORS={kind}.")
    assert caught.value.__cause__ is not None
    assert reason.split(":")[0] == type(caught.value.__cause__).__name__


def test_broken_packages_break_nothing_else(install: Callable[..., None]) -> None:
    for kind, (source, _) in BROKEN.items():
        install(f"acme_{kind}", {f"{k}/{kind}": f"acme_{kind}:Thing" for k in KINDS}, source)
    for kind in KINDS:
        assert set(BROKEN) <= {row.name for row in installed(kind)}
    assert load("sources", "memory") is MemorySource
    assert build("sinks", "count", {"name": "x"}).connector_id == "count:x"


def test_a_package_with_broken_metadata_breaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for number, text in enumerate(["", "[volley.sources]\n", "[volley.sources]\nodd = \n"]):
        info = tmp_path / f"acme{number}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: acme{number}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(text)
    (tmp_path / "empty-1.dist-info").mkdir()
    assert load("sources", "memory") is MemorySource


@pytest.mark.parametrize("value", ["memory", "kafka, Memory", " MEM_ORY ,"])
def test_a_disabled_connector_is_not_there(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOLLEY_DISABLE_CONNECTORS", value)
    for kind in ("sources", "sinks"):
        assert "memory" not in {row.name for row in installed(kind)}
    assert "count" in {row.name for row in installed("sinks")}


def test_a_disabled_connector_is_answered_with_the_variable_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOLLEY_DISABLE_CONNECTORS", "memory")
    with pytest.raises(MissingConnectorError) as caught:
        find("sources", "memory")
    remedy = "Take it out of VOLLEY_DISABLE_CONNECTORS. If it is missing then, run: pip install volley-connectors"
    assert str(caught.value).endswith(remedy)


def test_disabling_a_name_hides_both_rivals(install: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    install("acme_one", {"sources/rival": "acme_one:Source"}, "class Source: pass")
    install("acme_two", {"sources/rival": "acme_two:Source"}, "class Source: pass")
    monkeypatch.setenv("VOLLEY_DISABLE_CONNECTORS", "rival")
    with pytest.raises(MissingConnectorError, match="'rival' is hidden"):
        find("sources", "rival")


def test_metadata_that_shows_twice_is_one_connector(install: Callable[..., None], tmp_path: Path) -> None:
    install("acme_one", {"sources/once": "acme_one:Source"}, "class Source: pass")
    info = tmp_path / "acme_one-1.1.dist-info"
    info.mkdir()
    for file in ("METADATA", "entry_points.txt"):
        (info / file).write_text((tmp_path / "acme_one-1.0.dist-info" / file).read_text())
    assert len([row for row in installed("sources") if row.name == "once"]) == 1


def test_a_third_party_connector_is_found_and_built_in_a_fresh_process(
    install: Callable[..., None], tmp_path: Path
) -> None:
    source = (
        "from volley_core import SourceConfig\n"
        "class Config(SourceConfig):\n    topic: str\n"
        "class Source:\n"
        "    Config = Config\n"
        "    def __init__(self, config): self.config = config\n"
    )
    install("acme_third", {"sources/acme-third": "acme_third:Source"}, source)
    code = (
        "from volley_connectors import build\n"
        "print(json.dumps(build('sources', 'AcmeThird', {'topic': 'x'}).config.topic))"
    )
    assert run(code, tmp_path) == "x"
