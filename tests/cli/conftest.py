"""What the tests of the command line share: commands in this process, and packages that are not really installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

THIRD_PARTY = Path(__file__).resolve().parents[1] / "third_party"


@pytest.fixture
def volley(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command in this process, on a screen of 120 columns without colours."""
    from volley_connectors.cli.app import app

    monkeypatch.setenv("COLUMNS", "120")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def volley_process() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command in a process of its own, as a user's shell does. It does not outlive the test."""
    with ExitStack() as started:

        def start(*arguments: object) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "volley_connectors.cli", *map(str, arguments)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield start


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third party's package, one of whose connectors cannot be imported."""
    monkeypatch.syspath_prepend(str(THIRD_PARTY))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put a package on the path that has just metadata and, perhaps, modules."""

    def put(name: str, entry_points: str = "", **modules: str) -> Path:
        site = tmp_path / f"site-{name}"
        info = site / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        for module, text in modules.items():
            (site / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(str(site))
        return site

    return put
