"""The engine figure: what the bridge adds to Spark, beside bare Python sources and sinks and a JVM source in one run.

    python -m benchmarks.engine [--seconds 10] [--rounds 4] [--json FILE]

Every pipeline is measured in every round, in turn, so that a noisy neighbour hits all of them alike; CPU seconds of
the whole process tree stand beside wall time, and ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from benchmarks.bare import BareDataSource, events
from benchmarks.cpu import CpuMeter
from volley_connectors.memory import CountSink, MemorySource
from volley_connectors.spark import session

BATCHES = 16
"""Distinct batches that are read over and over: enough to leave the CPU's caches, few enough to make quickly."""
WARM_UP_EPOCHS = 2
TINY_EPOCHS = 40
ROWS_PER_EPOCH = 10_000_000

Write = Callable[[DataFrame], DataStreamWriter]


@dataclass(frozen=True)
class Sample:
    """One pipeline, measured once."""

    pipeline: str
    source: str
    batch_rows: int
    rows_per_second: float
    rows_per_cpu_second: float


class Engine:
    """The Spark session and the places of one benchmark run."""

    def __init__(self, spark: SparkSession, work: Path) -> None:
        self.spark = spark
        self.work = work
        self.run = uuid.uuid4().hex[:8]
        self._counted: list[str] = []
        spark.dataSource.register(BareDataSource)

    def push(self, batch_rows: int) -> str:
        """The same batches for Volley's memory source and for the bare one."""
        name = f"engine-{self.run}-{batch_rows}"
        folder = self.work / name
        if not folder.exists():
            folder.mkdir()
            for number in range(BATCHES):
                batch = events(batch_rows, number * batch_rows)
                MemorySource.handle(name).push(batch)
                path = str(folder / f"{number:04d}.arrow")
                with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
                    writer.write_batch(batch)
        return name

    def volley(self, batch_rows: int, rows_per_epoch: int) -> DataFrame:
        options = {"connector": "memory", "name": self.push(batch_rows), "loop": "true"}
        return self.spark.readStream.format("volley").options(**options, max_rows_per_trigger=rows_per_epoch).load()

    def bare(self, batch_rows: int, rows_per_epoch: int) -> DataFrame:
        folder = str(self.work / self.push(batch_rows))
        options = {"path": folder, "rowsPerBatch": batch_rows, "rowsPerEpoch": rows_per_epoch}
        return self.spark.readStream.format("bare").options(**options).load()

    def jvm(self, batch_rows: int, rows_per_epoch: int) -> DataFrame:
        options = {"rowsPerBatch": rows_per_epoch, "numPartitions": 2}
        frame = self.spark.readStream.format("rate-micro-batch").options(**options).load()
        return frame.selectExpr("value as id", "value % 1000 as key", "value * 0.5D as value")

    def to_count(self, frame: DataFrame) -> DataStreamWriter:
        # Each query counts under a name of its own: a name belongs to one query.
        self._counted.append(f"engine-{self.run}-{len(self._counted)}")
        return frame.writeStream.format("volley").options(connector="count", name=self._counted[-1])

    def to_bare(self, frame: DataFrame) -> DataStreamWriter:
        return frame.writeStream.format("bare").option("path", tempfile.mkdtemp(dir=self.work))

    def to_aggregate(self, frame: DataFrame) -> DataStreamWriter:
        grouped = frame.filter("id % 4 != 0").groupBy("key").sum("value")
        return grouped.writeStream.format("noop").outputMode("update")

    def clear(self) -> None:
        """Leave nothing in shared memory."""
        for size in (100, 1_000, 10_000):
            MemorySource.handle(f"engine-{self.run}-{size}").clear()
        for name in self._counted:
            CountSink.handle(name).clear()

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        return writer.option("checkpointLocation", tempfile.mkdtemp(dir=self.work)).start()


def measure(query: StreamingQuery, seconds: float) -> tuple[float, float]:
    """Rows per second and per CPU second over whole epochs, after a warm-up."""
    try:
        last = begin = _after_epoch(query, WARM_UP_EPOCHS)
        started = time.monotonic()
        with CpuMeter() as cpu:
            while time.monotonic() - started < seconds:
                last = _after_epoch(query, last + 1)
            wall = time.monotonic() - started
        rows = _rows(query, begin, last)
        return rows / wall, rows / cpu.seconds
    finally:
        query.stop()


