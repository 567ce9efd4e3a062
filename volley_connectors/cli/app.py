"""Puts the commands together, and turns Volley's errors into one clear message and an exit code."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from volley_connectors import __version__
from volley_connectors.cli.check import check
from volley_connectors.cli.connectors import connectors
from volley_connectors.cli.doctor import doctor
from volley_connectors.cli.files import files
from volley_connectors.cli.output import Verbose, print_error
from volley_connectors.cli.preview import preview
from volley_connectors.cli.quick import QuickCommand, QuickGroup
from volley_connectors.cli.reprocess import reprocess
from volley_connectors.cli.run import run
from volley_connectors.cli.setup import setup
from volley_connectors.cli.show import show
from volley_core.errors import ConfigError, VolleyError


class VolleyGroup(QuickGroup):
    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # typer's click is vendored, untyped here
        try:
            return super().invoke(ctx)
        except VolleyError as error:
            print_error(error, verbose=bool(ctx.meta.get("verbose")))
            raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None


app = typer.Typer(
    cls=VolleyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"volley {__version__}")
        raise typer.Exit


@app.callback()
def volley(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Connectors for PySpark that are pip packages: see, check, try and run them."""


app.command(cls=QuickCommand)(connectors)
for command in (show, preview, check, run, files, reprocess, doctor):
    app.command()(command)
app.add_typer(setup, name="setup")

if find_spec("volley_connectors.demo") is not None:
    app.command()(import_module("volley_connectors.demo").demo)
