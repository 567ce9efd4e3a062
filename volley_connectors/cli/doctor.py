"""`volley doctor`: what in this environment would keep Volley from working, or slow it down, and the fix for each."""

from __future__ import annotations

from dataclasses import asdict

import typer

from volley_connectors.cli.output import Json, Verbose, console, print_json

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "bold red")}


def doctor(as_json: Json = False, verbose: Verbose = False) -> None:
    """Examine Java, PySpark, plugins and settings, and say how to mend what is wrong."""
    from rich.table import Table
    from rich.text import Text

    from volley_connectors.cli.diagnosis import diagnose

    findings = list(diagnose())
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        for finding in findings:
            mark, style = MARKS[finding.status]
            fix = Text(f"\nFix: {finding.fix}", "cyan") if finding.fix else Text()
            table.add_row(Text(mark, style), finding.subject, Text(finding.detail) + fix)
        console().print(table)
        console().print(_summary([finding.status for finding in findings]))
    if any(finding.status == "problem" for finding in findings):
        raise typer.Exit(1)


def _summary(statuses: list[str]) -> str:
    counts = [
        f"[{MARKS[status][1]}]{statuses.count(status)} {status}{'s' if statuses.count(status) > 1 else ''}[/]"
        for status in ("problem", "warning")
        if status in statuses
    ]
    return "\n" + (", ".join(counts) if counts else "[green]Everything is in order.[/]")
