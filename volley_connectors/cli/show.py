"""`volley show`: what a connector is, what it promises, its options and how to use it."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volley_connectors.cli.kinds import ALL_KINDS, parse_kind, singular
from volley_connectors.cli.output import Json, Verbose, console, print_json
from volley_connectors.known import KNOWN
from volley_connectors.registry import Installed, find, installed
from volley_core.errors import BrokenConnectorError, UnknownConnectorError
from volley_core.names import canonical, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from volley_connectors.cli.options import OptionRow

NAME_WIDTH = 34
LEXERS = {"Python": "python", "SQL": "sql", "YAML": "yaml"}


def show(
    name: Annotated[str, typer.Argument(help="A connector's name, as `volley connectors` lists it.")],
    kind: Annotated[str | None, typer.Option(help="Only this kind: source, sink, decoder, ...")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show a connector's options, guarantee and an example. JSON Schema with --json."""
    found = _find_all(name, ALL_KINDS if kind is None else (parse_kind(kind),))
    if as_json:
        print_json([_facts(row) for row in found])
        return
    screen = console()
    broken: list[BrokenConnectorError] = []
    for index, row in enumerate(found):
        if index:
            screen.rule(style="dim")
        try:
            _print_connector(screen, row)
        except BrokenConnectorError as error:
            screen.print(f"{row.name}, a {singular(row.kind)}: broken", style="red", markup=False)
            broken.append(error)
    if broken:
        raise broken[0]


def _find_all(name: str, kinds: tuple[str, ...]) -> list[Installed]:
    """The connector in every kind that has one of this name. The error is that of the kind it is known in."""
    here = [kind for kind in kinds if any(canonical(row.name) == canonical(name) for row in installed(kind))]
    if here:
        return [find(kind, name) for kind in here]
    if len(kinds) == 1:
        return [find(kinds[0], name)]
    for known in KNOWN:
        if canonical(known.name) == canonical(name):
            return [find(known.kind, name)]
    names = {row.name for kind in kinds for row in installed(kind)} | {known.name for known in KNOWN if known.released}
    raise UnknownConnectorError(f"There is no connector named {name!r}. {did_you_mean(name, names)}")


def _facts(row: Installed) -> dict[str, Any]:
    from volley_connectors.cli.options import describe

    connector = row.load()
    config = getattr(connector, "Config", None)
    return {
        "kind": row.kind,
        "name": row.name,
        "package": row.distribution,
        "version": row.version,
        "summary": _summary(connector),
        "guarantee": getattr(connector, "GUARANTEE", ""),
        "options": [asdict(option) for option in describe(config)] if config else [],
        "example": dict(config.EXAMPLE) if config else {},
        "schema": config.model_json_schema() if config else None,
    }


def _summary(connector: Any) -> str:
    return (inspect.getdoc(connector) or "").partition("\n")[0]


def _print_connector(screen: Console, row: Installed) -> None:
    from volley_connectors.cli.options import describe

    connector = row.load()
    heading = f"[bold]{row.name}[/], a {singular(row.kind)}"
    screen.print(f"{heading}  [dim]{row.distribution} {row.version}[/]", soft_wrap=True)
    screen.print(_summary(connector), markup=False)
    if getattr(connector, "GUARANTEE", ""):
        screen.print(f"Guarantee: {connector.GUARANTEE}", markup=False, style="green")
    config = getattr(connector, "Config", None)
    if config is None:
        return
    screen.print()
    options = describe(config)
    if options:
        screen.print(_options_table(options))
    else:
        screen.print("It has no options.", style="dim")
    _print_examples(screen, row, connector)


def _options_table(options: list[OptionRow]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("option", max_width=NAME_WIDTH)
    table.add_column("what it is", ratio=1)
    for option in options:
        name = Text(option.name, "" if option.shared else "bold")
        default = f"default {option.default}" if option.default else ""
        separator = ", " if len(option.type) + len(default) < NAME_WIDTH - 4 else "\n  "
        kind = Text("required ", "yellow") if option.required else Text()
        kind += Text(option.type + (separator + default if default else ""), "dim")
        mark = Text(" Secret: never shown.", "magenta") if option.secret else Text()
        table.add_row(name + Text("\n  ") + kind, Text(option.description) + mark)
    return table


def _print_examples(screen: Console, row: Installed, connector: Any) -> None:
    from rich.syntax import Syntax

    from volley_connectors.cli.examples import examples

    config = connector.Config
    required = {name: "..." for name, field in config.model_fields.items() if field.is_required()}
    options = {**required, **config.EXAMPLE}
    texts = examples(row.kind, row.name, connector.__name__, connector.__module__, options)
    for language, text in texts.items():
        screen.print(f"\n{language}", style="dim")
        if screen.is_terminal:
            screen.print(Syntax(text, LEXERS[language], theme="ansi_dark", background_color="default", word_wrap=True))
        else:
            screen.print(text, markup=False, soft_wrap=True)
