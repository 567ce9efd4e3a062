"""Each decoder on one core, beside Spark's own reader of the same file into nowhere.

    python -m benchmarks.decoders [--rows 200000] [--rounds 7] [--json FILE]

Both are measured in every round, in turn and warm, on one pinned core; ratios are taken within a round, CPU first.
Spark's reader of Avro is that of another Spark: see benchmarks/avro_spark.py.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks import avro_spark
from benchmarks.avro_spark import AvroSpark
from benchmarks.cpu import CpuMeter
from volley_connectors.registry import build, installed
from volley_connectors.spark import session
from volley_core.schema import parse_schema

FLAT = (
    "id bigint, customer string, country string, amount double, at timestamp, ok boolean, note string, quantity bigint"
)
NESTED = FLAT + ", device struct<os: string, version: bigint>, tags array<string>"
TARGETS = {"json": 1.7, "json gzip": 1.7, "csv": 3.0, "avro snappy": 1.5, "avro deflate": 1.5, "parquet zstd": 1.0}
WARM_UP_ROUNDS = 3


@dataclass(frozen=True)
class Sample:
    """One reader of one file, measured once."""

    format: str
    reader: str
    wall_seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Input:
    """A file, and who reads it."""

    format: str
    decoder: str
    path: Path
    ddl: str
    spark: str | None
    """Spark's name of the format, if it reads it."""


def events(rows: int) -> list[dict[str, Any]]:
    """An event table: ids, texts, a double, a timestamp, a boolean, nullable columns, a struct and a list."""
    chance = random.Random(1)
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    return [
        {
            "id": number,
            "customer": f"customer-{chance.randrange(10_000)}",
            "country": chance.choice(["AT", "DE", "US", "FR"]),
            "amount": round(chance.random() * 1000, 2),
            "at": begin + timedelta(milliseconds=137 * number),
            "ok": chance.random() < 0.5,
            "note": None if number % 3 else f"some longer text that stands for a note {number}",
            "quantity": chance.randrange(1000) if number % 2 else None,
            "device": {"os": chance.choice(["ios", "android"]), "version": chance.randrange(20)},
            "tags": [chance.choice(["a", "bb", "ccc"]) for _ in range(chance.randrange(4))],
        }
        for number in range(rows)
    ]


def write(folder: Path, rows: list[dict[str, Any]]) -> list[Input]:
    """The same rows in every format whose decoder is installed."""
    table = pa.Table.from_pylist(rows, schema=parse_schema(NESTED))
    text = "".join(json.dumps(row, default=_json) + "\n" for row in rows).encode()
    names = {found.name for found in installed("decoders")}
    plans: list[tuple[str, str, str, str | None, Callable[[str], Any]]] = [
        ("json", "e.json", NESTED, "json", lambda path: Path(path).write_bytes(text)),
        ("json gzip", "e.json.gz", NESTED, "json", lambda path: Path(path).write_bytes(gzip.compress(text, 6))),
        ("csv", "e.csv", FLAT, "csv", lambda path: pc.write_csv(_flat(table), path)),
        ("avro snappy", "snappy.avro", NESTED, "avro", lambda path: _write_avro(path, rows, "snappy")),
        ("avro deflate", "deflate.avro", NESTED, "avro", lambda path: _write_avro(path, rows, "deflate")),
        ("parquet zstd", "e.parquet", NESTED, "parquet", lambda path: pq.write_table(table, path, compression="zstd")),
        ("orc zstd", "e.orc", NESTED, "orc", lambda path: orc.write_table(table, path, compression="zstd")),
        ("arrow", "e.arrow", NESTED, None, lambda path: _write_arrow(path, table)),
    ]
    inputs = []
    for name, file, ddl, spark, make in plans:
        decoder = name.split()[0]
        if decoder in names:
            make(str(folder / file))
            inputs.append(Input(name, decoder, folder / file, ddl, spark))
    return inputs


def _json(value: datetime) -> str:
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _flat(table: pa.Table) -> pa.Table:
    return table.select(parse_schema(FLAT).names)


def _write_arrow(path: str, table: pa.Table) -> None:
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _write_avro(path: str, rows: list[dict[str, Any]], codec: str) -> None:
    kinds: dict[str, Any] = {
        "id": "long",
        "customer": "string",
        "country": "string",
        "amount": "double",
        "at": {"type": "long", "logicalType": "timestamp-micros"},
        "ok": "boolean",
        "note": "string",
        "quantity": "long",
        "device": {
            "type": "record",
            "name": "Device",
            "fields": [{"name": "os", "type": "string"}, {"name": "version", "type": "long"}],
        },
        "tags": {"type": "array", "items": "string"},
    }
    fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]
    with open(path, "wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Event", "fields": fields}, rows, codec=codec)


