"""Every name that a package offers is there, and says what it is."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [
    "volley_core",
    "volley_core.conformance",
    "volley_connectors",
    "volley_connectors.spark",
    *sorted(path.name for path in ROOT.glob("plugins/*/volley_*") if path.is_dir()),
]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists_and_has_a_docstring(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__all__
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        value = getattr(module, name)
        # A type alias, a version or a constant cannot have a docstring.
        if inspect.isclass(value) or inspect.isroutine(value):
            assert inspect.getdoc(value), f"{package}.{name} has no docstring"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(importlib.import_module(package), "no_such_name")  # noqa: B009


def test_the_session_function_is_not_hidden_by_a_module() -> None:
    code = (
        "import volley_connectors.spark.sessions; from volley_connectors.spark import session; print(callable(session))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True"
