"""Tries a pipeline's parts one after the other: file, source, SQL, sink, checkpoint."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from volley_connectors.connection import Connection
from volley_connectors.pipeline import Pipeline, load_pipeline
from volley_core import ConfigError, PreparedSink
from volley_core.schema import format_schema

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    status: str
    """ok, failed or skipped"""
    detail: str
    config_error: bool = False
    """The user must change the file; otherwise something outside it failed."""


@dataclass
class Trial:
    """The steps so far. A step that fails lets the ones that do not need its result go on."""

    steps: list[Step] = field(default_factory=list)

    def attempt(self, name: str, action: Callable[[], T], detail: Callable[[T], str]) -> T | None:
        try:
            result = action()
        except ConfigError as error:
            self.steps.append(Step(name, "failed", str(error), config_error=True))
        # Whatever a connector's client raises is what the user wants to read here.
        except Exception as error:
            self.steps.append(Step(name, "failed", f"{type(error).__name__}: {error}"))
        else:
            self.steps.append(Step(name, "ok", detail(result)))
            return result
        return None

    def skip(self, name: str, reason: str) -> None:
        self.steps.append(Step(name, "skipped", reason))


def try_pipeline(path: Path, checkpoint: str | None = None) -> list[Step]:
    """What works and what does not, in the order in which a run would need it."""
    trial = Trial()
    pipeline = trial.attempt("file", lambda: _load(path, checkpoint), lambda p: f"pipeline {p.name!r}")
    if pipeline is not None:
        source = trial.attempt("source", pipeline.source_connection, _describe)
        sink = trial.attempt("sink", pipeline.sink_connection, _describe)
        rows = source and trial.attempt("source schema", lambda: _schema(source), format_schema)
        written = _try_transforms(trial, pipeline, rows) if rows else None
        if sink is not None:
            _try_sink(trial, sink, written)
        trial.attempt("checkpoint", lambda: _writable(pipeline.checkpoint_location), str)
    return trial.steps


def _load(path: Path, checkpoint: str | None) -> Pipeline:
    pipeline = load_pipeline(path)
    return pipeline if checkpoint is None else pipeline.with_checkpoint(checkpoint)


def _describe(connection: Connection) -> str:
    return f"{connection.name}, options understood"


def _schema(connection: Connection) -> pa.Schema:
    with closing(connection.for_batch().source()) as source:
        return source.schema()


def _try_transforms(trial: Trial, pipeline: Pipeline, rows: pa.Schema) -> pa.Schema | None:
    """The schema that reaches the sink; None if only Spark could tell and it is not there, or says no."""
    if not pipeline.transforms:
        return rows
    if find_spec("pyspark") is None:
        trial.skip("transforms", "PySpark is not installed. Run: pip install 'volley-connectors[spark]'")
        return None
    return trial.attempt("transforms", lambda: _transformed(pipeline, rows), format_schema)


def _transformed(pipeline: Pipeline, rows: pa.Schema) -> pa.Schema:
    from volley_connectors.spark.runner import apply_transforms, start_session
    from volley_connectors.spark.types import arrow_schema, spark_schema

    spark = start_session(pipeline, quiet=True)
    try:
        empty = spark.createDataFrame([], spark_schema(rows, pipeline.source.connector))
        return arrow_schema(apply_transforms(spark, pipeline, empty).schema)
    finally:
        spark.stop()


def _try_sink(trial: Trial, connection: Connection, schema: pa.Schema | None) -> None:
    sink = connection.sink()
    if not isinstance(sink, PreparedSink):
        trial.skip("sink target", f"{connection.name} cannot be tried without writing")
    elif schema is None:
        trial.skip("sink target", "not tried, because the rows' schema is not known")
    else:
        trial.attempt("sink target", lambda: sink.prepare(schema), lambda _: "takes these rows")


def _writable(location: str) -> str:
    """That a local checkpoint can be made, without making it. Spark itself tries one in a store."""
    if "://" in location and not location.startswith("file://"):
        return f"{location} (not tried: only Spark can reach it)"
    path = Path(location.removeprefix("file://"))
    there = next(place for place in (path, *path.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return location
    except OSError as error:
        raise ConfigError(f"{location} cannot be written ({error.strerror or error}). Choose another path.") from error
