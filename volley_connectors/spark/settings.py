"""The Spark settings that matter to Volley, each with its reason. Imports no Spark.

Asynchronous progress tracking and real-time mode are not here: they are options of a query, and Volley's sources
cannot work under them, because there an epoch's offset is not durable before the next one is planned.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

JAVA_OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
PARALLEL_GC = "-XX:+UseParallelGC"
MAX_RECORDS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
MAX_BYTES_PER_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"


@dataclass(frozen=True, slots=True)
class Setting:
    """One Spark setting and why Volley wants it."""

    key: str
    value: str
    reason: str
    static: bool
    """Read when Spark starts: it cannot be changed on a running session."""


SETTINGS = (
    Setting(
        MAX_RECORDS_PER_BATCH,
        "10000",
        "The only bound on a batch once its bytes are not counted. Smaller batches than 1,000 rows are slow, larger "
        "than 10,000 gain nothing. Lower it if single rows hold megabytes.",
        static=False,
    ),
    Setting(
        MAX_BYTES_PER_BATCH,
        "2147483647",
        "Below this, its maximum, Spark measures every row on its way to Python, which halves a Python sink's speed.",
        static=False,
    ),
    Setting(
        "spark.python.unix.domain.socket.enabled",
        "true",
        "Over TCP every epoch that crosses between the JVM and Python takes about 40 ms longer.",
        static=True,
    ),
)
"""For every master."""

LOCAL_SETTINGS = (
    Setting(
        "spark.driver.host",
        "127.0.0.1",
        "Spark otherwise picks a network interface, which may be unreachable behind a VPN or a firewall.",
        static=True,
    ),
    Setting("spark.driver.bindAddress", "127.0.0.1", "Nobody on the network needs to reach this driver.", static=True),
    Setting(
        "spark.ui.enabled", "false", "Starts faster, and opens no port. Volley shows progress itself.", static=True
    ),
    Setting(
        "spark.ui.showConsoleProgress", "false", "Its bar is drawn over whatever else is on the screen.", static=True
    ),
    Setting(
        "spark.driver.extraJavaOptions",
        PARALLEL_GC,
        "10 to 20 % more rows a second than Java's default collector; its longer pauses do not matter in one process.",
        static=True,
    ),
    Setting(
        "spark.executor.extraJavaOptions",
        PARALLEL_GC,
        "As for the driver: under `local-cluster` the executors are processes of their own.",
        static=True,
    ),
)
"""For masters that run on this machine alone, and so under this process's control."""

LOCAL_CHECKPOINTS = Setting(
    "spark.sql.streaming.checkpointFileManagerClass",
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    "On a local disk it takes about 8 ms to log an epoch's offsets and as much for its commit, Spark's default 30 ms "
    "each. It is as safe as the store's rename, which object stores do not have: only for checkpoints on local disks.",
    static=False,
)
"""Only where the user says that all checkpoints are on local disks."""


def is_local(master: str) -> bool:
    """Whether Spark runs on this machine alone: `local`, `local[4]`, `local-cluster[2,1,1024]`."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def wanted(master: str | None, *, local_checkpoints: bool = False) -> tuple[Setting, ...]:
    """The settings for a session on this master; None if it is not known, as behind Spark Connect."""
    settings = SETTINGS if hasattr(socket, "AF_UNIX") else tuple(s for s in SETTINGS if "unix.domain" not in s.key)
    if master is not None and is_local(master):
        settings += LOCAL_SETTINGS
    return (*settings, LOCAL_CHECKPOINTS) if local_checkpoints else settings


def missing(settings: tuple[Setting, ...], taken: Mapping[str, str]) -> dict[str, str]:
    """Those that nobody set yet, as keys and values."""
    chosen = {s.key: s.value for s in settings if s.key not in taken}
    if not _bounds_rows(taken.get(MAX_RECORDS_PER_BATCH)):
        # Whoever lifted the bound on rows relies on the one on bytes.
        chosen.pop(MAX_BYTES_PER_BATCH, None)
    if _chooses_collector(taken):
        # Java refuses to start with two garbage collectors.
        chosen = {key: value for key, value in chosen.items() if value != PARALLEL_GC}
    return chosen


def _bounds_rows(max_records: str | None) -> bool:
    if max_records is None:
        return True
    return max_records.isdecimal() and 0 < int(max_records) <= 65_536


def _chooses_collector(taken: Mapping[str, str]) -> bool:
    options = [value for key, value in taken.items() if key.endswith("JavaOptions")]
    options += [os.environ.get(name, "") for name in JAVA_OPTION_VARIABLES]
    return any(re.search(r"-XX:\+Use\w+GC\b", text) for text in options)
