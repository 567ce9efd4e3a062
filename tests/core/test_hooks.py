"""Hook plugins are found, told of every moment, and can never fail a query."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from volley_connectors import hooks

GOOD = """
from volley_core import hookimpl
heard = []
@hookimpl
def epoch_committed(epoch, rows):
    heard.append((epoch, rows))
@hookimpl
def query_ended(query_id, run_id, error):
    heard.append((query_id, run_id, error))
"""
RAISING = """
from volley_core import hookimpl
@hookimpl(tryfirst=True)
def epoch_committed(epoch):
    raise RuntimeError("boom in a hook")
"""
WRONG_ARGUMENT = """
from volley_core import hookimpl
@hookimpl
def epoch_committed(epoch, colour):
    pass
"""
FACTS = {"connector_id": "memory:x", "query_id": "q", "epoch": 7, "rows": 3, "seconds": 0.1}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], str]]:
    """Install a package with one hook plugin, as pip would; gives the name of its module."""
    monkeypatch.syspath_prepend(tmp_path)
    modules: list[str] = []

    def install_package(name: str, source: str) -> str:
        module = f"hook_plugin_{name}"
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[volley.hooks]\n{name} = {module}\n")
        modules.append(module)
        return module

    hooks.manager.cache_clear()
    yield install_package
    hooks.manager.cache_clear()
    for module in modules:
        sys.modules.pop(module, None)


def test_a_hook_is_told_the_facts_that_it_asks_for(install: Callable[[str, str], str]) -> None:
    module = install("good", GOOD)
    hooks.fire("epoch_committed", **FACTS)
    hooks.fire("query_ended", query_id="q", run_id="r", error=None)
    assert sys.modules[module].heard == [(7, 3), ("q", "r", None)]


def test_a_moment_that_nobody_listens_to_is_no_error(install: Callable[[str, str], str]) -> None:
    module = install("good", GOOD)
    hooks.fire("query_started", query_id="q", run_id="r", name=None)
    assert sys.modules[module].heard == []


def test_a_hook_that_raises_is_logged_and_the_others_hear(
    install: Callable[[str, str], str], caplog: pytest.LogCaptureFixture
) -> None:
    module = install("good", GOOD)
    install("raising", RAISING)
    hooks.fire("epoch_committed", **FACTS)
    assert sys.modules[module].heard == [(7, 3)]
    (record,) = caplog.records
    assert "Hook epoch_committed of plugin hook_plugin_raising:raising failed" in record.getMessage()
    assert "boom in a hook" in caplog.text


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("raise RuntimeError('broken at import')", "broken at import"),
        ("raise SystemExit(3)", "SystemExit"),
        ("this is no python", "SyntaxError"),
        (WRONG_ARGUMENT, "colour"),
    ],
    ids=["missing module", "raises", "exits", "syntax", "wrong argument"],
)
def test_a_broken_plugin_is_left_out_and_the_others_hear(
    install: Callable[[str, str], str], caplog: pytest.LogCaptureFixture, source: str, reason: str
) -> None:
    install("broken", source)
    module = install("good", GOOD)
    with caplog.at_level(logging.WARNING):
        hooks.fire("epoch_committed", **FACTS)
    assert sys.modules[module].heard == [(7, 3)]
    assert "Hook plugin broken of hook_plugin_broken is left out" in caplog.text
    assert reason in caplog.text


def test_a_disabled_hook_is_not_loaded(install: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    module = install("good", GOOD)
    monkeypatch.setenv("VOLLEY_DISABLE_CONNECTORS", "good")
    hooks.fire("epoch_committed", **FACTS)
    assert module not in sys.modules


def test_plugins_are_loaded_once(install: Callable[[str, str], str]) -> None:
    install("good", GOOD)
    assert hooks.manager() is hooks.manager()
