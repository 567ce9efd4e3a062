"""How long it takes from the announcement of an object until the epoch that holds it is committed."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.stores import SCHEMA_DDL, Stores, lines
from volley_connectors.blob.history import History

_ROWS_PER_OBJECT = 100
_WARM_UP_OBJECTS = 5
_DEADLINE_SECONDS = 60.0

Epochs = Callable[[], dict[str, int]]


@dataclass(frozen=True)
class Latency:
    """One pipeline's times."""

    pipeline: str
    objects: int
    median_ms: float
    p95_ms: float
    longest_ms: float


def measure_latency(spark: SparkSession, place: Stores, work: Path, objects: int) -> list[Latency]:
    """One pipeline after the other, each with objects of its own, one a second."""
    with place.clients() as (s3, sqs):
        queue_url = sqs.create_queue(QueueName="latency")["QueueUrl"]

        def announce(key: str) -> None:
            event = place.put(s3, key, lines(0, _ROWS_PER_OBJECT))
            sqs.send_message(QueueUrl=queue_url, MessageBody=event)

        state = work / "latency-state"
        options = place.options | {"prefix": "announced/", "queue_url": queue_url, "queue_endpoint_url": place.sqs_url}
        options |= {"state_location": str(state), "include_existing_files": "false"}
        volley = spark.readStream.format("volley").schema(SCHEMA_DDL).options(**options).load()
        checkpoint = work / "latency-volley"
        found = [_trickle("volley s3", volley, checkpoint, announce, "announced", objects, lambda: _planned(state))]

        (place.local / "watched").mkdir()
        files = spark.readStream.schema(SCHEMA_DDL).json(str(place.local / "watched"))
        checkpoint = work / "latency-files"
        write = lambda key: place.put(s3, key, lines(0, _ROWS_PER_OBJECT))  # noqa: E731
        log = checkpoint / "sources" / "0"
        found.append(_trickle("spark files", files, checkpoint, write, "watched", objects, lambda: _logged(log)))
    return found


def _trickle(
    pipeline: str,
    frame: DataFrame,
    checkpoint: Path,
    give: Callable[[str], Any],
    folder: str,
    objects: int,
    epochs: Epochs,
) -> Latency:
    """Run a pipeline, give it one object a second, and look up when the epoch of each was committed."""
    query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    try:
        given: dict[str, float] = {}
        for number in range(objects + _WARM_UP_OBJECTS):
            give(f"{folder}/{number:06d}.json")
            if number >= _WARM_UP_OBJECTS:
                given[f"{number:06d}.json"] = time.time()
            time.sleep(1)
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not given.keys() <= (committed := _committed(epochs(), checkpoint)).keys():
            if query.exception() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{pipeline} did not read all objects: {query.exception()}")
            time.sleep(0.1)
    finally:
        query.stop()
    times = sorted((committed[name] - moment) * 1000 for name, moment in given.items())
    return Latency(pipeline, objects, statistics.median(times), times[int(len(times) * 0.95)], times[-1])


def _committed(epochs: dict[str, int], checkpoint: Path) -> dict[str, float]:
    """When Spark wrote the commit of each object's epoch."""
    files = {epoch: checkpoint / "commits" / str(epoch) for epoch in set(epochs.values())}
    moments = {epoch: file.stat().st_mtime for epoch, file in files.items() if file.exists()}
    return {name: moments[epoch] for name, epoch in epochs.items() if epoch in moments}


def _planned(state: Path) -> dict[str, int]:
    """Volley's own record. Manifests count from 1, Spark's epochs from 0, and here each epoch has one manifest."""
    rows = [row for batch in History(str(state)).batches() for row in batch.select(["uri", "epoch"]).to_pylist()]
    return {row["uri"].rpartition("/")[2]: row["epoch"] - 1 for row in rows}


def _logged(log: Path) -> dict[str, int]:
    """The record of Spark's file source, with its compacted files."""
    found = {}
    for file in log.glob("[0-9]*"):
        for line in file.read_text().splitlines()[1:]:
            entry = json.loads(line)
            found[entry["path"].rpartition("/")[2]] = entry["batchId"]
    return found
