"""`volley setup`: the providers that packages register, found without importing them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Volley = Callable[..., Any]
LUNAR = '''
"""Setup of a cloud on the moon."""

from typing import Annotated

import typer

from volley_core.errors import ConfigError


def lunar(crater: Annotated[str, typer.Option(help="Where.")], deep: bool = False) -> None:
    """Dig a queue."""
    if crater == "none":
        raise ConfigError("There is no such crater.")
    typer.echo(f"dug in {crater}, deep: {deep}")
'''


@pytest.fixture
def lunar(install: Callable[..., Any]) -> None:
    install("lunar", "[volley.setups]\nlunar = lunar_setup:lunar\nbroken = lunar_nowhere:setup\n", lunar_setup=LUNAR)


@pytest.mark.usefixtures("lunar")
def test_a_third_partys_function_is_a_command(volley: Volley) -> None:
    assert "lunar" in volley("setup", "--help").stdout
    assert volley("setup", "lunar", "--crater", "Tycho", "--deep").stdout == "dug in Tycho, deep: True\n"
    assert volley("setup", "Lunar", "--crater", "Tycho").stdout == "dug in Tycho, deep: False\n"
    shown = volley("setup", "lunar", "--help").stdout
    assert "Dig a queue." in shown
    assert "--crater" in shown
    assert "--install-completion" not in shown


@pytest.mark.usefixtures("lunar")
def test_its_errors_are_one_message_and_an_exit_code(volley: Volley) -> None:
    result = volley("setup", "lunar", "--crater", "none")
    assert (result.exit_code, result.stderr) == (2, "Error: There is no such crater.\n")
    assert volley("setup", "lunar").exit_code == 2


@pytest.mark.usefixtures("lunar")
def test_one_that_cannot_be_imported_spoils_no_other(volley: Volley) -> None:
    assert "broken" in volley("setup", "--help").stdout
    result = volley("setup", "broken")
    assert result.exit_code == 2
    assert "The setup 'broken' of package lunar 1.0 is installed but cannot be imported" in result.stderr
    assert volley("setup", "lunar", "--crater", "Tycho").exit_code == 0


def test_one_that_is_not_installed_comes_with_the_line_that_installs_it(
    volley: Volley, monkeypatch: pytest.MonkeyPatch
) -> None:
    from volley_connectors import registry
    from volley_connectors.cli import setup

    nothing: list[Any] = []
    monkeypatch.setattr(registry, "installed", lambda kind: nothing)
    monkeypatch.setattr(setup, "installed", lambda kind: nothing)
    monkeypatch.setenv("COLUMNS", "200")
    line = "pip install 'volley-connectors[blob-store-aws]'"
    assert line in volley("setup", "--help").stdout
    result = volley("setup", "aws", "--bucket", "landing")
    assert result.exit_code == 2
    assert line in result.stderr


def test_an_unknown_one_is_refused_with_those_that_are_known(volley: Volley) -> None:
    result = volley("setup", "awss")
    assert result.exit_code == 2
    assert "There is no setup named 'awss'. Did you mean 'aws'?" in result.stderr


def test_the_list_imports_no_plugin_and_nothing_heavy() -> None:
    heavy = ("volley_blob_store_aws", "boto3", "botocore", "pyarrow", "pyspark", "yaml")
    code = (
        "import atexit, sys; "
        f"atexit.register(lambda: print('HEAVY', *sorted(set({heavy!r}) & sys.modules.keys()))); "
        "sys.argv = ['volley', 'setup', '--help']; from volley_connectors.cli import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "aws" in run.stdout
    assert run.stdout.splitlines()[-1] == "HEAVY"
