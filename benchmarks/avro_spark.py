"""Spark's own reader of Avro, which is a JAR, in a process of its own.

Maven does not have that JAR for every Spark. So this is a Spark of its own, of a version for which it has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from benchmarks.cpu import CpuMeter
from tests.servers.cache import kept
from tests.servers.toolchains import maven

VERSION = "4.0.1"


class AvroSpark:
    """A Spark that waits for files to read."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self, path: Path, ddl: str) -> tuple[float, float]:
        """Read a file into the sink that drops all rows; wall and CPU seconds."""
        with CpuMeter() as cpu:
            began = time.perf_counter()
            print(json.dumps([str(path), ddl]), file=_stream(self._process.stdin), flush=True)
            self._wait()
            seconds = time.perf_counter() - began
        return seconds, cpu.seconds

    def _wait(self) -> None:
        if _stream(self._process.stdout).readline().strip() != "done":
            raise RuntimeError("Spark's reader of Avro ended; what it said stands above.")


@contextmanager
def serve() -> Iterator[AvroSpark]:
    """Fetched once; alive while the block lasts. Raises RuntimeError if it cannot be had."""
    jars = maven(f"org.apache.spark:spark-avro_2.13:{VERSION}")
    install = [sys.executable, "-m", "pip", "install", "--quiet", f"pyspark=={VERSION}", "--target"]

    def make(new: Path) -> None:
        subprocess.run([*install, str(new)], check=True)

    folder = kept(f"pyspark-{VERSION}", make)
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.avro_spark", jars],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(folder), "SPARK_HOME": str(folder / "pyspark")},
    )
    try:
        spark = AvroSpark(process)
        spark._wait()
        yield spark
    finally:
        _stream(process.stdin).close()
        process.wait(60)
        _stream(process.stdout).close()


def _stream(found: IO[str] | None) -> IO[str]:
    assert found is not None
    return found


def _run(jars: str) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.driver.extraClassPath", jars)
    for key, value in {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}.items():
        builder = builder.config(key, value)
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print("done", flush=True)
    for line in sys.stdin:
        path, ddl = json.loads(line)
        spark.read.schema(ddl).format("avro").load(path).write.format("noop").mode("overwrite").save()
        print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    _run(sys.argv[1])
