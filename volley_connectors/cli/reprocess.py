"""`volley reprocess`: what one pipeline has read is read again by another, which was made for it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volley_connectors.cli.files import progress, size
from volley_connectors.cli.output import Json, Verbose, console, print_json
from volley_connectors.cli.run import follow, load, parse_timeout
from volley_core.errors import ConfigError
from volley_core.names import canonical

if TYPE_CHECKING:
    from volley_connectors.blob.reprocessing import Survey
    from volley_connectors.connection import Connection
    from volley_connectors.pipeline import Pipeline


def reprocess(
    file: Annotated[
        Path, typer.Argument(help="The file of the new pipeline, with a name, sink and checkpoint of its own.")
    ],
    first: Annotated[
        str | None,
        typer.Option("--from", metavar="N|TIME", help="From this epoch, or planned since: '2024-05-01', '2 days' ago."),
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="N|TIME", help="Up to this epoch, or planned until then.")
    ] = None,
    state_location: Annotated[
        str | None,
        typer.Option(
            metavar="OLD",
            help="The state_location of the query that has read the objects, or better its pipeline file: then the "
            "sinks are compared too. Not given: as the new file says; for --dry-run its own.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be read, and how much of it is gone.")
    ] = False,
    checkpoint: Annotated[str | None, typer.Option(help="In place of the file's checkpoint.")] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Stop cleanly after so long; run again to go on.")
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Read the objects of past epochs again, into a new pipeline. Ends by itself, and goes on after a crash."""
    new = load(file, available_now=True, checkpoint=checkpoint)
    seconds = parse_timeout(timeout)
    old = _old(new, state_location)
    options = {"reprocess_state_location": old.location}
    options |= {name: text for name, text in (("reprocess_from", first), ("reprocess_to", last)) if text is not None}
    refusal = _refusal(new, old, options)
    if dry_run:
        _tell(new, options, _survey(_blob_source(new), options, quiet=as_json), refusal, as_json=as_json)
    elif refusal is not None:
        raise ConfigError(refusal)
    else:
        follow(_with(new, options), seconds, as_json=as_json, verbose=verbose)


@dataclass(frozen=True, slots=True)
class _Old:
    """The query whose objects are read again."""

    location: str
    pipeline: Pipeline | None = None


def _old(new: Pipeline, text: str | None) -> _Old:
    from volley_connectors.pipeline import SUFFIXES, load_pipeline

    if text is not None and text.endswith(SUFFIXES):
        pipeline = load_pipeline(Path(text))
        location = _blob_source(pipeline).config.state_location
        if location is None:
            raise ConfigError(f"{text}: the pipeline has neither a checkpoint nor a state_location, hence no memory.")
        return _Old(location, pipeline)
    config = _blob_source(new).config
    location = text or config.reprocess_state_location or config.state_location
    return _Old(location if "://" in location else str(Path(location).expanduser().absolute()))


def _blob_source(pipeline: Pipeline) -> Connection:
    from volley_connectors.blob import BlobSourceConfig

    connection = pipeline.source_connection()
    if not isinstance(connection.config, BlobSourceConfig):
        raise ConfigError(
            f"The source {connection.name!r} of pipeline {pipeline.name!r} reads no objects: only those of a blob "
            "store can be read again."
        )
    return connection


def _with(pipeline: Pipeline, options: dict[str, str]) -> Pipeline:
    """The pipeline whose source reads the past and takes nothing away."""
    replaced = {canonical(name) for name in (*options, "clean_source")}
    kept = {name: value for name, value in pipeline.source.options.items() if canonical(name) not in replaced}
    return pipeline.with_source({"connector": pipeline.source.connector, **kept, **options})


def _refusal(new: Pipeline, old: _Old, options: dict[str, str]) -> str | None:
    """Why the new pipeline is not new, and would double rows; None if it may run."""
    from volley_connectors.blob.reprocessing import Past
    from volley_connectors.state import StateStore

    advice = "Reprocessing needs a pipeline file with a name, a sink and a checkpoint of its own"
    own = new.source_connection().config.state_location
    if StateStore(own).is_same_place(StateStore(old.location)):
        return (
            f"Pipeline {new.name!r} is the one that has read these objects: its sink would get their rows a second "
            f"time. {advice}; give it --state-location {old.location}"
        )
    if old.pipeline is not None and _sink(new) == _sink(old.pipeline):
        return (
            f"Pipelines {new.name!r} and {old.pipeline.name!r} write to the same sink, which would get the rows a "
            f"second time. {advice}."
        )
    try:
        past = Past(_with(new, options).source_connection().config)
        is_begun = past.remembered() is not None
        if not is_begun:
            past.asked()
    except ConfigError as error:
        return str(error)
    offsets = StateStore(new.checkpoint_location) / "offsets"
    if not is_begun and next(offsets.names(), None) is not None:
        return f"Checkpoint {new.checkpoint_location!r} belongs to a query that has run before. {advice}."
    return None


def _sink(pipeline: Pipeline) -> tuple[str, dict[str, Any]]:
    connection = pipeline.sink_connection()
    return connection.name, connection.config.model_dump(exclude={"pipeline_id", "adopt_pipeline"})


def _survey(connection: Connection, options: dict[str, str], *, quiet: bool) -> Survey:
    config = connection.config.detached()
    for name, value in options.items():
        config = getattr(config, f"with_{name}")(value)
    with closing(connection.connector(config)) as source, progress(quiet=quiet) as show:
        found: Survey = source.survey(show)
    return found


def _tell(new: Pipeline, options: dict[str, str], found: Survey, refusal: str | None, *, as_json: bool) -> None:
    source, sink = new.source_connection(), new.sink_connection()
    would_run = {
        "pipeline": new.name,
        "source": source.name,
        "sink": sink.name,
        "pipeline_id": sink.config.pipeline_id,
        "checkpoint": new.checkpoint_location,
        "state_location": source.config.state_location,
        "options": options,
    }
    if as_json:
        print_json({"would_read": asdict(found), "would_run": would_run, "refused": refusal})
        return
    screen = console()

    def say(text: str, style: str = "") -> None:
        screen.print(text, style=style, markup=False, soft_wrap=True)

    say(f"Would read epochs {found.first:,} to {found.last:,} of {found.location}:")
    say(f"  {found.epochs:,} epochs, {found.objects:,} objects, {size(found.bytes)}, {found.rows:,} rows")
    gone = "on_missing_file = " + source.config.on_missing_file
    for count, what in (
        (found.uncounted, "objects of which it is not known how many rows they had"),
        (found.left_out, "more objects that the new source's options do not select"),
        (found.missing, f"of the objects are gone ({gone})"),
        (found.overwritten, f"of the objects were overwritten, and are not kept as they were ({gone})"),
    ):
        if count:
            say(f"  {count:,} {what}", "red" if "of the objects" in what else "")
    say("Would run:")
    for name, value in would_run.items():
        for line in value.items() if isinstance(value, dict) else [(name, value)]:
            say(f"  {line[0]}: {line[1]}")
    if refusal is not None:
        say(f"Would be refused: {refusal}", "yellow")
