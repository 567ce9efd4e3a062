"""`volley connectors`."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest


def listed(volley: Callable[..., Any], *arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    result = volley("connectors", "--json", *arguments)
    assert result.exit_code == 0
    return {(row["kind"], row["name"]): row for row in json.loads(result.stdout)}


def test_an_installed_connector_is_listed_with_its_package_and_version(volley: Callable[..., Any]) -> None:
    row = listed(volley)["sources", "memory"]
    assert row["status"] == "installed"
    assert row["package"] == "volley-connectors"
    assert row["version"] == "0.1.0"


def test_people_see_the_same_connectors(volley: Callable[..., Any]) -> None:
    result = volley("connectors")
    assert result.exit_code == 0
    for word in ("Sources", "memory", "volley-connectors", "Decoders", "parquet", "volley show NAME"):
        assert word in result.stdout


def test_planned_connectors_are_shown_only_on_demand(volley: Callable[..., Any]) -> None:
    assert ("sources", "kafka") not in listed(volley)
    assert listed(volley, "--all")["sources", "kafka"]["status"] == "planned"


def test_a_connector_that_is_not_installed_comes_with_the_line_that_installs_it(
    volley: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from volley_connectors.cli import connectors

    nothing: list[Any] = []
    monkeypatch.setattr(connectors, "installed", lambda kind: nothing)
    row = listed(volley)["sources", "files"]
    assert row["status"] == "available"
    assert row["remedy"] == "pip install 'volley-connectors[blob-store]'"
    assert "pip install 'volley-connectors[blob-store]'" in volley("connectors").stdout


@pytest.mark.parametrize("word", ["decoder", "decoders", "Decoder"])
def test_a_kind_may_be_spelt_freely(volley: Callable[..., Any], word: str) -> None:
    assert {kind for kind, _ in listed(volley, "--kind", word)} == {"decoders"}


def test_an_unknown_kind_is_refused_with_the_nearest_one(volley: Callable[..., Any]) -> None:
    result = volley("connectors", "--kind", "snk")
    assert result.exit_code == 2
    assert "Did you mean 'sinks'?" in result.stderr
    assert result.stdout == ""


@pytest.mark.usefixtures("acme")
def test_a_broken_plugin_is_found_by_check_alone_and_spoils_no_other(volley: Callable[..., Any]) -> None:
    assert listed(volley)["sources", "acme-broken"]["status"] == "installed"
    rows = listed(volley, "--check")
    assert rows["sources", "acme-broken"]["status"] == "broken"
    assert "libacme.so.3 is not there" in rows["sources", "acme-broken"]["remedy"]
    assert rows["sources", "ticker"]["status"] == rows["sources", "memory"]["status"] == "installed"


def test_a_name_that_two_packages_claim_is_marked(volley: Callable[..., Any], install: Callable[..., Any]) -> None:
    install("rival", "[volley.sources]\nmemory = rival:Source\n")
    result = volley("connectors", "--kind", "source")
    assert result.stdout.count("ambiguous") == 2
    assert "Two packages claim 'memory'" in result.stdout


def test_a_disabled_connector_is_not_offered_for_installation(
    volley: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOLLEY_DISABLE_CONNECTORS", "memory")
    assert listed(volley)["sources", "memory"]["status"] == "disabled"


@pytest.mark.parametrize("columns", ["80", "120"])
def test_no_line_is_wider_than_the_screen(
    volley: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = volley("connectors", "--all").stdout.splitlines()
    assert max(len(line) for line in lines if "pip install" not in line) <= int(columns)


HEAVY = ("pyarrow", "pydantic", "pyspark", "pandas", "numpy", "boto3", "yaml", "obstore")


def test_listing_imports_no_sdk_no_spark_and_nothing_else_that_is_heavy() -> None:
    code = (
        "import atexit, sys; "
        f"atexit.register(lambda: print('HEAVY', *sorted(set({HEAVY!r}) & sys.modules.keys()))); "
        "sys.argv = ['volley', 'connectors']; from volley_connectors.cli import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "memory" in run.stdout
    assert run.stdout.splitlines()[-1] == "HEAVY"


def test_listing_takes_well_under_half_a_second_of_cpu() -> None:
    command = [sys.executable, "-c", "from volley_connectors.cli import main; main()", "connectors"]
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert statistics.median(seconds) < 0.5
