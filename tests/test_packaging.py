"""What the packages declare, read from their metadata: extras, plugins, entry points, pins, and what is not tracked."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from volley_connectors import __version__
from volley_connectors.known import KNOWN
from volley_connectors.registry import KINDS

# What packages register beside connectors.
OTHERS = ("hooks", "setups")
ROOT = Path(__file__).resolve().parents[1]
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
EXTRAS = {
    "all",
    "blob-store",
    "blob-store-aws",
    "blob-store-azure",
    "blob-store-gcs",
    "delta",
    "dev",
    "file-formats",
    "iceberg",
    "java",
    "kafka",
    "otel",
    "prometheus",
    "spark",
    "table-formats",
}
every_plugin = pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)


def pyproject(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = pyproject(folder)["project"]
    return found


def requirements(lines: list[str]) -> dict[str, Requirement]:
    return {canonicalize_name(r.name): r for r in map(Requirement, lines)}


def extra_of(plugin: Path) -> str:
    """The one extra that brings this plugin."""
    extras = project(ROOT)["optional-dependencies"].items()
    (extra,) = [name for name, lines in extras if f"volley-{plugin.name}" in requirements(lines)]
    return str(extra)


def declared_connectors() -> set[tuple[str, str]]:
    """Kind and name of everything that the root and the plugins register."""
    return set().union(*map(connectors_of, (ROOT, *PLUGINS)))


def connectors_of(folder: Path) -> set[tuple[str, str]]:
    groups = project(folder).get("entry-points", {})
    return {(group.removeprefix("volley."), name) for group, points in groups.items() for name in points}


def tracked() -> list[str]:
    """The files of the repository, also those that are about to be added."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in run.stdout.splitlines() if (ROOT / name).is_file()]


def mentions(pattern: str) -> list[str]:
    """Where the tracked text files match this pattern. This file, which holds the patterns, is left out."""
    found = []
    for name in tracked():
        if (ROOT / name) == Path(__file__).resolve():
            continue
        text = (ROOT / name).read_bytes().decode("utf-8", errors="ignore")
        found += [f"{name}: {match[0]}" for match in re.finditer(pattern, text, re.IGNORECASE)]
    return found


def test_every_feature_is_an_extra() -> None:
    assert project(ROOT)["optional-dependencies"].keys() == EXTRAS


def test_all_brings_every_feature_but_java() -> None:
    everything = Requirement(project(ROOT)["optional-dependencies"]["all"][0])
    # Delta and Iceberg come with table-formats. Java is for machines that have none.
    assert everything.extras == EXTRAS - {"all", "delta", "dev", "iceberg", "java"}


def test_table_formats_is_delta_and_iceberg() -> None:
    (formats,) = map(Requirement, project(ROOT)["optional-dependencies"]["table-formats"])
    assert (formats.name, formats.extras) == ("volley-connectors", {"delta", "iceberg"})


def test_a_plain_install_brings_no_spark_and_no_sdk() -> None:
    assert requirements(project(ROOT)["dependencies"]).keys() == {
        "numpy",
        "obstore",
        "pluggy",
        "pyarrow",
        "pydantic",
        "pyyaml",
        "rich",
        "typer",
    }


def test_spark_comes_only_with_its_extra() -> None:
    extras = project(ROOT)["optional-dependencies"]
    assert [name for name, lines in extras.items() if "pyspark" in requirements(lines)] == ["spark"]
    pyspark = requirements(extras["spark"])["pyspark"].specifier
    assert pyspark.contains("4.2.0")
    assert not pyspark.contains("4.1.9")


def test_the_version_is_the_same_everywhere() -> None:
    assert project(ROOT)["version"] == __version__


