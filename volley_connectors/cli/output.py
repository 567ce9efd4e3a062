"""How the commands print: people get colours and marks on a terminal, machines get JSON and nothing else."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 120


def _remember(ctx: typer.Context, value: bool) -> bool:
    # `meta` is shared by a command and its group, so the option works before and after the command's name.
    if value:
        ctx.meta["verbose"] = True
    return value


Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", callback=_remember, help="Show the traceback of an error, and Spark's own log.")
]


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # rich takes a pipe to be 80 columns wide and would cut what a person greps for.
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH
    return Console(file=stream, width=width, highlight=False, emoji=False)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_json_line(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


def print_error(error: Exception, *, verbose: bool) -> None:
    from rich.text import Text

    screen = console(stderr=True)
    if verbose:
        screen.print("".join(traceback.format_exception(error)), markup=False, style="dim", soft_wrap=True)
    # Not wrapped by us: a `pip install` line in the message must survive being copied.
    screen.print(Text("Error: ", style="bold red") + Text(str(error), style="red"), soft_wrap=True)
