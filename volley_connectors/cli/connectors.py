"""`volley connectors`: what is installed, what could be. Reads package metadata alone, so it answers at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from volley_connectors.cli.kinds import ALL_KINDS, parse_kind
from volley_connectors.cli.output import Json, Verbose, console, print_json
from volley_connectors.known import KNOWN, KnownConnector, find_known
from volley_connectors.registry import DISABLE_VARIABLE, Installed, disabled, installed
from volley_core.errors import BrokenConnectorError
from volley_core.names import canonical

if TYPE_CHECKING:
    from rich.table import Table

WIDE = 115
"""Columns of a terminal that has room for the package's name too."""
STYLES = {
    "installed": "green",
    "available": "yellow",
    "planned": "dim",
    "disabled": "dim",
    "ambiguous": "bold red",
    "broken": "bold red",
}


@dataclass(frozen=True, slots=True)
class Row:
    kind: str
    name: str
    status: str
    feature: str
    package: str
    version: str
    summary: str
    remedy: str
    """What to do about a status that is not `installed`."""


def connectors(
    kind: Annotated[str | None, typer.Option(help="Only this kind: source, sink, decoder, ...")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are planned.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Import each one, to find those that are broken.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """List the connectors that are installed, and those that could be."""
    kinds = ALL_KINDS if kind is None else (parse_kind(kind),)
    rows = [row for each in kinds for row in catalogue(each, check=check) if everything or row.status != "planned"]
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        _print_rows(rows, kinds)


def catalogue(kind: str, *, check: bool = False) -> list[Row]:
    """Every connector of this kind: those of installed packages, then those that Volley's own packages would bring."""
    here = installed(kind)
    names = [canonical(row.name) for row in here]
    rows = [_installed_row(row, twice=names.count(canonical(row.name)) > 1, check=check) for row in here]
    rows += [_known_row(known) for known in KNOWN if known.kind == kind and canonical(known.name) not in names]
    order = list(STYLES)
    return sorted(rows, key=lambda row: (order.index(row.status) in (1, 2, 3), order.index(row.status), row.name))


def _installed_row(row: Installed, *, twice: bool, check: bool) -> Row:
    known = find_known(row.kind, row.name)
    status, remedy = "installed", ""
    if twice:
        status, remedy = "ambiguous", f"Two packages claim {row.name!r}: uninstall one of them."
    elif check:
        try:
            row.load()
        except BrokenConnectorError as error:
            status, remedy = "broken", str(error)
    feature, summary = (known.feature, known.summary) if known else ("", "")
    return Row(row.kind, row.name, status, feature, row.distribution, row.version, summary, remedy)


def _known_row(known: KnownConnector) -> Row:
    if canonical(known.name) in disabled():
        status, remedy = "disabled", f"Hidden by {DISABLE_VARIABLE}."
    elif known.released:
        status, remedy = "available", known.install
    else:
        status, remedy = "planned", "Not part of this version of Volley yet."
    return Row(known.kind, known.name, status, known.feature, "", "", known.summary, remedy)


def _print_rows(rows: list[Row], kinds: tuple[str, ...]) -> None:
    screen = console()
    for kind in kinds:
        of_kind = [row for row in rows if row.kind == kind]
        if of_kind:
            screen.print(_table(kind, of_kind, wide=screen.width >= WIDE))
            screen.print()
    for row in rows:
        if row.status in ("ambiguous", "broken"):
            screen.print(row.remedy, style="red", markup=False, soft_wrap=True)
    installs: dict[str, list[str]] = {}
    for row in rows:
        if row.status == "available":
            installs.setdefault(row.remedy, []).append(row.name)
    for line, names in installs.items():
        screen.print(f"To add {', '.join(dict.fromkeys(names))}:  {line}", markup=False, soft_wrap=True)
    if any(row.status == "installed" for row in rows):
        screen.print("Options and an example of one:  volley show NAME", style="dim", markup=False)


def _table(kind: str, rows: list[Row], *, wide: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    title = kind.replace("_", " ").capitalize()
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    # One width for all kinds, so that the tables line up below each other.
    widths = {"name": 16, "status": 10, "feature": 17} | ({"package": 30} if wide else {}) | {"version": 8}
    for name, width in widths.items():
        table.add_column(name, no_wrap=True, min_width=width)
    table.add_column("what it is", ratio=1)
    for row in rows:
        package = [row.package] if wide else []
        table.add_row(row.name, Text(row.status, STYLES[row.status]), row.feature, *package, row.version, row.summary)
    return table
