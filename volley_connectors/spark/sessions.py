"""Starts a Spark session with sound settings, or gives them to one that runs. What the user set is never changed.

The module is not called `session`, because importing it would then hide the function of that name in this package.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volley_connectors.java import ensure_java
from volley_connectors.spark.settings import is_local, missing, wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

DEFAULT_MASTER = "local[*]"


def session(
    app_name: str = "volley",
    *,
    master: str | None = None,
    conf: Mapping[str, Any] | None = None,
    local_checkpoints: bool = False,
) -> SparkSession:
    """The running session, or a new one, with the settings of `volley_connectors.spark.settings` where none are set.

    The master is `master`, else what spark-submit, spark-defaults.conf or the environment say, else `local[*]`.
    `local_checkpoints` makes epochs cheaper, and is right only if every checkpoint lies on a local disk.
    """
    from pyspark.sql import SparkSession

    asked = {key: _spelt(value) for key, value in (conf or {}).items()}
    if master is not None:
        asked["spark.master"] = master
    if SparkSession.getActiveSession() is not None or _has_context():
        spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        _apply(spark, asked)
    else:
        builder = SparkSession.builder
        for key, value in _settings_of_start(app_name, asked, local_checkpoints).items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    tune(spark, local_checkpoints=local_checkpoints)
    return spark


def tune(spark: SparkSession, *, local_checkpoints: bool = False) -> dict[str, str]:
    """Give a running session, classic or Connect, those settings that can still change and that the user did not set.

    Returns what was changed.
    """
    runtime = tuple(s for s in wanted(None, local_checkpoints=local_checkpoints) if not s.static)
    changed = missing(runtime, spark.conf.getAll)
    for key, value in changed.items():
        spark.conf.set(key, value)
    return changed


def _apply(spark: SparkSession, asked: Mapping[str, str]) -> None:
    """Give a session that someone else started what the caller asks for, and say what it cannot have."""
    current = spark.conf.getAll
    for key, value in asked.items():
        if current.get(key) == value:
            continue
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
        else:
            log.warning("Spark runs already, so that %s stays %s, not %s.", key, current.get(key, "unset"), value)


def _has_context() -> bool:
    """Whether this process runs Spark, whichever thread started it: an active session belongs to one thread."""
    module = sys.modules.get("pyspark.core.context")
    return module is not None and module.SparkContext._active_spark_context is not None


def _settings_of_start(app_name: str, asked: Mapping[str, str], local_checkpoints: bool) -> dict[str, str]:
    """All that must be decided before Spark starts."""
    remote = asked.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    if remote and not is_local(remote):
        return dict(asked)
    taken = {**settings_of_launch(), **asked}
    master = remote or taken.get("spark.master") or os.environ.get("MASTER") or DEFAULT_MASTER
    if not _under_spark_submit():
        ensure_java()
    if is_local(master) and "spark.pyspark.python" not in taken:
        # Workers must run the interpreter that has the connectors. Spark would take the first python3 on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ours = missing(wanted(master, local_checkpoints=local_checkpoints), taken)
    ours["spark.app.name"] = taken.get("spark.app.name", app_name)
    # A local Connect server takes its master from `spark.remote`, and both at once are refused.
    return {**ours, **asked} if remote else {**ours, **asked, "spark.master": master}


def _under_spark_submit() -> bool:
    """Whether a JVM started this process, and not the other way round."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def settings_of_launch() -> dict[str, str]:
    """What spark-submit set already, or the files and variables that it will read."""
    if _under_spark_submit():
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    return {**_spark_defaults(), **_submit_arguments()}


def _spark_defaults() -> dict[str, str]:
    from pyspark.find_spark_home import _find_spark_home

    directory = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf"
    return _read_properties(Path(directory) / "spark-defaults.conf")


def _submit_arguments() -> dict[str, str]:
    """The settings in PYSPARK_SUBMIT_ARGS, where notebooks and tools put theirs."""
    found: dict[str, str] = {}
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    for option, value in pairwise(arguments):
        match option:
            case "--conf" | "-c":
                key, _, found[key] = value.partition("=")
            case "--properties-file":
                found = {**_read_properties(Path(value)), **found}
            case "--master":
                found["spark.master"] = value
            case "--name":
                found["spark.app.name"] = value
            case "--driver-java-options":
                found["spark.driver.extraJavaOptions"] = value
    return found


def _read_properties(path: Path) -> dict[str, str]:
    """A Java properties file as Spark users write it: a key, then white space, `=` or `:`, then the value."""
    if not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    matches = (re.match(r"([^\s=:#!][^\s=:]*)\s*[=:]?\s*(.*)", line) for line in lines)
    return {match[1]: match[2] for match in matches if match}


def _spelt(value: Any) -> str:
    """As Spark spells it: Python's True is Spark's true."""
    return str(value).lower() if isinstance(value, bool) else str(value)