def test_a_checkout_installs_every_plugin_and_is_pinned() -> None:
    lines = [line for line in (ROOT / "plugins/editable.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines[:2] == ["-c constraints.txt", "-e .[all,dev]"]
    assert sorted(lines[2:]) == sorted(f"-e plugins/{plugin.name}" for plugin in PLUGINS)


def test_every_folder_of_plugins_is_a_distribution() -> None:
    assert [path for path in sorted((ROOT / "plugins").iterdir()) if path.is_dir()] == PLUGINS


def test_uv_finds_every_plugin_in_the_checkout() -> None:
    sources = pyproject(ROOT)["tool"]["uv"]["sources"]
    assert sources == {f"volley-{p.name}": {"path": f"plugins/{p.name}", "editable": True} for p in PLUGINS}


@every_plugin
def test_a_plugin_is_complete(plugin: Path) -> None:
    package = plugin / f"volley_{plugin.name.replace('-', '_')}"
    assert (package / "__init__.py").is_file()
    assert (package / "py.typed").is_file()
    assert (plugin / "README.md").is_file()
    assert list(plugin.glob("tests/test_*.py"))


@every_plugin
def test_a_plugin_is_named_after_its_folder_which_is_its_extra(plugin: Path) -> None:
    metadata = project(plugin)
    assert metadata["name"] == f"volley-{plugin.name}"
    assert metadata["license"] == project(ROOT)["license"] == "Apache-2.0"
    assert metadata["requires-python"] == project(ROOT)["requires-python"]
    # The pattern itself, `blob-store`, comes with the stores of this machine.
    assert extra_of(plugin) == ("blob-store" if plugin.name == "blob-store-local" else plugin.name)


@every_plugin
def test_a_plugin_and_the_root_take_each_other_in_the_same_range(plugin: Path) -> None:
    metadata = project(plugin)
    to_root = requirements(metadata["dependencies"])["volley-connectors"].specifier
    to_plugin = requirements(project(ROOT)["optional-dependencies"][extra_of(plugin)])[metadata["name"]].specifier
    assert to_root == to_plugin
    assert to_root.contains(Version(__version__))
    assert to_plugin.contains(Version(metadata["version"]))


def test_entry_points_are_in_groups_that_volley_reads() -> None:
    assert {kind for kind, _ in declared_connectors()} <= {*KINDS, *OTHERS}


def test_the_installed_entry_points_are_the_declared_ones() -> None:
    ours = {"volley-connectors", *(f"volley-{plugin.name}" for plugin in PLUGINS)}
    points = [(kind, point) for kind in (*KINDS, *OTHERS) for point in entry_points(group=f"volley.{kind}")]
    assert {(kind, p.name) for kind, p in points if p.dist and p.dist.name in ours} == declared_connectors()


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_point_can_be_imported(kind: str) -> None:
    points = [point for point in entry_points(group=f"volley.{kind}") if point.value.startswith("volley_")]
    assert points
    for point in points:
        assert isinstance(point.load(), type), point


def test_every_setup_is_a_function() -> None:
    points = [point for point in entry_points(group="volley.setups") if point.value.startswith("volley_")]
    assert points
    assert all(isinstance(point.load(), FunctionType) for point in points)


def test_the_table_of_known_connectors_is_what_the_packages_register() -> None:
    released = {(known.kind, known.name) for known in KNOWN if known.released}
    assert released == {(kind, name) for kind, name in declared_connectors() if kind != "hooks"}


def test_every_known_connector_names_an_extra_that_brings_it() -> None:
    assert {known.feature for known in KNOWN} - {""} <= EXTRAS
    brought = {(kind, name): extra_of(plugin) for plugin in PLUGINS for kind, name in connectors_of(plugin)}
    wrong = {(k.kind, k.name) for k in KNOWN if brought.get((k.kind, k.name), k.feature) != k.feature}
    assert wrong == set()


def test_the_constraints_are_plain_pins_in_order() -> None:
    lines = (ROOT / "plugins/constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*==[0-9][0-9a-z.]*", pin) for pin in pins)
    assert pins == sorted(set(pins))


def test_the_constraints_pin_everything_that_a_checkout_asks_for() -> None:
    pins = {pin.partition("==")[0]: pin.partition("==")[2] for pin in constraint_lines()}
    lines = [line for folder in (ROOT, *PLUGINS) for line in all_requirements(folder)]
    wanted = [r for r in map(Requirement, lines) if not r.name.startswith("volley-")]
    assert [str(r) for r in wanted if canonicalize_name(r.name) not in pins] == []
    assert [str(r) for r in wanted if not r.specifier.contains(pins[canonicalize_name(r.name)])] == []


def constraint_lines() -> list[str]:
    return [line for line in (ROOT / "plugins/constraints.txt").read_text().splitlines() if "==" in line]


def all_requirements(folder: Path) -> list[str]:
    metadata = project(folder)
    extras = metadata.get("optional-dependencies", {}).values()
    build: list[str] = pyproject(folder)["build-system"]["requires"]
    return [*metadata.get("dependencies", []), *(line for lines in extras for line in lines), *build]


def test_no_lock_file_is_tracked() -> None:
    locks = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "package-lock.json", "yarn.lock", "Cargo.lock"}
    assert [name for name in tracked() if Path(name).name in locks] == []


def test_no_registry_is_named() -> None:
    hosts = r"pypi\.org|pythonhosted|registry\.npmjs|repo1?\.maven|maven\.org|proxy\.golang|crates\.io|deb\.debian"
    assert mentions(rf"\S*({hosts})|--(extra-)?index-url\b") == []


def test_no_path_of_one_machine_is_named() -> None:
    assert mentions(r"(?<![\w.])/(work|root|home|Users|farm|opt/wheels)/\w+") == []
