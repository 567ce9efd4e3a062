"""Stops a process of a pipeline at a named point, once, and tells the test, which then kills the driver.

Python imports a module of this name in every process that has its folder on PYTHONPATH, so that Spark's workers have it
too. The process that stopped is not the one that is killed: it wakes up later and goes on, as a zombie would.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ZOMBIE_SECONDS = 4.0


def reach(point: str) -> None:
    """Stop here if this is the point, and it was passed often enough before."""
    if point != os.environ["VOLLEY_STOP_AT"]:
        return
    folder = Path(os.environ["VOLLEY_STOP_FOLDER"])
    for number in range(int(os.environ["VOLLEY_STOP_AFTER"]) + 1):
        try:
            (folder / f"{point}.{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        if number == int(os.environ["VOLLEY_STOP_AFTER"]):
            time.sleep(ZOMBIE_SECONDS)
        return


def around(owner: Any, name: str, before: str | None = None, after: str | None = None) -> None:
    plain: Callable[..., Any] = getattr(owner, name)

    def stopping(*args: Any, **keywords: Any) -> Any:
        if before:
            reach(before)
        result = plain(*args, **keywords)
        if after:
            reach(after)
        return result

    setattr(owner, name, stopping)


def between_records(owner: Any, name: str, point: str) -> None:
    plain: Callable[..., Iterator[Any]] = getattr(owner, name)

    def stopping(*args: Any) -> Iterator[Any]:
        for record in plain(*args):
            yield record
            reach(point)

    setattr(owner, name, stopping)


if os.environ.get("VOLLEY_STOP_AT"):
    from volley_blob_store_local import FilesSink

    from volley_connectors.blob.deliveries import Deliveries
    from volley_connectors.blob.manifests import ManifestLog
    from volley_connectors.blob.reading import SplitReading

    around(ManifestLog, "write", after="planned")
    between_records(SplitReading, "records", "reading")
    around(FilesSink, "on_checkpoint", before="staged", after="published")
    around(Deliveries, "settle", before="committed")
