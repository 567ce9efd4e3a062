"""`volley demo`: files of JSON events become a table, exactly-once, through a `kill -9` in the middle.

The pipeline itself is an ordinary file that `volley run` runs in a process of its own; this module plays the world
around it: the producer of the files, the one who pulls the plug, and the auditor who counts rows at the end.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from volley_connectors.cli.output import Json, console, print_json_line
from volley_core.errors import VolleyError

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA = "id bigint, user string, kind string, amount double, at timestamp"
FILES_PER_EPOCH = 4
SECONDS_PER_FILE = 0.15
START_SECONDS = 180.0
"""How long Spark may take to start on a slow machine before the demo gives up."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Summary:
    """What went in, and what an independent count of the table finds."""

    rows_in: int
    rows_out: int
    duplicates: int
    lost: int
    files: int
    kills: int
    rows_when_killed: int
    rows_per_second: int
    seconds: float
    table: str

    @property
    def exact(self) -> bool:
        return self.duplicates == 0 and self.lost == 0


def demo(
    files: Annotated[int, typer.Option(min=8, help="How many files arrive.")] = 60,
    rows: Annotated[int, typer.Option(min=1, help="Rows in each file.")] = 5_000,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep everything here, to look at afterwards.", file_okay=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Stream files of JSON events into a table, kill the driver in the middle, and count the rows."""
    screen = console()
    with _workplace(directory) as work, screen.status("starting Spark") as status:
        if as_json or not screen.is_terminal:
            status.stop()
        say: Say = (lambda line: None) if as_json else (lambda line: screen.print(line, highlight=False))
        summary = Demo(work, files, rows, say, status.update).run()
        status.stop()
        if as_json:
            print_json_line(asdict(summary))
        else:
            screen.print(_table(summary, kept=directory is not None))
    if not summary.exact:
        raise VolleyError("The table does not hold every row once. Please report this with the output above.")


class Demo:
    """One run of the demo in one directory."""

    def __init__(self, work: Path, files: int, rows: int, say: Say, hint: Say) -> None:
        self._work = work
        self._files = files
        self._rows = rows
        self._say = say
        self._hint = hint
        self._incoming = work / "incoming"
        self._table = work / "table"
        self._arrived = 0

    def run(self) -> Summary:
        began = time.monotonic()
        pipeline = self._write_pipeline()
        self._say(f"[bold]1.[/] {self._files} files of {self._rows:,} JSON events begin to arrive in {self._incoming}")
        self._say(f"[bold]2.[/] volley run {pipeline}")
        late = self._files // 3
        with self._producing(self._files - late):
            killed_at = self._run_until_killed(pipeline)
        self._produce(self._files, pause_seconds=0)
        self._say(f"[bold]4.[/] {late} more files arrived while nothing ran. The same command again:")
        speed = self._run_to_the_end(pipeline)
        rows_out, duplicates, lost = self._audit()
        return Summary(
            rows_in=self._files * self._rows,
            rows_out=rows_out,
            duplicates=duplicates,
            lost=lost,
            files=self._files,
            kills=1,
            rows_when_killed=killed_at,
            rows_per_second=speed,
            seconds=round(time.monotonic() - began, 1),
            table=str(self._table),
        )

    def _write_pipeline(self) -> Path:
        self._incoming.mkdir(parents=True, exist_ok=True)
        # JSON is YAML too, and needs no care about quoting.
        document = {
            "name": "demo",
            "source": {
                "connector": "files",
                "path": str(self._incoming),
                "format": "json",
                "schema": SCHEMA,
                "max_files_per_trigger": FILES_PER_EPOCH,
            },
            "transforms": ["SELECT *, date(at) AS day FROM source"],
            "sink": {"connector": "files", "path": str(self._table)},
            "checkpoint": str(self._work / "checkpoint"),
            "spark": {"spark.master": "local[2]"},
        }
        path = self._work / "pipeline.yaml"
        path.write_text(json.dumps(document, indent=2))
        return path

    @contextmanager
    def _producing(self, count: int) -> Iterator[None]:
        producer = threading.Thread(target=self._produce, args=(count, SECONDS_PER_FILE), name="producer")
        producer.start()
        try:
            yield
        finally:
            producer.join()

    def _produce(self, count: int, pause_seconds: float) -> None:
        """Let files arrive until there are so many."""
        for number in range(self._arrived, count):
            first = number * self._rows
            lines = (json.dumps(_event(row)) for row in range(first, first + self._rows))
            draft = self._incoming / f".{number:05d}.draft"
            draft.write_text("\n".join(lines) + "\n")
            # A file that has its name is complete: the name is all that a reader goes by.
            draft.rename(self._incoming / f"{number:05d}.jsonl")
            self._arrived += 1
            time.sleep(pause_seconds)

    def _run_until_killed(self, pipeline: Path) -> int:
        """Let some epochs pass, then kill the driver, JVM and all, at a moment that nothing can prepare for."""
        enough = self._files * self._rows // 5
        with _running(pipeline) as child:
            for progress in self._watch(child):
                if progress["rows"] >= enough:
                    break
            time.sleep(random.uniform(0.0, 0.3))
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        seen = int(progress["rows"])
        self._say(f"[bold]3.[/] [red]kill -9[/] of the driver after about {seen:,} rows, in the middle of its work")
        return seen

    def _run_to_the_end(self, pipeline: Path) -> int:
        """Resume, and read all that is there; the rows per second once Spark's processes were warm."""
        first = None
        with _running(pipeline, "--available-now") as child:
            for progress in self._watch(child):
                first = first or (progress if progress["rows"] else None)
            if child.wait() != 0:
                raise VolleyError(f"The pipeline ended with exit code {child.returncode}. Try: volley run {pipeline}")
        if first is None or progress["busy_seconds"] <= first["busy_seconds"]:
            return 0
        return int((progress["rows"] - first["rows"]) / (progress["busy_seconds"] - first["busy_seconds"]))

    def _watch(self, child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
        """The progress that the pipeline reports; what is new in it is shown."""
        epochs = 0
        for progress in _progress_of(child):
            arrived = f"files arrived {self._arrived}/{self._files}"
            self._hint(f"{progress['state'] if progress['epochs'] else 'starting Spark'}, {arrived}")
            if progress["epochs"] > epochs:
                epochs = progress["epochs"]
                self._say(
                    f"   [dim]epochs {epochs:3d}   rows {progress['rows']:9,d}   "
                    f"{progress['rows_per_second']:9,.0f} rows/s   {arrived}[/]"
                )
            yield progress

    def _audit(self) -> tuple[int, int, int]:
        """Rows, duplicates and lost rows, read from the table by Arrow alone: nothing of Volley has a say in it."""
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        ids = ds.dataset(self._table, format="parquet", partitioning="hive").to_table(columns=["id"])["id"]
        distinct = pc.count_distinct(ids).as_py()
        return len(ids), len(ids) - distinct, self._files * self._rows - distinct


def _event(number: int) -> dict[str, Any]:
    day, second = divmod(number, 86_400)
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return {
        "id": number,
        "user": f"user-{number % 997}",
        "kind": ("view", "click", "buy")[number % 3],
        "amount": round(number * 0.37 % 500, 2),
        "at": f"2026-01-{1 + day % 28:02d}T{clock}Z",
    }


@contextmanager
def _workplace(directory: Path | None) -> Iterator[Path]:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="volley-demo-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise VolleyError(f"{directory} is not empty. Give --dir a new or empty directory.")
    yield directory.absolute()


@contextmanager
def _running(pipeline: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`volley run` in a process group of its own, so that its JVM can be killed with it."""
    command = [sys.executable, "-m", "volley_connectors.cli", "run", str(pipeline), "--json", *arguments]
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
        try:
            yield child
        except _EarlyEndError as error:
            errors.seek(0)
            raise VolleyError(f"{error}\n{errors.read()[-2000:]}") from None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


class _EarlyEndError(Exception):
    """The pipeline ended before the demo had seen what it waits for."""


def _progress_of(child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """The progress that the pipeline reports, until it ends."""
    stdout: IO[str] | None = child.stdout
    assert stdout is not None
    watchdog = threading.Timer(START_SECONDS, lambda: os.killpg(child.pid, signal.SIGKILL))
    watchdog.start()
    last: dict[str, Any] | None = None
    try:
        for line in stdout:
            event = json.loads(line)
            if event["event"] == "failed":
                raise VolleyError(f"The pipeline failed: {event['message']}")
            if event["rows"]:
                watchdog.cancel()
            last = event
            yield event
    finally:
        watchdog.cancel()
    if last is None or last["state"] != "ended":
        raise _EarlyEndError("The pipeline ended too early. Its last words:")


def _table(summary: Summary, *, kept: bool) -> Table:
    from rich.table import Table

    good = "bold green" if summary.exact else "bold red"
    table = Table(title="Exactly once" if summary.exact else "NOT exactly once", title_style=good, show_header=False)
    table.add_row("rows in", f"{summary.rows_in:,}")
    table.add_row("rows out", f"{summary.rows_out:,}")
    table.add_row("duplicates", f"{summary.duplicates:,}", style=good)
    table.add_row("lost", f"{summary.lost:,}", style=good)
    table.add_row("driver killed", f"once, after about {summary.rows_when_killed:,} rows")
    table.add_row("speed after the restart", f"{summary.rows_per_second:,} rows/s")
    table.add_row("time, with two starts of Spark", f"{summary.seconds:.0f} s")
    if kept:
        table.add_row("table", summary.table)
    return table
