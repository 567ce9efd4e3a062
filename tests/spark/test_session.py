from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from volley_connectors.spark import session, tune
from volley_connectors.spark.sessions import _read_properties, _settings_of_start, _submit_arguments
from volley_connectors.spark.settings import (
    LOCAL_CHECKPOINTS,
    LOCAL_SETTINGS,
    MAX_BYTES_PER_BATCH,
    MAX_RECORDS_PER_BATCH,
    PARALLEL_GC,
    SETTINGS,
    is_local,
    missing,
    wanted,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNIX_SOCKET = "spark.python.unix.domain.socket.enabled"


@pytest.fixture
def fresh(spark: SparkSession) -> SparkSession:
    """A session of the test's own on the shared context, with no setting of Volley's."""
    own = spark.newSession()
    for setting in wanted(None, local_checkpoints=True):
        if not setting.static:
            own.conf.unset(setting.key)
    return own


@pytest.fixture
def plain_launch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A start that neither files nor variables have a say in; gives Spark's empty config directory."""
    for name in ("PYSPARK_SUBMIT_ARGS", "MASTER", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "JAVA_TOOL_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    return tmp_path


def test_every_setting_has_a_reason_and_a_key_of_its_own() -> None:
    settings = (*SETTINGS, *LOCAL_SETTINGS, LOCAL_CHECKPOINTS)
    assert all(len(setting.reason) > 20 for setting in settings)
    assert len({setting.key for setting in settings}) == len(settings)


def test_the_session_has_every_setting(spark: SparkSession) -> None:
    for setting in wanted("local[2]", local_checkpoints=True):
        assert setting.value in str(spark.conf.get(setting.key)), setting.key


def test_static_says_what_spark_will_not_change_later(fresh: SparkSession) -> None:
    for setting in wanted("local", local_checkpoints=True):
        if setting.static:
            assert not fresh.conf.isModifiable(setting.key), setting.key
        else:
            fresh.conf.set(setting.key, setting.value)


def test_the_driver_runs_the_collector_that_was_asked_for(spark: SparkSession) -> None:
    beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()  # type: ignore[union-attr]
    assert {bean.getName() for bean in beans} == {"PS MarkSweep", "PS Scavenge"}


def test_the_bound_on_bytes_is_the_largest_that_spark_takes(fresh: SparkSession) -> None:
    from pyspark.errors import IllegalArgumentException

    value = next(s.value for s in SETTINGS if s.key == MAX_BYTES_PER_BATCH)
    with pytest.raises(IllegalArgumentException, match="INT_MAX"):
        fresh.conf.set(MAX_BYTES_PER_BATCH, str(int(value) + 1))


def test_spark_knows_the_checkpoint_file_manager(spark: SparkSession, checkpoint: str) -> None:
    query = spark.readStream.format("rate").load().writeStream.format("noop").option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    assert (Path(checkpoint) / "metadata").is_file()


def test_python_workers_run_this_interpreter(spark: SparkSession) -> None:
    from pyspark.sql.functions import udf

    @udf("string")
    def prefix() -> str:
        return sys.prefix

    assert spark.range(1).select(prefix()).first()[0] == sys.prefix  # type: ignore[index]


def test_tune_sets_what_is_unset_and_reports_it(fresh: SparkSession) -> None:
    changed = tune(fresh)
    assert changed == {setting.key: setting.value for setting in SETTINGS if not setting.static}
    assert {key: fresh.conf.get(key) for key in changed} == changed
    assert tune(fresh) == {}


def test_tune_keeps_what_the_user_set(fresh: SparkSession) -> None:
    fresh.conf.set(MAX_BYTES_PER_BATCH, "1000000")
    assert MAX_BYTES_PER_BATCH not in tune(fresh)
    assert fresh.conf.get(MAX_BYTES_PER_BATCH) == "1000000"


def test_tune_keeps_the_bound_on_bytes_where_the_user_lifted_the_one_on_rows(fresh: SparkSession) -> None:
    fresh.conf.set(MAX_RECORDS_PER_BATCH, "0")
    assert tune(fresh) == {}


def test_tune_leaves_the_checkpoint_file_manager_alone_unless_told(fresh: SparkSession) -> None:
    assert LOCAL_CHECKPOINTS.key not in tune(fresh)
    assert tune(fresh, local_checkpoints=True) == {LOCAL_CHECKPOINTS.key: LOCAL_CHECKPOINTS.value}


def test_session_gives_the_running_session_what_it_can_still_take(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    with caplog.at_level(logging.WARNING):
        again = session(conf={"spark.sql.session.timeZone": "Asia/Tokyo", "spark.ui.port": 4999})
    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert "spark.ui.port stays unset, not 4999" in caplog.text
    again.conf.set("spark.sql.session.timeZone", before)


def test_session_finds_the_running_spark_from_another_thread(spark: SparkSession) -> None:
    found: list[SparkSession] = []
    thread = threading.Thread(target=lambda: found.append(session()))
    thread.start()
    thread.join()
    assert found[0].sparkContext is spark.sparkContext


def test_without_a_word_from_anybody_spark_runs_here_on_all_cores(plain_launch: Path) -> None:
    settings = _settings_of_start("name", {}, local_checkpoints=False)
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.app.name"] == "name"
    assert settings[UNIX_SOCKET] == "true"
    assert LOCAL_CHECKPOINTS.key not in settings


def test_spark_defaults_are_not_overridden(plain_launch: Path) -> None:
    (plain_launch / "spark-defaults.conf").write_text(
        f"# site settings\nspark.master  local[3]\nspark.driver.extraJavaOptions = -Da=b\n{UNIX_SOCKET}:false\n"
    )
    settings = _settings_of_start("name", {}, local_checkpoints=False)
    assert settings["spark.master"] == "local[3]"
    assert not {"spark.driver.extraJavaOptions", UNIX_SOCKET} & settings.keys()
    assert settings["spark.executor.extraJavaOptions"] == PARALLEL_GC


def test_what_the_caller_asks_for_wins_over_everything(plain_launch: Path) -> None:
    (plain_launch / "spark-defaults.conf").write_text("spark.master local[3]\n")
    asked = {"spark.master": "local[1]", "spark.ui.enabled": "true"}
    assert asked.items() <= _settings_of_start("name", asked, local_checkpoints=False).items()


def test_submit_arguments_are_not_overridden(plain_launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (plain_launch / "more.conf").write_text("spark.ui.enabled true\nspark.a from file\n")
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        f"--master 'local[7]' --name mine --conf spark.a=b=c --properties-file {plain_launch}/more.conf pyspark-shell",
    )
    assert _submit_arguments()["spark.a"] == "b=c"
    settings = _settings_of_start("name", {}, local_checkpoints=False)
    assert (settings["spark.master"], settings["spark.app.name"]) == ("local[7]", "mine")
    assert "spark.ui.enabled" not in settings


def test_a_cluster_gets_no_settings_of_this_machine(plain_launch: Path) -> None:
    settings = _settings_of_start("name", {"spark.master": "spark://host:7077"}, local_checkpoints=False)
    assert UNIX_SOCKET in settings
    assert not {setting.key for setting in LOCAL_SETTINGS} & settings.keys()


def test_a_connect_server_elsewhere_gets_only_what_the_caller_asks_for(
    plain_launch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://host:15002")
    assert _settings_of_start("name", {"spark.a": "b"}, local_checkpoints=False) == {"spark.a": "b"}


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "SPARK_SUBMIT_OPTS"])
def test_a_collector_that_the_user_chose_is_the_only_one(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "-Xmx2g -XX:+UseZGC")
    assert PARALLEL_GC not in missing(wanted("local"), {}).values()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("spark.a b c", {"spark.a": "b c"}),
        ("spark.a=b", {"spark.a": "b"}),
        (" spark.a : b=c ", {"spark.a": "b=c"}),
        ("spark.a", {"spark.a": ""}),
        ("# spark.a b", {}),
        ("", {}),
    ],
)
def test_properties_are_read_as_spark_reads_them(line: str, expected: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text(line + "\n")
    assert _read_properties(tmp_path / "file") == expected


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*]", True), ("local-cluster[1,1,1024]", True), ("localhost", False), ("yarn", False)],
)
def test_local_masters_are_told_from_others(master: str, local: bool) -> None:
    assert is_local(master) is local


