"""The source `s3` through Spark, beside Spark's own file source on the same files of a local disk.

    python -m benchmarks.blob_store [--rounds 3] [--json FILE]

Three figures: how fast objects become rows, beside Spark's files and the raw speed of the S3 stand-in itself; and how
long a notification takes to become a committed row at one object a second. Every pipeline is measured in every round,
in turn; CPU seconds are those of Spark and its workers, without the stand-in. Spark's side has no network to cross.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import obstore
from pyspark.sql import DataFrame, SparkSession

from benchmarks import stores
from benchmarks.cpu import CpuMeter, children
from benchmarks.latency import Latency, measure_latency
from benchmarks.stores import SCHEMA_DDL, Stores
from tests.servers.aws import KEYS
from volley_connectors.spark import session

RAW_THREADS = 8


@dataclass(frozen=True)
class Shape:
    """What lies in one folder."""

    name: str
    objects: int
    num_bytes: int

    @property
    def megabytes(self) -> float:
        return self.objects * self.num_bytes / 1e6


SHAPES = (Shape("small", 2_000, 10_000), Shape("large", 20, 10_000_000))


@dataclass(frozen=True)
class Sample:
    """One pipeline, measured once over one folder."""

    shape: str
    pipeline: str
    seconds: float
    cpu_seconds: float


def raw(place: Stores, shape: Shape) -> None:
    """Fetch every object's bytes, and do nothing with them."""
    store = obstore.store.S3Store(
        stores.BUCKET,
        endpoint=place.s3_url,
        region=KEYS["region"],
        access_key_id=KEYS["access_key_id"],
        secret_access_key=KEYS["secret_access_key"],
        client_options={"allow_http": True},
    )
    with ThreadPoolExecutor(RAW_THREADS) as pool:
        keys = (f"{shape.name}/{number:06d}.json" for number in range(shape.objects))
        assert sum(pool.map(lambda key: len(obstore.get(store, key).bytes()), keys)) > 0


class Pipelines:
    """The same folder to Spark's noop sink, by either source."""

    def __init__(self, spark: SparkSession, place: Stores, work: Path) -> None:
        self._spark = spark
        self._place = place
        self._work = work

    def volley(self, shape: Shape) -> None:
        state = tempfile.mkdtemp(dir=self._work)
        options = self._place.options | {"prefix": f"{shape.name}/", "state_location": state}
        self._drain(self._spark.readStream.format("volley").schema(SCHEMA_DDL).options(**options).load())

    def spark_files(self, shape: Shape) -> None:
        frame = self._spark.readStream.schema(SCHEMA_DDL).option("maxFilesPerTrigger", 1000)
        self._drain(frame.json(str(self._place.local / shape.name)))

    def _drain(self, frame: DataFrame) -> None:
        writer = frame.writeStream.format("noop").option("checkpointLocation", tempfile.mkdtemp(dir=self._work))
        writer.trigger(availableNow=True).start().awaitTermination()


def throughput(pipelines: Pipelines, place: Stores, rounds: int, servers: list[int]) -> list[Sample]:
    """Every pipeline over every folder in turn; a round before the first is thrown away."""
    plans: dict[str, Callable[[Shape], None]] = {
        "volley s3": pipelines.volley,
        "spark files": pipelines.spark_files,
        "raw": lambda shape: raw(place, shape),
    }
    samples = []
    for number in range(rounds + 1):
        for shape in SHAPES:
            for name in plans if number % 2 == 0 else reversed(plans):
                with CpuMeter(without=servers) as cpu:
                    began = time.monotonic()
                    plans[name](shape)
                    seconds = time.monotonic() - began
                if number:
                    samples.append(Sample(shape.name, name, seconds, cpu.seconds))
                    _tell(number, rounds, shape, samples[-1])
    return samples


def report(samples: list[Sample]) -> list[dict[str, Any]]:
    """Medians, and ratios to Spark's file source taken round by round; above 1 is faster or cheaper than Spark."""
    rows = []
    for shape in SHAPES:
        for name in dict.fromkeys(sample.pipeline for sample in samples):
            mine = [s for s in samples if (s.shape, s.pipeline) == (shape.name, name)]
            base = [s for s in samples if (s.shape, s.pipeline) == (shape.name, "spark files")]
            seconds = statistics.median(sample.seconds for sample in mine)
            cpu_seconds = statistics.median(sample.cpu_seconds for sample in mine)
            pairs = list(zip(mine, base, strict=True))
            row: dict[str, Any] = {
                "shape": shape.name,
                "pipeline": name,
                "seconds": seconds,
                "cpu_seconds": cpu_seconds,
            }
            row |= {"objects_per_second": shape.objects / seconds, "mb_per_second": shape.megabytes / seconds}
            row["wall_to_spark"] = statistics.median(b.seconds / m.seconds for m, b in pairs)
            row["cpu_to_spark"] = statistics.median(b.cpu_seconds / m.cpu_seconds for m, b in pairs)
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency-objects", type=int, default=60, help="how many are announced, one a second")
    parser.add_argument("--json", type=Path, help="write samples and summary to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="volley-blob-store-") as work, stores.serve(Path(work)) as place:
        servers = children()
        for shape in SHAPES:
            rows = place.fill(shape.name, shape.objects, shape.num_bytes)
            print(f"{shape.name}: {shape.objects} objects, {shape.megabytes:.0f} MB, {rows} rows", flush=True)
        spark = session("volley-blob-store", master="local[2]", local_checkpoints=True)
        spark.sparkContext.setLogLevel("ERROR")
        try:
            samples = throughput(Pipelines(spark, place, Path(work)), place, arguments.rounds, servers)
            latencies = measure_latency(spark, place, Path(work), arguments.latency_objects)
        finally:
            spark.stop()
    summary = report(samples)
    _print(summary, latencies)
    if arguments.json:
        found = {
            "rows": summary,
            "latency": [asdict(one) for one in latencies],
            "samples": [asdict(s) for s in samples],
        }
        arguments.json.write_text(json.dumps(found, indent=2))


def _tell(number: int, rounds: int, shape: Shape, sample: Sample) -> None:
    print(
        f"round {number}/{rounds}  {shape.name:6s} {sample.pipeline:12s} {sample.seconds:6.2f} s  "
        f"{sample.cpu_seconds:6.2f} CPU-s  {shape.objects / sample.seconds:7.0f} objects/s  "
        f"{shape.megabytes / sample.seconds:6.1f} MB/s",
        flush=True,
    )


def _print(rows: list[dict[str, Any]], latencies: list[Latency]) -> None:
    print("\nmedians; ratios are against Spark's file source on a local disk in the same rounds, above 1 is better")
    for row in rows:
        print(
            f"  {row['shape']:6s} {row['pipeline']:12s} {row['objects_per_second']:7.0f} objects/s  "
            f"{row['mb_per_second']:6.1f} MB/s  {row['cpu_seconds']:6.2f} CPU-s  "
            f"wall {row['wall_to_spark']:5.2f}x  CPU {row['cpu_to_spark']:5.2f}x"
        )
    print("\nfrom announcement (for Spark's files: from the file) to the commit of its epoch, one object a second")
    for one in latencies:
        print(
            f"  {one.pipeline:12s} median {one.median_ms:5.0f} ms  p95 {one.p95_ms:5.0f} ms  "
            f"longest {one.longest_ms:5.0f} ms  ({one.objects} objects)"
        )


if __name__ == "__main__":
    main()
