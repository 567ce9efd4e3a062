"""`volley files`: which objects a source has read, in which epoch, and what became of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volley_connectors.cli.output import Verbose, console, print_json_line
from volley_core.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from volley_connectors.blob.history import Filters

WIDE = 150
"""Columns of a terminal that has room for the event's time and message too."""
SHOWN = 50
"""Objects that a person wants to see if they do not say how many."""
STYLES = {
    "planned": "yellow",
    "read": "green",
    "corrupt": "bold red",
    "missing": "red",
    "deleted": "dim",
    "archived": "dim",
}
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def files(
    location: Annotated[str, typer.Argument(metavar="STATE_LOCATION", help="The source's state_location.")],
    epoch: Annotated[str | None, typer.Option(metavar="N|A..B", help="Only these epochs: 7, 2..5, 2.. or ..5.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Planned since: '2024-05-01 12:00' (UTC), or '2 hours' ago.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Planned until then.")] = None,
    match: Annotated[str | None, typer.Option(metavar="GLOB", help="Only uris like this: '*/2024/*.json'.")] = None,
    state: Annotated[
        str | None, typer.Option(help="Only planned, read, corrupt, missing, deleted or archived ones.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("-n", "--limit", min=0, help=f"The newest so many; 0 is all. {SHOWN}, or all with --json."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line, for machines.")] = False,
    verbose: Verbose = False,
) -> None:
    """List the objects that a source has read: which epoch, when, how many rows, and what became of them."""
    from volley_connectors.blob.history import History

    filters = parse_filters(epoch=epoch, since=since, until=until, match=match, state=state)
    history, summary = History(location), Summary()
    history.check()
    newest = Newest(limit if limit is not None else 0 if as_json else SHOWN)
    with progress(quiet=as_json) as show:
        for batch in history.batches(filters, show):
            summary.add(batch)
            if as_json and not newest.limit:
                print_rows(batch)
            else:
                newest.add(batch)
    if as_json:
        for batch in newest.batches():
            print_rows(batch)
    else:
        _print_table(newest, summary)


def parse_filters(**texts: str | None) -> Filters:
    from volley_connectors.blob.history import Filters

    try:
        return Filters.parse(**texts)
    except ValueError as error:
        raise ConfigError(f"Option --{error}.") from None


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, gone when the work is done."""
    if quiet:
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("Reading epochs"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("epochs", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=total > 1)


@dataclass(slots=True)
class Newest:
    """The last `limit` rows of all batches; all rows if it is 0."""

    limit: int
    _batches: deque[pa.RecordBatch] = field(default_factory=deque)
    _rows: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        while self.limit and self._rows - self._batches[0].num_rows >= self.limit:
            self._rows -= self._batches.popleft().num_rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        surplus = max(0, self._rows - self.limit) if self.limit else 0
        for batch in self._batches:
            yield batch.slice(surplus)
            surplus = 0


@dataclass(slots=True)
class Summary:
    """What was found in all, also of what is not shown."""

    objects: int = 0
    num_bytes: int = 0
    rows: int = 0
    bad: int = 0
    first: int | None = None
    last: int | None = None
    states: dict[str, int] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        self.objects += batch.num_rows
        self.num_bytes += pc.sum(batch["size"]).as_py() or 0
        self.rows += pc.sum(batch["rows"]).as_py() or 0
        self.bad += pc.sum(batch["bad"]).as_py() or 0
        epochs = pc.min_max(batch["epoch"]).as_py()
        self.first = epochs["min"] if self.first is None else min(self.first, epochs["min"])
        self.last = epochs["max"] if self.last is None else max(self.last, epochs["max"])
        for counted in pc.value_counts(batch["state"]).to_pylist():
            self.states[counted["values"]] = self.states.get(counted["values"], 0) + counted["counts"]

    def __str__(self) -> str:
        states = ", ".join(f"{count:,} {state}" for state, count in sorted(self.states.items()) if state != "read")
        return (
            f"{self.objects:,} object{'s' * (self.objects != 1)}, {size(self.num_bytes)}, {self.rows:,} rows, "
            f"{self.bad:,} bad; epochs {self.first}..{self.last}{f'; {states}' if states else ''}"
        )


def size(num_bytes: int) -> str:
    """As people read it: 1.5 MB."""
    for factor, unit in _SIZES:
        if num_bytes >= factor:
            return f"{num_bytes / factor:.1f} {unit}"
    return f"{num_bytes} B"


def print_rows(batch: pa.RecordBatch) -> None:
    for row in batch.to_pylist():
        print_json_line({key: _plain(value) for key, value in row.items()})


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _print_table(newest: Newest, summary: Summary) -> None:
    screen = console()
    if not summary.objects:
        screen.print("No object is like that.", style="yellow")
        return
    rows = [row for batch in newest.batches() for row in batch.to_pylist()]
    screen.print(_table(rows, wide=screen.width >= WIDE))
    for row in rows:
        if row["error"]:
            screen.print(f"epoch {row['epoch']}, {row['uri']}: {row['error']}", style="red", markup=False)
    screen.print(f"\n{summary}", markup=False, soft_wrap=True)
    if len(rows) < summary.objects:
        screen.print(f"The newest {len(rows):,} are shown; --limit 0 shows all.", style="dim", markup=False)


def _table(rows: Iterable[dict[str, Any]], *, wide: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("epoch", "planned", "state", "rows", "bad", "size"):
        right = name in ("epoch", "rows", "bad", "size")
        table.add_column(name, no_wrap=True, justify="right" if right else "left")
    # Of an object's name the end tells most, and a cut one cannot be copied.
    table.add_column("object", overflow="fold", ratio=1)
    if wide:
        table.add_column("event time", no_wrap=True)
        table.add_column("message", overflow="ellipsis", no_wrap=True, max_width=40)
    for row in rows:
        table.add_row(
            str(row["epoch"]),
            _moment(row["planned_at"]),
            Text(row["state"], STYLES[row["state"]]),
            _count(row["rows"]),
            _count(row["bad"]),
            size(row["size"]),
            Text(row["uri"]),
            *((_moment(row["event_time"]), Text(row["message_id"])) if wide else ()),
        )
    return table


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _moment(value: Any) -> str:
    return "" if value is None else value.strftime("%Y-%m-%d %H:%M:%S")
