"""`volley check`: a pipeline file tried out, step by step, without moving a row."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from volley_connectors.cli.output import Json, Verbose, console, print_json

MARKS = {"ok": ("✓", "green"), "failed": ("✗", "bold red"), "skipped": ("-", "yellow")}


def check(
    file: Annotated[Path, typer.Argument(help="A pipeline file, YAML or TOML.")],
    checkpoint: Annotated[str | None, typer.Option(help="In place of the file's checkpoint.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Validate a pipeline file and really try its connections. Moves no row."""
    from rich.table import Table
    from rich.text import Text

    from volley_connectors.cli.trial import try_pipeline

    steps = try_pipeline(file, checkpoint)
    if as_json:
        print_json({"ok": all(step.status != "failed" for step in steps), "steps": [asdict(step) for step in steps]})
    else:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        for step in steps:
            mark, style = MARKS[step.status]
            table.add_row(Text(mark, style), step.name, Text(step.detail, "red" if step.status == "failed" else ""))
        console().print(table)
    failed = [step for step in steps if step.status == "failed"]
    if failed:
        raise typer.Exit(2 if any(step.config_error for step in failed) else 1)
