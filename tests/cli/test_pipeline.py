"""Pipeline files: what they may say, and what each mistake is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from volley_connectors.pipeline import Pipeline, load_pipeline
from volley_core import ConfigError

YAML = """
name: orders
source: {connector: memory, name: in, max_files_per_trigger: 5}
transforms:
  - SELECT * FROM source
  - {name: cleaned, sql: SELECT id FROM source}
sink: {connector: memory, name: out}
checkpoint: /data/checkpoints/orders
trigger: 10 seconds
spark: {spark.sql.shuffle.partitions: 4, spark.ui.enabled: false}
"""
TOML = """
name = "orders"
transforms = ["SELECT * FROM source", {name = "cleaned", sql = "SELECT id FROM source"}]
checkpoint = "/data/checkpoints/orders"
trigger = "10 seconds"
[source]
connector = "memory"
name = "in"
max_files_per_trigger = 5
[sink]
connector = "memory"
name = "out"
[spark]
spark.sql.shuffle.partitions = 4
"spark.ui.enabled" = false
"""


def load(tmp_path: Path, text: str, suffix: str = ".yaml") -> Pipeline:
    path = tmp_path / f"pipeline{suffix}"
    path.write_text(text)
    return load_pipeline(path)


def error(tmp_path: Path, text: str, suffix: str = ".yaml") -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, suffix)
    assert str(caught.value).startswith(str(tmp_path / f"pipeline{suffix}"))
    return str(caught.value)


@pytest.mark.parametrize(("text", "suffix"), [(YAML, ".yaml"), (YAML, ".yml"), (TOML, ".toml")])
def test_yaml_and_toml_say_the_same(tmp_path: Path, text: str, suffix: str) -> None:
    pipeline = load(tmp_path, text, suffix)
    assert pipeline.source.connector == "memory"
    assert pipeline.source.options == {"name": "in", "max_files_per_trigger": 5}
    assert [(t.name, t.sql) for t in pipeline.transforms] == [
        (None, "SELECT * FROM source"),
        ("cleaned", "SELECT id FROM source"),
    ]
    assert pipeline.interval_seconds == 10
    assert pipeline.spark == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}


def test_the_source_remembers_beside_the_checkpoint_unless_told_where(tmp_path: Path) -> None:
    pipeline = load(tmp_path, YAML)
    assert pipeline.source_connection().config.state_location == "/data/checkpoints/orders/volley-state"
    told = pipeline.with_source(pipeline.source.with_options({"name": "in", "state_location": "/elsewhere"}))
    assert told.source_connection().config.state_location == "/elsewhere"


def test_the_sink_knows_the_pipeline_by_its_name_unless_told_another(tmp_path: Path) -> None:
    pipeline = load(tmp_path, YAML)
    assert pipeline.sink_connection().config.pipeline_id == "orders"
    told = pipeline.with_sink(pipeline.sink.with_options({"name": "out", "pipeline_id": "other"}))
    assert told.sink_connection().config.pipeline_id == "other"


def test_a_relative_checkpoint_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = load(tmp_path, YAML)
    assert pipeline.with_checkpoint("state").checkpoint_location == str(tmp_path / "state")
    assert pipeline.with_checkpoint("s3://bucket/state").checkpoint_location == "s3://bucket/state"


def test_a_pipeline_without_checkpoint_says_how_to_give_one(tmp_path: Path) -> None:
    pipeline = load(tmp_path, "name: p\nsource: memory\nsink: memory\n")
    with pytest.raises(ConfigError, match="--checkpoint"):
        _ = pipeline.checkpoint_location


def test_the_pipelines_schema_goes_to_the_source(tmp_path: Path) -> None:
    pipeline = load(tmp_path, YAML + "schema: id bigint, name string\n")
    assert pipeline.source_connection().config.schema.names == ["id", "name"]


def test_a_schema_given_twice_is_refused(tmp_path: Path) -> None:
    text = YAML.replace("name: in,", "name: in, schema: id bigint,") + "schema: id bigint\n"
    with pytest.raises(ConfigError, match="given twice"):
        load(tmp_path, text).source_connection()


def test_variables_are_filled_in_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANNEL", "from: environment")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("UNSET", raising=False)
    text = """
name: p
source: {connector: memory, name: "${CHANNEL}", a: "x-${UNSET:-default}-y", b: "${EMPTY:-filled}", c: "$${CHANNEL}"}
sink: memory
transforms: ["SELECT '$5' FROM ${UNSET:-source}"]
"""
    pipeline = load(tmp_path, text)
    assert pipeline.source.options == {
        "name": "from: environment",
        "a": "x-default-y",
        "b": "filled",
        "c": "${CHANNEL}",
    }
    assert pipeline.transforms[0].sql == "SELECT '$5' FROM source"


def test_every_missing_variable_is_named_with_the_place_that_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_SECRET", raising=False)
    monkeypatch.delenv("NO_SUCH_NAME", raising=False)
    message = error(tmp_path, YAML.replace("name: in", "name: '${NO_SUCH_NAME}', password: '${NO_SUCH_SECRET}'"))
    assert "NO_SUCH_NAME (used by source.name)" in message
    assert "NO_SUCH_SECRET (used by source.password)" in message


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("sink:", "snk:"), "Did you mean 'sink'?"),
        (("name: orders", "name: 'or ders'"), "Option 'name'"),
        (("name: orders\n", ""), "Option 'name' is required"),
        (("{connector: memory, name: out}", "{name: out}"), "'sink' must be a mapping with 'connector: NAME'"),
        (("{connector: memory, name: out}", "[memory]"), "'sink' must be a mapping"),
        (("trigger: 10 seconds", "trigger: continuous"), "no Python data source in continuous mode"),
        (("trigger: 10 seconds", "trigger: real-time"), "nothing could be replayed"),
        (("trigger: 10 seconds", "trigger: sometimes"), "expected a number and a unit"),
        (("spark.ui.enabled", "ui.enabled"), "they begin with 'spark.'"),
        (("{name: cleaned, sql", "{nme: cleaned, sql"), "Did you mean 'name'?"),
        (("name: cleaned", "name: not a name"), "a transform's name becomes a view"),
    ],
)
def test_a_mistake_is_answered_with_what_to_do(tmp_path: Path, change: tuple[str, str], reason: str) -> None:
    assert reason in error(tmp_path, YAML.replace(*change))


def test_bad_yaml_is_answered_with_the_line(tmp_path: Path) -> None:
    assert "Not valid YAML, line 3" in error(tmp_path, "name: p\nsource: {connector: memory\nsink: x\n")


def test_bad_toml_is_answered_with_the_line(tmp_path: Path) -> None:
    assert "line 2" in error(tmp_path, 'name = "p"\nsource = \n', ".toml")


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    assert "line 3, column 1: the key 'name' appears twice" in error(tmp_path, "name: p\nsource: memory\nname: q\n")


def test_a_key_that_yaml_does_not_read_as_text_is_refused(tmp_path: Path) -> None:
    assert "put it in quotes" in error(tmp_path, "name: p\non: memory\n")


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    assert "must be a mapping" in error(tmp_path, "- name\n")
    assert "must be a mapping" in error(tmp_path, "")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml: There is no such file"):
        load_pipeline(tmp_path / "missing.yaml")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    assert ".toml" in error(tmp_path, "{}", ".json")


def test_yaml_cannot_make_python_objects(tmp_path: Path) -> None:
    assert "Not valid YAML" in error(tmp_path, "name: !!python/object/apply:os.getcwd []\n")
