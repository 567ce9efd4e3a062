"""Runs a pipeline file's query on Spark, watches it, and stops it between two epochs."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from volley_connectors import hooks
from volley_connectors.pipeline import AVAILABLE_NOW, Pipeline
from volley_connectors.spark import session
from volley_connectors.spark.failure import volley_error
from volley_core import VolleyError

POLL_SECONDS = 0.2
STOP_POLL_SECONDS = 0.02
GRACE_SECONDS = 60.0
"""How long past its timeout a query may take to finish an epoch."""
SOURCE_VIEW = "source"
GONE = (Py4JError, ConnectionError)
"""What a call to Java ends with when there is no Java: the plain error if the call was under way."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a query has come in this run."""

    state: str = "starting"
    """starting, running, waiting (for data or the trigger), stopping, ended or failed"""
    epochs: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    """Of the last epoch that had rows."""
    last_epoch_seconds: float = 0.0
    busy_seconds: float = 0.0
    """What all epochs together took: elapsed time less Spark's start and the waiting for data."""
    elapsed_seconds: float = 0.0


def start_session(pipeline: Pipeline, *, quiet: bool = False) -> SparkSession:
    """A session with the pipeline's settings. A quiet one logs nothing but what kills Spark itself."""
    conf = dict(pipeline.spark)
    if quiet:
        conf.setdefault("spark.ui.showConsoleProgress", "false")
        _quieten()
    with translated():
        return session(pipeline.name, master=conf.pop("spark.master", None), conf=conf)


def stop_session(spark: SparkSession) -> None:
    """Stop Spark. One that is gone already is no error: why it went is told by whoever used it."""
    with suppress(*GONE):
        spark.stop()


def _quieten() -> None:
    """Give the JVM that is about to start our log configuration, unless the user has one."""
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    theirs = Path(os.environ.get("SPARK_CONF_DIR", "conf")) / "log4j2.properties"
    if "log4j" not in options and not theirs.is_file():
        ours = Path(__file__).with_name("quiet.properties").as_uri()
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -Dlog4j2.configurationFile={ours}".strip()


def apply_transforms(spark: SparkSession, pipeline: Pipeline, rows: DataFrame) -> DataFrame:
    """Run the pipeline's SQL, each query over the result of the one before."""
    for number, transform in enumerate(pipeline.transforms, start=1):
        rows.createOrReplaceTempView(SOURCE_VIEW)
        with translated(f"Transform {number}"):
            rows = spark.sql(transform.sql)
        if transform.name:
            rows.createOrReplaceTempView(transform.name)
    return rows


def start_query(spark: SparkSession, pipeline: Pipeline) -> StreamingQuery:
    """Start the pipeline's query; it runs on its own from here."""
    source, sink = pipeline.source_connection(), pipeline.sink_connection()
    with translated():
        rows = spark.readStream.format("volley").options(connector=source.name, **source.config.to_options()).load()
        writer = (
            apply_transforms(spark, pipeline, rows)
            .writeStream.format("volley")
            .options(connector=sink.name, **sink.config.to_options())
            .option("checkpointLocation", pipeline.checkpoint_location)
            .outputMode(pipeline.output_mode)
            .queryName(pipeline.name)
        )
        if pipeline.trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        elif pipeline.interval_seconds is not None:
            writer = writer.trigger(processingTime=f"{round(pipeline.interval_seconds * 1000)} milliseconds")
        return writer.start()


@contextmanager
def translated(what: str = "") -> Iterator[None]:
    """Raise Volley's own error in place of the Spark error that holds it."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = volley_error(str(error))
        raise type(found)(f"{what}: {found}" if what else str(found)) from error
    except GONE as error:
        raise VolleyError(f"Spark's Java process has gone ({error}). Was it killed for want of memory?") from error


@dataclass
class Run:
    """One query from its start to its end. `stop` may be called from a signal handler."""

    query: StreamingQuery
    progress: Progress = field(default_factory=Progress)
    _asked: int = 0
    _seen: tuple[int, str] = (-1, "")
    _began: float = field(default_factory=time.monotonic)

    def stop(self) -> None:
        """Stop after the running epoch; called a second time, at once."""
        self._asked += 1

    @property
    def stopping(self) -> bool:
        return self._asked > 0

    def watch(self, show: Callable[[Progress], None], timeout_seconds: float | None = None) -> bool:
        """Follow the query to its end. False if the time ran out before; then it was stopped between two epochs.

        Raises the query's own error if it fails.
        """
        ids = {"query_id": self.query.id, "run_id": self.query.runId}
        hooks.fire("query_started", **ids, name=self.query.name)
        try:
            with translated():
                in_time = self._follow(show, timeout_seconds)
        except VolleyError as error:
            # Spark itself may be gone, so it is not asked again.
            show(replace(self.progress, state="failed"))
            hooks.fire("query_ended", **ids, error=str(error))
            raise
        hooks.fire("query_ended", **ids, error=None)
        return in_time

    def _follow(self, show: Callable[[Progress], None], timeout_seconds: float | None) -> bool:
        deadline = math.inf if timeout_seconds is None else self._began + timeout_seconds
        while self.query.isActive and not self._asked and time.monotonic() < deadline:
            self._look(show)
            time.sleep(POLL_SECONDS)
        in_time = self._asked > 0 or not self.query.isActive
        if self.query.isActive:
            self._stop_between_epochs(show, deadline + GRACE_SECONDS)
        self._raise_failure()
        self._look(show, "ended")
        return in_time

    def _stop_between_epochs(self, show: Callable[[Progress], None], patience: float) -> None:
        """A query that never rests starts its next epoch at once: then the end of the present one is the moment."""
        self._look(show, "stopping")
        epochs = self.progress.epochs
        while self._asked < 2 and time.monotonic() < patience and self.query.status["isTriggerActive"]:
            self._look(show, "stopping")
            if self.progress.epochs > epochs:
                break
            time.sleep(STOP_POLL_SECONDS)
        self.query.stop()

    def _raise_failure(self) -> None:
        error = self.query.exception()
        if error is not None:
            raise volley_error(str(error)) from error

    def _look(self, show: Callable[[Progress], None], state: str | None = None) -> None:
        for update in self._new_updates():
            self.progress = _add(self.progress, update)
        elapsed = time.monotonic() - self._began
        self.progress = replace(self.progress, state=state or self._state(), elapsed_seconds=elapsed)
        show(self.progress)

    def _state(self) -> str:
        status = self.query.status
        if status["isTriggerActive"] and status["isDataAvailable"]:
            return "running"
        return "starting" if self.query.lastProgress is None else "waiting"

    def _new_updates(self) -> Sequence[Mapping[str, Any]]:
        last = self.query.lastProgress
        if last is None or _key(last) == self._seen:
            return []
        new = [update for update in self.query.recentProgress if _key(update) > self._seen]
        self._seen = _key(last)
        return new


def _key(update: Any) -> tuple[int, str]:
    # While it has nothing to read, Spark reports the coming epoch's number again and again.
    return (int(update["batchId"]), str(update["timestamp"]))


def _add(progress: Progress, update: Mapping[str, Any]) -> Progress:
    durations = update["durationMs"]
    if "addBatch" not in durations:
        return progress
    rows, seconds = int(update["numInputRows"]), durations["triggerExecution"] / 1000
    return replace(
        progress,
        epochs=progress.epochs + 1,
        rows=progress.rows + rows,
        rows_per_second=rows / seconds if rows and seconds else progress.rows_per_second,
        last_epoch_seconds=seconds,
        busy_seconds=progress.busy_seconds + seconds,
    )
