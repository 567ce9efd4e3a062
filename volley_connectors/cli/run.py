"""`volley run`: a pipeline file on Spark, with live progress, until it is done or told to stop."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volley_connectors.cli.output import Json, Verbose, console, print_json_line
from volley_core.errors import ConfigError, MissingConnectorError, SchemaChangedError, VolleyError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volley_connectors.pipeline import Pipeline
    from volley_connectors.spark.runner import Progress, Run

log = logging.getLogger(__name__)

LINE_SECONDS = 5.0


def run(
    file: Annotated[Path, typer.Argument(help="A pipeline file, YAML or TOML.")],
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Read what is there now and end, whatever the file's trigger.")
    ] = False,
    checkpoint: Annotated[str | None, typer.Option(help="In place of the file's checkpoint.")] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Stop cleanly after so long, for instance '10 minutes'.")
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run a pipeline file on Spark. Ctrl-C or SIGTERM stops it after the running epoch, a second one at once."""
    pipeline = load(file, available_now=available_now, checkpoint=checkpoint)
    seconds = parse_timeout(timeout)
    follow(pipeline, seconds, as_json=as_json, verbose=verbose)


def follow(pipeline: Pipeline, seconds: float | None, *, as_json: bool, verbose: bool) -> None:
    """Run a pipeline with live progress, until it ends, is stopped or the time is over."""
    # Found out here, in a moment, and not by Spark, in half a minute.
    pipeline.source_connection()
    pipeline.sink_connection()
    try:
        in_time = _run(pipeline, seconds, as_json=as_json, verbose=verbose)
    except VolleyError as error:
        if as_json:
            print_json_line({"event": "failed", "error": type(error).__name__, "message": str(error)})
        raise
    if not in_time and pipeline.trigger == "available_now":
        raise VolleyError(
            f"Pipeline {pipeline.name!r} was stopped by --timeout before it had read all that was there. What was "
            "written is complete up to the last epoch; run it again to go on."
        )


def load(file: Path, *, available_now: bool, checkpoint: str | None) -> Pipeline:
    from volley_connectors.pipeline import AVAILABLE_NOW, load_pipeline

    pipeline = load_pipeline(file)
    if checkpoint is not None:
        pipeline = pipeline.with_checkpoint(checkpoint)
    if available_now:
        pipeline = pipeline.with_trigger(AVAILABLE_NOW)
    _ = pipeline.checkpoint_location
    return pipeline


def parse_timeout(text: str | None) -> float | None:
    from volley_core.units import parse_seconds

    try:
        return None if text is None else float(parse_seconds(text))
    except ValueError as error:
        raise ConfigError(f"--timeout {text!r}: {error}.") from None


def _run(pipeline: Pipeline, timeout_seconds: float | None, *, as_json: bool, verbose: bool) -> bool:
    try:
        from volley_connectors.spark import runner
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        raise MissingConnectorError(
            "PySpark is not installed, and `volley run` needs it. Run: pip install 'volley-connectors[spark]'"
        ) from error
    spark = runner.start_session(pipeline, quiet=not verbose)
    try:
        with _display(pipeline, as_json=as_json) as show:
            deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
            return _watch(lambda: runner.Run(runner.start_query(spark, pipeline)), show, deadline)
    finally:
        runner.stop_session(spark)


def _watch(start: Callable[[], Run], show: Callable[[Progress], None], deadline: float | None) -> bool:
    """Follow a query to its end, through restarts for columns that turned up in its input."""
    before = ""
    while True:
        query = start()
        try:
            with _stopped_by_signals(query):
                return query.watch(show, None if deadline is None else max(0.0, deadline - time.monotonic()))
        except SchemaChangedError as error:
            # The same error again would mean that the restart did not help.
            if str(error) == before or query.stopping:
                raise
            before = str(error)
            log.warning("%s", error)


@contextmanager
def _stopped_by_signals(query: Run) -> Iterator[None]:
    # After Spark's own handler, which is installed with the session and cancels the running epoch.
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: query.stop()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _display(pipeline: Pipeline, *, as_json: bool) -> Iterator[Callable[[Progress], None]]:
    if as_json:
        yield _Lines(
            lambda progress: print_json_line({"event": "progress", "name": pipeline.name, **_rounded(progress)}), 1
        )
    elif not sys.stdout.isatty():
        screen = console()
        yield _Lines(
            lambda progress: screen.print(_line(pipeline, progress), markup=False, soft_wrap=True), LINE_SECONDS
        )
    else:
        from rich.live import Live

        with Live(console=console(), refresh_per_second=5) as live:
            yield lambda progress: live.update(_panel(pipeline, progress))


class _Lines:
    """Prints progress now and then, and always when its state changes to an end."""

    def __init__(self, show: Callable[[Progress], None], every_seconds: float) -> None:
        self._show = show
        self._every_seconds = every_seconds
        self._due = 0.0

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() >= self._due or progress.state in ("ended", "failed"):
            self._due = time.monotonic() + self._every_seconds
            self._show(progress)


def _rounded(progress: Progress) -> dict[str, Any]:
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(progress).items()}


def _line(pipeline: Pipeline, progress: Progress) -> str:
    return (
        f"{pipeline.name}  {progress.state}  epochs {progress.epochs:,}  rows {progress.rows:,}  "
        f"{progress.rows_per_second:,.0f} rows/s  last epoch {progress.last_epoch_seconds:.2f} s  "
        f"after {progress.elapsed_seconds:.0f} s"
    )


def _panel(pipeline: Pipeline, progress: Progress) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    colours = {"failed": "bold red", "ended": "bold green", "stopping": "yellow"}
    title = Text.assemble(
        (pipeline.name, "bold"),
        f"  {pipeline.source.connector} → {pipeline.sink.connector}  ",
        (progress.state, colours.get(progress.state, "cyan")),
    )
    table = Table(title=title, title_justify="left", title_style="", box=None, header_style="dim", pad_edge=False)
    values = {
        "epochs": f"{progress.epochs:,}",
        "rows": f"{progress.rows:,}",
        "rows/s": f"{progress.rows_per_second:,.0f}",
        "last epoch": f"{progress.last_epoch_seconds:.2f} s",
        "running for": f"{progress.elapsed_seconds:.0f} s",
    }
    for name in values:
        table.add_column(name, justify="right", min_width=12)
    table.add_row(*values.values())
    return table
