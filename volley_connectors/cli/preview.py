"""`volley preview`: the first rows of a source, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volley_connectors.cli.output import Json, Verbose, console, print_json
from volley_core.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from volley_connectors.connection import Connection


def preview(
    source: Annotated[str, typer.Argument(metavar="SOURCE|FILE", help="A source's name, or a pipeline file.")],
    option: Annotated[
        list[str] | None, typer.Option("-o", "--option", metavar="KEY=VALUE", help="An option of the source.")
    ] = None,
    rows: Annotated[int, typer.Option("-n", "--rows", min=1, help="How many rows to show.")] = 10,
    wait: Annotated[float, typer.Option(min=0, help="Seconds that a polled source has to give some.")] = 5.0,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show a source's first rows, without Spark. Nothing is acknowledged or changed."""
    from volley_connectors.preview import preview as first_rows

    table = first_rows(_connection(source, _parse_options(option or [])), rows, wait)
    if as_json:
        columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
        print_json({"columns": columns, "rows": [_plain(row) for row in table.to_pylist()]})
    elif table.num_rows == 0:
        console().print("No rows yet: the source has nothing to read.", style="yellow")
    else:
        console().print(_rich_table(table))


def _connection(source: str, options: dict[str, str]) -> Connection:
    from volley_connectors.connection import Connection
    from volley_connectors.pipeline import SUFFIXES, load_pipeline

    if not source.lower().endswith(SUFFIXES):
        return Connection.parse("sources", {**options, "connector": source})
    pipeline = load_pipeline(Path(source))
    overridden = pipeline.source.with_options({**pipeline.source.options, **options})
    return pipeline.with_source(overridden).source_connection()


def _parse_options(pairs: list[str]) -> dict[str, str]:
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"Option {pair!r} is not of the form key=value, for instance -o path=/data/in")
        options[key.strip()] = value
    return options


def _rich_table(table: pa.Table) -> Table:
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for field in table.schema:
        header = Text(field.name) + Text(f"\n{field.type}", style="dim")
        shown.add_column(header, overflow="ellipsis", no_wrap=True, justify="right" if _is_number(field) else "left")
    for row in table.to_pylist():
        shown.add_row(*(Text("null", style="dim") if v is None else Text(_cell(v)) for v in row.values()))
    return shown


def _is_number(field: pa.Field) -> bool:
    import pyarrow as pa

    return any(is_kind(field.type) for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def _cell(value: Any) -> str:
    import json

    plain = _plain(value)
    return json.dumps(plain, ensure_ascii=False, default=str) if isinstance(plain, dict | list) else str(plain)


def _plain(value: Any) -> Any:
    """A value that JSON can hold; bytes that are no text as base64."""
    import base64

    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"base64:{base64.b64encode(value).decode()}"
    return value
