"""A child process of test_modes: one stream, one polled stream and one batch on another kind of Spark session."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from volley_connectors.memory import MemorySink
from volley_connectors.spark import session


def main(mode: str, work: Path) -> None:
    if mode == "connect":
        spark = session("volley-modes", conf={"spark.remote": "local[2]"})
    else:
        spark = session("volley-modes", master="local-cluster[2,1,1024]", conf={"spark.executor.memory": "1g"})
    logs = work / "logs"
    logs.mkdir()
    frame = spark.readStream.format("volley").options(connector="range", max_rows_per_trigger=30).load()
    stream(frame, work / "checkpoint", connector="log", path=str(logs))
    written = [json.loads(path.read_text()) for path in logs.glob("*.json")]

    (work / "rows").write_text("55")
    options = {"connector": "ticker", "path": str(work), "state_location": str(work / "state")}
    name = f"modes-{work.name}"
    with MemorySink.handle(name) as sink:
        polled = spark.readStream.format("volley").options(**options, max_rows_per_trigger=20).load()
        stream(polled, work / "polled-checkpoint", connector="memory", name=name)
        polled_rows = sink.table()["id"].to_pylist()

    facts = {
        "session": type(spark).__module__.removesuffix(".session"),
        "stream_rows": [row["id"] for facts in written for row in facts["rows"]],
        "executors": sorted({facts["executor"] for facts in written}),
        "polled_rows": polled_rows,
        "batch_rows": spark.read.format("volley").options(connector="range").load().count(),
    }
    print(json.dumps(facts))
    spark.stop()


def stream(frame, checkpoint: Path, **sink: str) -> None:
    writer = frame.writeStream.format("volley").options(**sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    assert query.exception() is None


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
