"""Runs what the README shows, and checks that what the documents name exists."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main
import yaml

from volley_connectors.cli.app import app
from volley_connectors.pipeline import load_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("plugins/*/README.md"))]
ORDERS = [{"id": n, "customer": f"c{n}", "amount": float(n)} for n in range(10)]
every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def blocks(language: str) -> list[str]:
    """The README's fenced blocks whose opening line is exactly this."""
    text = (ROOT / "README.md").read_text()
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What the README calls /data, with ten orders landed, one of amount zero."""
    (tmp_path / "landing").mkdir()
    lines = "".join(json.dumps(order) + "\n" for order in ORDERS)
    (tmp_path / "landing" / "orders.json").write_text(lines)
    return tmp_path


def published(spark: SparkSession, data: Path) -> list[tuple[int, str]]:
    rows = spark.read.option("recursiveFileLookup", "true").parquet(str(data / "orders")).collect()
    return sorted((row["id"], row["customer"]) for row in rows)


def test_the_python_example_moves_every_order_once(spark: SparkSession, data: Path) -> None:
    (example,) = blocks("python")
    for _ in range(2):
        exec(compile(example.replace("/data/", f"{data}/"), "README.md", "exec"), {})
    assert published(spark, data) == [(n, f"c{n}") for n in range(1, 10)]


def test_the_pipeline_file_moves_every_order_once(
    spark: SparkSession, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from volley_connectors.spark.runner import start_query

    (example,) = blocks("yaml")
    file = data / "orders.yaml"
    file.write_text(example.replace("/data/", f"{data}/"))
    monkeypatch.delenv("LANDING", raising=False)
    query = start_query(spark, load_pipeline(file).with_trigger("available_now"))
    query.awaitTermination()
    assert published(spark, data) == [(n, f"C{n}") for n in range(1, 10)]


def test_the_connector_of_the_readme_passes_its_suite(tmp_path: Path) -> None:
    for name in ("journal.py", "test_journal.py"):
        (code,) = blocks(f"python file={name}")
        (tmp_path / name).write_text(code)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_journal.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    assert int(re.findall(r"(\d+) passed", run.stdout)[0]) > 10


def test_the_entry_point_of_the_readme_names_its_connector() -> None:
    (entry,) = blocks("toml")
    assert tomllib.loads(entry)["project"]["entry-points"]["volley.sources"] == {"journal": "journal:Journal"}


def test_the_readme_lists_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`[^|]+) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"`([a-z-]+)`", " ".join(rows))) == extras.keys()


@every_document
def test_every_volley_command_exists(document: Path) -> None:
    commands = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    shell = re.findall(r"(?:^|`)volley ([a-z]+)", document.read_text(), re.MULTILINE)
    assert set(shell) <= commands


@every_document
def test_every_make_target_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:^|`)make ([a-z-]+)", document.read_text(), re.MULTILINE)
    assert set(named) <= targets


@every_document
def test_every_file_that_is_named_exists(document: Path) -> None:
    named = re.findall(r"`((?:volley_core|volley_connectors|plugins|tests|benchmarks)/[\w./-]*)`", document.read_text())
    assert [name for name in named if not (ROOT / name).exists() and "NAME" not in name] == []


@every_document
def test_every_snippet_is_at_least_well_formed(document: Path) -> None:
    for language, code in re.findall(r"^```(\w+)[^\n]*\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL):
        if language == "python":
            compile(code, str(document), "exec")
        elif language == "yaml":
            assert yaml.safe_load(code)


def test_ci_calls_make_test() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