def _after_epoch(query: StreamingQuery, number: int) -> int:
    """Wait until this epoch is done; the number of the last one that is."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        last = query.lastProgress
        if last is not None and last["batchId"] >= number and last["numInputRows"]:
            return int(last["batchId"])
        # Asking costs CPU too, which would be counted as the pipeline's.
        time.sleep(0.05)
    raise TimeoutError(f"epoch {number} did not end within 180 s")


def _rows(query: StreamingQuery, first: int, last: int) -> int:
    """The rows of the epochs after `first` up to `last`."""
    return sum(p["numInputRows"] for p in query.recentProgress if first < p["batchId"] <= last)


def throughput(engine: Engine, seconds: float, rounds: int) -> list[Sample]:
    """Every pipeline in turn, `rounds` times."""
    plans: list[tuple[str, str, int, Callable[[], DataStreamWriter]]] = []
    for size in (1_000, 10_000):
        volley = lambda size=size: engine.volley(size, ROWS_PER_EPOCH)  # noqa: E731
        bare = lambda size=size: engine.bare(size, ROWS_PER_EPOCH)  # noqa: E731
        plans += [
            ("to a counting sink", "volley", size, lambda make=volley: engine.to_count(make())),
            ("to a counting sink", "bare", size, lambda make=bare: engine.to_bare(make())),
            ("filter, keyed sum", "volley", size, lambda make=volley: engine.to_aggregate(make())),
            ("filter, keyed sum", "bare", size, lambda make=bare: engine.to_aggregate(make())),
        ]
    jvm = lambda: engine.jvm(0, ROWS_PER_EPOCH)  # noqa: E731
    plans += [
        ("to a counting sink", "jvm", 0, lambda: engine.to_bare(jvm())),
        ("filter, keyed sum", "jvm", 0, lambda: engine.to_aggregate(jvm())),
    ]
    samples = []
    for number in range(rounds):
        # There and back again: whatever runs later in a round finds a warmer or a fuller JVM.
        for pipeline, source, size, write in plans if number % 2 == 0 else reversed(plans):
            speed, per_cpu = measure(engine.start(write()), seconds)
            samples.append(Sample(pipeline, source, size, speed, per_cpu))
            print(
                f"round {number + 1}/{rounds}  {pipeline:20s} {source:7s} batches of {size or 'n/a':>6}  "
                f"{speed / 1e6:6.2f} M rows/s  {per_cpu / 1e6:6.2f} M rows/CPU-s",
                flush=True,
            )
    return samples


def epoch_costs(engine: Engine, rounds: int) -> dict[str, float]:
    """Median milliseconds of one epoch of a single batch of 100 rows, Volley's pair and the bare pair in turn."""
    pairs: dict[str, Callable[[], DataStreamWriter]] = {
        "volley": lambda: engine.to_count(engine.volley(100, 100)),
        "bare": lambda: engine.to_bare(engine.bare(100, 100)),
    }
    times: dict[str, list[float]] = {name: [] for name in pairs}
    for _ in range(rounds):
        for name, write in pairs.items():
            query = engine.start(write())
            try:
                _after_epoch(query, TINY_EPOCHS + 5)
                done = [p for p in query.recentProgress if p["numInputRows"]]
                times[name] += [p["durationMs"]["triggerExecution"] for p in done[5:]]
            finally:
                query.stop()
    return {name: statistics.median(values) for name, values in times.items()}


def report(samples: list[Sample], costs: dict[str, float]) -> dict[str, Any]:
    """Medians, and ratios taken round by round."""

    def pick(pipeline: str, source: str, size: int) -> list[Sample]:
        return [s for s in samples if (s.pipeline, s.source, s.batch_rows) == (pipeline, source, size)]

    rows: list[dict[str, Any]] = []
    for pipeline in dict.fromkeys(s.pipeline for s in samples):
        for source, size in dict.fromkeys((s.source, s.batch_rows) for s in samples):
            mine = pick(pipeline, source, size)
            base = pick(pipeline, "bare", size)
            row = {"pipeline": pipeline, "source": source, "batch_rows": size}
            for figure in ("rows_per_second", "rows_per_cpu_second"):
                row[figure] = statistics.median(getattr(sample, figure) for sample in mine)
                ratios = [getattr(m, figure) / getattr(b, figure) for m, b in zip(mine, base, strict=bool(base))]
                row[f"{figure}_to_bare"] = statistics.median(ratios) if ratios else None
            rows.append(row)
    overhead = {
        f"{r['pipeline']}, batches of {r['batch_rows']}": 1 / r["rows_per_cpu_second_to_bare"] - 1
        for r in rows
        if r["source"] == "volley"
    }
    return {
        "rows": rows,
        "volley_cpu_overhead": overhead,
        "epoch_ms": costs,
        "volley_epoch_cost_ms": costs["volley"] - costs["bare"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each pipeline is measured")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json", type=Path, help="write samples and summary to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="volley-engine-") as work:
        spark = session(
            "volley-engine", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}, local_checkpoints=True
        )
        spark.sparkContext.setLogLevel("ERROR")
        engine = Engine(spark, Path(work))
        try:
            costs = epoch_costs(engine, arguments.rounds)
            samples = throughput(engine, arguments.seconds, arguments.rounds)
        finally:
            spark.stop()
            engine.clear()
    summary = report(samples, costs)
    _print(summary)
    if arguments.json:
        arguments.json.write_text(json.dumps(summary | {"samples": [asdict(s) for s in samples]}, indent=2))


def _print(summary: dict[str, Any]) -> None:
    print("\nmedians; ratios, wall and CPU, are against the bare Python source and sink in the same rounds")
    for row in summary["rows"]:
        wall, cpu = row["rows_per_second_to_bare"], row["rows_per_cpu_second_to_bare"]
        print(
            f"  {row['pipeline']:20s} {row['source']:7s} batches of {row['batch_rows'] or 'n/a':>6}  "
            f"{row['rows_per_second'] / 1e6:6.2f} M rows/s  {row['rows_per_cpu_second'] / 1e6:6.2f} M rows/CPU-s"
            + (f"  {wall:5.2f}x {cpu:5.2f}x" if cpu else "")
        )
    for name, overhead in summary["volley_cpu_overhead"].items():
        print(f"Volley's overhead, {name}: {overhead:+.1%} CPU (target: under 10 %) {_verdict(overhead < 0.10)}")
    figure = max(r["rows_per_second"] for r in summary["rows"] if r["source"] == "volley")
    print(f"The engine figure: {figure / 1e6:.1f} M rows/s (target: 10 M on 2 cores) {_verdict(figure >= 10e6)}")
    costs, cost = summary["epoch_ms"], summary["volley_epoch_cost_ms"]
    print(
        f"An epoch: Volley {costs['volley']:.0f} ms, bare {costs['bare']:.0f} ms; "
        f"Volley's own cost {cost:+.0f} ms (target: under 50 ms) {_verdict(cost < 50)}"
    )


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    main()
