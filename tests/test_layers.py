"""Holds the walls of the house: who may import whom, what an import may bring along, how modules are named."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = sorted(path for path in ROOT.glob("plugins/*/volley_*") if path.is_dir())
PACKAGES = [ROOT / "volley_core", ROOT / "volley_connectors", *PLUGINS]
MODULES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))

SDKS = (
    "azure",
    "boto3",
    "botocore",
    "confluent_kafka",
    "deltalake",
    "google",
    "moto",
    "pandas",
    "pyiceberg",
    "pyspark",
)


def imports(module: Path) -> Iterator[str]:
    """The full name of everything that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            yield node.module or ""


def imported_roots(*packages: Path) -> dict[str, set[str]]:
    """For each top-level package imported, the modules of `packages` that do so."""
    found: dict[str, set[str]] = {}
    for package in packages:
        for module in package.rglob("*.py"):
            for name in imports(module):
                found.setdefault(name.partition(".")[0], set()).add(str(module.relative_to(ROOT)))
    return found


def test_the_core_imports_no_spark_no_sdk_and_nothing_above_it() -> None:
    found = imported_roots(ROOT / "volley_core")
    others = {plugin.name for plugin in PLUGINS} | {"volley_connectors", *SDKS}
    assert not {name: users for name, users in found.items() if name in others}


def test_the_core_needs_only_what_the_design_allows() -> None:
    foreign = imported_roots(ROOT / "volley_core").keys() - sys.stdlib_module_names - {"volley_core"}
    # pytest is what the conformance suites are written in; whoever runs them has it.
    assert foreign <= {"pyarrow", "pydantic", "pydantic_core", "pluggy", "pytest"}


def test_only_the_spark_package_imports_pyspark() -> None:
    users = imported_roots(*PACKAGES).get("pyspark", set())
    assert users
    assert {user for user in users if not user.startswith("volley_connectors/spark/")} == set()


def test_the_connectors_package_imports_no_plugin_and_no_cloud() -> None:
    found = imported_roots(ROOT / "volley_connectors")
    others = {plugin.name for plugin in PLUGINS} | set(SDKS) - {"pyspark", "pandas"}
    assert not {name: users for name, users in found.items() if name in others}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_no_plugin_imports_another(plugin: Path) -> None:
    others = {other.name for other in PLUGINS} - {plugin.name}
    assert not {name: users for name, users in imported_roots(plugin).items() if name in others}


@pytest.mark.parametrize(
    "package", [*(path.name for path in PACKAGES), "volley_connectors.spark", "volley_connectors.cli"]
)
def test_importing_a_package_brings_no_sdk(package: str) -> None:
    code = f"import sys, {package}; print(*sorted(set({SDKS!r}) & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_modules_are_named_for_what_is_in_them() -> None:
    vague = {"base", "common", "helper", "helpers", "misc", "util", "utils"}
    assert [str(path.relative_to(ROOT)) for path in MODULES if path.stem in vague or path.parent.name in vague] == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert [str(path.relative_to(ROOT)) for path in silent] == []


def test_no_file_is_longer_than_600_lines() -> None:
    patterns = ("tests/**/*.py", "plugins/*/tests/**/*.py", "benchmarks/**/*.py")
    files = [*MODULES, *(path for pattern in patterns for path in ROOT.glob(pattern))]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    assert {name: length for name, length in lengths.items() if length > 600} == {}