IN_SPARK_SUBMIT = """
import json
from volley_connectors.spark import session
spark = session("mine")
keys = ["spark.master", "spark.ui.enabled", "spark.python.unix.domain.socket.enabled", "spark.driver.host"]
print("RESULT" + json.dumps({key: spark.conf.get(key) for key in keys}))
spark.stop()
"""

ON_CONNECT = """
import json
from volley_connectors.spark import session, tune
spark = session(conf={"spark.remote": "local[1]"})
print("RESULT" + json.dumps({
    "type": type(spark).__module__,
    "rows": spark.range(7).count(),
    "bytes": spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch"),
    "socket": spark.conf.get("spark.python.unix.domain.socket.enabled"),
    "again": tune(spark),
}))
spark.stop()
"""


def run_elsewhere(command: list[str], directory: Path, **variables: str) -> dict[str, object]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, **variables}
    run = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=directory, env=environment)
    assert run.returncode == 0, run.stderr[-3000:]
    result: dict[str, object] = json.loads(run.stdout.partition("RESULT")[2].splitlines()[0])
    return result


def test_under_spark_submit_its_settings_are_kept(tmp_path: Path) -> None:
    import pyspark

    script = tmp_path / "job.py"
    script.write_text(IN_SPARK_SUBMIT)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ["--master", "local[1]", "--conf", "spark.ui.enabled=true", "--conf", "spark.ui.port=0"]
    assert run_elsewhere([str(submit), *options, str(script)], tmp_path) == {
        "spark.master": "local[1]",
        "spark.ui.enabled": "true",
        UNIX_SOCKET: "true",
        "spark.driver.host": "127.0.0.1",
    }


def test_on_spark_connect_the_session_is_tuned_too(tmp_path: Path) -> None:
    # SPARK_TESTING makes Spark's local Connect server take a free port.
    result = run_elsewhere([sys.executable, "-c", ON_CONNECT], tmp_path, SPARK_TESTING="1")
    assert result == {
        "type": "pyspark.sql.connect.session",
        "rows": 7,
        "bytes": "2147483647",
        "socket": "true",
        "again": {},
    }


def test_importing_the_package_does_not_import_pyspark() -> None:
    code = "import sys, volley_connectors.spark; print('pyspark' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