def decode(source: Input, rows: int) -> Sample:
    """The decoder alone, from memory: the store is not what is measured."""
    data, schema = source.path.read_bytes(), parse_schema(source.ddl)
    decoder = build("decoders", source.decoder, {})
    wall, cpu = time.perf_counter(), time.process_time()
    found = sum(batch.num_rows for batch in decoder.decode(io.BytesIO(data), schema))
    sample = Sample(source.format, "volley", time.perf_counter() - wall, time.process_time() - cpu)
    if found != rows:
        raise RuntimeError(f"{source.path}: {found} rows, not {rows}")
    return sample


def read(spark: SparkSession, source: Input) -> Sample:
    """Spark's reader, into its sink that drops all rows."""
    frame = spark.read.schema(source.ddl).format(str(source.spark)).option("header", "true").load(str(source.path))
    with CpuMeter() as cpu:
        wall = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        wall = time.perf_counter() - wall
    return Sample(source.format, "spark", wall, cpu.seconds)


def measure(spark: SparkSession, avro: AvroSpark, inputs: list[Input], rows: int, rounds: int) -> list[Sample]:
    """Every reader of every file in turn; the first rounds warm Spark's compiler and are not kept."""
    samples = []
    for number in range(-WARM_UP_ROUNDS, rounds):
        for source in inputs:
            found = [decode(source, rows)]
            if source.spark == "avro":
                found.append(Sample(source.format, "spark", *avro.read(source.path, source.ddl)))
            elif source.spark:
                found.append(read(spark, source))
            samples += found if number >= 0 else []
        print(f"round {number + 1}/{rounds}" if number >= 0 else "warming up", flush=True)
    return samples


def report(samples: list[Sample], rows: int) -> list[dict[str, Any]]:
    """Medians, and ratios taken round by round."""
    lines = []
    for name in dict.fromkeys(sample.format for sample in samples):
        mine = [s for s in samples if (s.format, s.reader) == (name, "volley")]
        sparks = [s for s in samples if (s.format, s.reader) == (name, "spark")]
        line: dict[str, Any] = {"format": name, "target": TARGETS.get(name)}
        for figure in ("cpu_seconds", "wall_seconds"):
            for reader, found in (("volley", mine), ("spark", sparks)):
                times = [getattr(sample, figure) for sample in found]
                line[f"{reader}_rows_per_{figure[:-1]}"] = rows / statistics.median(times) if times else None
            ratios = [getattr(s, figure) / getattr(m, figure) for m, s in zip(mine, sparks, strict=bool(sparks))]
            line[f"{figure[:-8]}_ratio"] = statistics.median(ratios) if ratios else None
        if line["target"] and line["cpu_ratio"]:
            line["met"] = line["cpu_ratio"] >= line["target"]
        lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write samples and summary to this file")
    arguments = parser.parse_args()
    # Before Java starts, which inherits it: garbage collector and compiler share the core, as Arrow's threads would.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory(prefix="volley-decoders-") as work, avro_spark.serve() as avro:
        inputs = write(Path(work), events(arguments.rows))
        spark = session("volley-decoders", master="local[1]")
        spark.sparkContext.setLogLevel("ERROR")
        try:
            samples = measure(spark, avro, inputs, arguments.rows, arguments.rounds)
        finally:
            spark.stop()
    lines = report(samples, arguments.rows)
    _print(lines)
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": lines, "samples": [asdict(s) for s in samples]}, indent=2))


def _print(lines: list[dict[str, Any]]) -> None:
    print("\nM rows per CPU second (per second), medians; ratios are against Spark's reader in the same rounds")
    for line in lines:
        text = f"  {line['format']:13s}"
        for reader in ("volley", "spark"):
            cpu, wall = line[f"{reader}_rows_per_cpu_second"], line[f"{reader}_rows_per_wall_second"]
            text += f"  {reader} {cpu / 1e6:5.2f} ({wall / 1e6:5.2f})" if cpu else f"  {reader}     - (    -)"
        if line["cpu_ratio"]:
            text += f"  CPU {line['cpu_ratio']:5.2f}x  wall {line['wall_ratio']:5.2f}x"
        if "met" in line:
            text += f"  (target: {line['target']}x CPU) {'met' if line['met'] else 'MISSED'}"
        print(text)


if __name__ == "__main__":
    main()
