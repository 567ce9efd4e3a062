"""The ledger figures: how long a start and an epoch's look-ups take, and how much memory and writing, by history.

    python -m benchmarks.ledger [--identities 100000000] [--work FOLDER] [--json FILE]

The history is made of random hashes, in the segments that so many epochs would have left behind. What is measured is
measured in a fresh process; "cold" means that no page of the columns is in the operating system's cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from volley_connectors.blob.bookkeeping import Bookkeeper, Rules
from volley_connectors.blob.identities import RECORD, identify
from volley_connectors.blob.ledger import Ledger, Verdict, to_records
from volley_connectors.blob.manifests import Entry, ManifestLog
from volley_connectors.blob.segment_index import Index, SegmentEntry, SegmentIndex
from volley_connectors.blob.segments import Array, merge, write
from volley_connectors.state import StateStore
from volley_core import BlobRef

AGE_MS = 14 * 24 * 3600 * 1000
RULES = Rules(max_age_ms=AGE_MS, manifest_age_ms=AGE_MS)
EPOCH = 1000
BUILT_LEVEL = 2
"""Segments of this level are made at once; of higher ones, by merging."""
KNOWN = 1000
"""Objects of every built segment whose names are known, so that they can be looked up."""
UNFOLDED = 30
COLD_EPOCHS, WARM_EPOCHS = 20, 200
FOLDS = 8
"""As many as it takes to merge once, whatever was there."""


def known(segment: int, count: int = KNOWN) -> list[BlobRef]:
    return [blob(f"known/{segment}", number) for number in range(count)]


def blob(folder: str, number: int) -> BlobRef:
    now_ms = time.time_ns() // 1_000_000
    return BlobRef(f"s3://landing/{folder}/{number:09d}.json", 1000, f"v{number}", f"{now_ms:016X}", now_ms)


def random_records(count: int, segment: int) -> Array:
    chance = np.random.default_rng(segment)
    records = np.zeros(count, RECORD)
    for name in ("high", "low", "version", "order_high", "order_low"):
        records[name] = chance.integers(0, 2**64, count, dtype=np.uint64)
    records["digits"] = 18
    records[:KNOWN] = to_records([identify(blob) for blob in known(segment)])
    return records


def build(location: str, identities: int) -> None:
    """What epochs with so many identities in all would have left, and some epochs more that are not folded yet."""
    state = StateStore(location)
    index, entries, built, left = SegmentIndex(state), [], 0, identities
    now_ms = time.time_ns() // 1_000_000
    for level in (3, 2, 1, 0):
        size = RULES.fold_identities * RULES.fan_out**level
        for _ in range(left // size):
            parts: list[SegmentEntry] = []
            for _ in range(RULES.fan_out ** max(0, level - BUILT_LEVEL)):
                count = size // RULES.fan_out ** max(0, level - BUILT_LEVEL)
                records = random_records(count, built)
                parts.append(index.add(partial(write, records=records), count, 1, 1, now_ms, level))
                built += 1
            entry = parts[0]
            if len(parts) > 1:
                segments = [index.open(part) for part in parts]
                entry = index.add(partial(merge, segments=segments), size, 1, 1, now_ms, level)
                index.delete(parts)
            entries.append(entry)
            left -= size
            print(f"  built {identities - left:,} of {identities:,}", flush=True)

    folded = max(1, identities // EPOCH)
    index.commit(Index(1, folded, 0, tuple(entries)))
    log = ManifestLog(state)
    for number in range(folded + 1, folded + 1 + UNFOLDED):
        log.write(number, [Entry(blob(f"recent/{number}", i)) for i in range(EPOCH)])
    Path(location, "built").write_text(str(built))


def drop_cache(location: str) -> None:
    for path in Path(location, "ledger", "segments").iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fill_cache(location: str) -> None:
    for path in Path(location, "ledger", "segments").iterdir():
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def measure(location: str) -> dict[str, Any]:
    """In a process that has done nothing else."""
    figures: dict[str, Any] = {"before_mb": memory_mb("VmRSS")}
    drop_cache(location)
    began = time.perf_counter()
    bookkeeper = Bookkeeper(StateStore(location), Ledger(False, AGE_MS), RULES)
    ledger = bookkeeper.load()
    figures |= {"start_seconds": time.perf_counter() - began, "segments": len(bookkeeper._open)}
    built = int(Path(location, "built").read_text())
    cold, warm, cpu = [], [], []
    for number in range(COLD_EPOCHS + WARM_EPOCHS):
        is_cold = number < COLD_EPOCHS
        if is_cold:
            drop_cache(location)
        elif number == COLD_EPOCHS:
            fill_cache(location)
        began = time.thread_time()
        (cold if is_cold else warm).append(look_up(ledger, number, built))
        cpu.append((time.thread_time() - began) * 1000)
    figures |= {"cold_ms": cold, "warm_ms": warm, "cpu_ms": cpu[COLD_EPOCHS:], "resident_mb": memory_mb("VmRSS")}

    busy, done = [], threading.Event()
    entries = sorted(bookkeeper._now.segments, key=lambda entry: entry.count)[-RULES.fan_out :]
    target = Path(location, "merged")

    def run() -> None:
        merge(target, [bookkeeper._open[entry.name] for entry in entries], done.is_set)

    thread = threading.Thread(target=lambda: suppressed(run))
    thread.start()
    for number in range(WARM_EPOCHS):
        busy.append(look_up(ledger, COLD_EPOCHS + WARM_EPOCHS + number, built))
        time.sleep(0.02)
    done.set()
    thread.join()
    target.unlink(missing_ok=True)
    return figures | {"while_merging_ms": busy, "peak_mb": memory_mb("VmHWM")}


def suppressed(run: Any) -> None:
    from volley_connectors.blob.segments import StoppedError

    try:
        run()
    except StoppedError:
        return


def look_up(ledger: Ledger, epoch: int, built: int) -> float:
    """Milliseconds for an epoch of new objects with a tenth of duplicates from all over the history."""
    chance = np.random.default_rng(epoch)
    again = [blob(f"known/{chance.integers(built)}", int(chance.integers(KNOWN))) for _ in range(EPOCH // 10)]
    blobs = [*again, *(blob(f"new/{epoch}", number) for number in range(EPOCH - len(again)))]
    began = time.perf_counter()
    verdicts = ledger.judge(blobs)
    milliseconds = (time.perf_counter() - began) * 1000
    assert verdicts == [Verdict.SEEN] * len(again) + [Verdict.NEW] * (EPOCH - len(again))
    return milliseconds


def bytes_per_epoch(location: str) -> dict[str, float]:
    """What epochs write, folding and merging included, until each identity was written as often as it will be soon."""
    written = {"manifests": 0, "ledger": 0}
    create, add = StateStore.create, SegmentIndex.add

    def counting_create(store: StateStore, name: str, data: bytes) -> bool:
        written["manifests" if store.location.endswith("manifests") else "ledger"] += len(data)
        return create(store, name, data)

    def counting_add(*arguments: Any, **named: Any) -> SegmentEntry:
        entry = add(*arguments, **named)
        written["ledger"] += entry.size
        return entry

    StateStore.create, SegmentIndex.add = counting_create, counting_add  # type: ignore[method-assign, assignment]
    try:
        state = StateStore(location)
        bookkeeper, log = Bookkeeper(state, Ledger(False, AGE_MS), RULES), ManifestLog(state)
        bookkeeper.load()
        first, epochs = bookkeeper.last() + 1, FOLDS * -(-RULES.fold_identities // EPOCH)
        for number in range(first, first + epochs):
            entries = [Entry(blob(f"more/{number}", i)) for i in range(EPOCH)]
            log.write(number, entries)
            bookkeeper.add(number, [entry.blob for entry in entries])
            bookkeeper.work()
    finally:
        StateStore.create, SegmentIndex.add = create, add  # type: ignore[method-assign]
    return {name: count / epochs for name, count in written.items()}


def memory_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--identities", type=int, default=100_000_000)
    parser.add_argument("--work", type=Path, help="a folder on a disk with 50 bytes of room for each identity, twice")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    with tempfile.TemporaryDirectory(prefix="volley-ledger-", dir=arguments.work) as work:
        large, small = f"{work}/large", f"{work}/small"
        began = time.perf_counter()
        build(large, arguments.identities)
        print(f"built in {time.perf_counter() - began:.0f} s")
        command = [sys.executable, "-m", "benchmarks.ledger", "--measure", large]
        figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        figures |= {"bytes_small": bytes_per_epoch(small), "bytes_large": bytes_per_epoch(large)}
        figures["disk_bytes"] = sum(path.stat().st_size for path in Path(large, "ledger", "segments").iterdir())
    _print(arguments.identities, figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures | {"identities": arguments.identities}, indent=2))


def _print(identities: int, figures: dict[str, Any]) -> None:
    start, resident, peak = figures["start_seconds"], figures["resident_mb"], figures["peak_mb"]
    print(f"{identities:,} identities in {figures['segments']} segments, {figures['disk_bytes'] / 1e9:.1f} GB on disk")
    print(f"start with a cold cache: {start:.2f} s (target: under 5 s) {_verdict(start < 5)}")
    for name in ("cold", "warm", "while_merging"):
        times = figures[f"{name}_ms"]
        middle, worst = statistics.median(times), max(times)
        print(
            f"{EPOCH} look-ups, {name.replace('_', ' ')}: median {middle:.1f} ms, worst {worst:.1f} ms "
            f"(target: under 50 ms) {_verdict(middle < 50)}"
        )
    print(f"  CPU of that, warm, with making the names: median {statistics.median(figures['cpu_ms']):.1f} ms")
    print(
        f"resident: {resident:.0f} MB, {figures['before_mb']:.0f} MB of it before the ledger was loaded; at most "
        f"{peak:.0f} MB, with a merge at the same time (target: under 300 MB) {_verdict(peak < 300)}"
    )
    for name in ("small", "large"):
        written = figures[f"bytes_{name}"]
        print(
            f"written per epoch, {name} history: {written['manifests'] / 1e3:.0f} kB of manifest, "
            f"{written['ledger'] / 1e3:.0f} kB of ledger"
        )
    ratio = figures["bytes_large"]["ledger"] / figures["bytes_small"]["ledger"]
    print(f"large to small: {ratio:.2f} (target: independent of the history) {_verdict(ratio < 1.2)}")


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    main()
