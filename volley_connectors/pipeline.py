"""A pipeline as a YAML or TOML file: one source, SQL in between, one sink. Imports no Spark.

    name: orders
    source: {connector: files, path: /data/in, schema: "id bigint, amount double"}
    transforms:
      - SELECT id, amount * 1.19 AS gross FROM source
    sink: {connector: files, path: /data/out}
    checkpoint: /data/checkpoints/orders
    trigger: 10 seconds

`${NAME}` in any text is replaced by the environment variable, `${NAME:-text}` has a default, `$${` is a plain `${`.
"""

from __future__ import annotations

import os
import re
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, field_validator, model_validator

from volley_connectors.connection import Connection
from volley_core import ConfigError, ConnectorConfig
from volley_core.schema import ArrowSchema
from volley_core.units import parse_seconds

SUFFIXES = (".yaml", ".yml", ".toml")
AVAILABLE_NOW = "available_now"
_NO_TRIGGERS = {
    "continuous": "Spark runs no Python data source in continuous mode, and Volley publishes by epochs",
    "realtime": "there an epoch's offset is not durable before its rows are read, so that nothing could be replayed",
    "once": "it is the old form of 'available_now', without limits on one epoch",
}
_VARIABLE = re.compile(r"\$(?:\$(?=\{)|\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})")


class ConnectorUse(ConnectorConfig):
    """A connector's name, and the options that its own config will judge."""

    connector: str = Field(description="The connector's name, as `volley connectors` lists it.")
    options: dict[str, Any] = Field(default_factory=dict, description="The connector's own options.")


class Transform(ConnectorConfig):
    """One SQL query over the view `source`."""

    sql: str = Field(min_length=1, description="A query that reads the view `source`.")
    name: str | None = Field(None, description="A view of the result, for the transforms that follow.")

    @field_validator("name")
    @classmethod
    def _names_a_view(cls, name: str | None) -> str | None:
        if name is not None and re.fullmatch(r"[A-Za-z_]\w*", name) is None:
            raise ValueError("a transform's name becomes a view: use letters, digits and underscores")
        return name


with warnings.catch_warnings():
    # pydantic's own `schema` is deprecated; ours is the word that users know.
    warnings.filterwarnings("ignore", message='Field name "schema"')

    class Pipeline(ConnectorConfig):
        """What a pipeline file says."""

        name: str = Field(
            max_length=200,
            pattern=r"^[A-Za-z0-9._-]+$",
            description="Names the query, and the sink's pipeline_id where that is not given.",
        )
        source: ConnectorUse = Field(description="A mapping: the source's connector and its options.")
        transforms: tuple[Transform, ...] = Field(
            (), description="SQL queries, each over the result of the one before."
        )
        sink: ConnectorUse = Field(description="A mapping: the sink's connector and its options.")
        checkpoint: str | None = Field(
            None, min_length=1, description="Where Spark keeps the query's progress: a path or an address."
        )
        trigger: str | None = Field(
            None, description="'available_now', or an interval such as '10 seconds'; without it, as fast as possible."
        )
        output_mode: Literal["append", "update", "complete"] = Field("append", description="As Spark's outputMode.")
        spark: dict[str, str] = Field(default_factory=dict, description="Spark settings, such as spark.master.")
        schema: ArrowSchema | None = Field(  # type: ignore[assignment]
            None, description="The schema of the source's rows in Spark's DDL."
        )

        @model_validator(mode="before")
        @classmethod
        def _accept_short_forms(cls, values: dict[str, Any]) -> dict[str, Any]:
            short = dict(values)
            for side in ("source", "sink"):
                if side in short:
                    short[side] = _connector_use(side, short[side])
            if isinstance(short.get("transforms"), str):
                short["transforms"] = [short["transforms"]]
            if isinstance(short.get("transforms"), list):
                short["transforms"] = [{"sql": t} if isinstance(t, str) else t for t in short["transforms"]]
            if isinstance(short.get("spark"), Mapping):
                short["spark"] = dict(_flatten(short["spark"]))
            return short

        @field_validator("trigger")
        @classmethod
        def _know_trigger(cls, trigger: str | None) -> str | None:
            if trigger is None:
                return None
            word = re.sub(r"[\s_-]", "", trigger).lower()
            if word == "availablenow":
                return AVAILABLE_NOW
            if word in _NO_TRIGGERS:
                raise ValueError(f"{_NO_TRIGGERS[word]}; use 'available_now' or an interval such as '10 seconds'")
            parse_seconds(trigger)
            return trigger

        @field_validator("spark")
        @classmethod
        def _know_settings(cls, settings: dict[str, str]) -> dict[str, str]:
            for key in settings:
                if not key.startswith("spark."):
                    raise ValueError(f"{key!r} is no Spark setting: they begin with 'spark.'")
            return settings

        @property
        def interval_seconds(self) -> float | None:
            """The trigger's interval; None if it is not an interval."""
            return None if self.trigger in (None, AVAILABLE_NOW) else float(parse_seconds(self.trigger))

        @property
        def checkpoint_location(self) -> str:
            """The checkpoint, absolute: Spark's processes may run in another directory."""
            if self.checkpoint is None:
                raise ConfigError(
                    f"Pipeline {self.name!r} has no checkpoint. Add 'checkpoint: /a/durable/path' to the file, or give "
                    "--checkpoint."
                )
            return self.checkpoint if "://" in self.checkpoint else str(Path(self.checkpoint).expanduser().absolute())

        def source_connection(self) -> Connection:
            """The source's class and config, with what the pipeline itself knows filled in."""
            connection = _connect("sources", self.source)
            config = connection.config
            if self.schema is not None and config.schema is not None:
                raise ConfigError("The schema is given twice, for the pipeline and for its source. Give one.")
            if self.schema is not None:
                config = config.with_schema(self.schema)
            if config.state_location is None and self.checkpoint is not None:
                config = config.with_state_location(f"{self.checkpoint_location.rstrip('/')}/volley-state")
            return replace(connection, config=config)

        def sink_connection(self) -> Connection:
            """The sink's class and config, with what the pipeline itself knows filled in."""
            connection = _connect("sinks", self.sink)
            if "pipeline_id" in connection.config.model_fields_set:
                return connection
            return replace(connection, config=connection.config.with_pipeline_id(self.name))


def load_pipeline(path: Path) -> Pipeline:
    """Read and validate a pipeline file. Every error names the file."""
    try:
        return Pipeline(**_interpolate(_parse(path)))
    except ConfigError as error:
        raise type(error)(f"{path}: {error}") from error.__cause__


def _connector_use(side: str, value: Any) -> Any:
    """`files` or `{connector: files, path: ...}` as the fields of ConnectorUse."""
    if isinstance(value, ConnectorUse):
        return value
    if isinstance(value, str):
        return {"connector": value}
    if not isinstance(value, Mapping) or "connector" not in value:
        raise ValueError(f"'{side}' must be a mapping with 'connector: NAME' and options; see: volley connectors")
    return {"connector": value["connector"], "options": {k: v for k, v in value.items() if k != "connector"}}


def _connect(kind: str, use: ConnectorUse) -> Connection:
    return Connection.parse(kind, {**use.options, "connector": use.connector})


def _parse(path: Path) -> dict[str, Any]:
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"A pipeline file ends in one of {', '.join(SUFFIXES)}.")
    try:
        text = path.read_text(encoding="utf-8")
        parsed = tomllib.loads(text) if path.suffix.lower() == ".toml" else _UniqueKeyLoader(text).get_single_data()
    except FileNotFoundError:
        raise ConfigError("There is no such file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The file cannot be read: {error}.") from error
    except yaml.MarkedYAMLError as error:
        where = (
            f", line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
            if error.problem_mark
            else ""
        )
        raise ConfigError(f"Not valid YAML{where}: {error.problem}.") from error
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"Not valid {'TOML' if path.suffix.lower() == '.toml' else 'YAML'}: {error}.") from error
    if not isinstance(parsed, dict):
        raise ConfigError("The file must be a mapping with name, source, sink and checkpoint.")
    return parsed


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML without its two traps: a key given twice, where the last would win in silence, and keys that are no text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key_node.value!r} is read as {key!r}; put it in quotes",
                    problem_mark=key_node.start_mark,
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key!r} appears twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Settings by their full name: TOML reads a dotted key as nested tables."""
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, str(value).lower() if isinstance(value, bool) else str(value)


def _interpolate(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its variables replaced. All that are missing are named at once, with where they are used."""
    missing: list[str] = []

    def visit(value: Any, where: str) -> Any:
        if isinstance(value, dict):
            return {key: visit(item, f"{where}.{key}" if where else key) for key, item in value.items()}
        if isinstance(value, list):
            return [visit(item, f"{where}[{index}]") for index, item in enumerate(value)]
        return _VARIABLE.sub(lambda match: expand(match, where), value) if isinstance(value, str) else value

    def expand(match: re.Match[str], where: str) -> str:
        name, default = match.groups()
        if name is None:
            return "$"
        value = os.environ.get(name)
        if not value and default is not None:
            return default
        if value is None:
            missing.append(f"{name} (used by {where})")
        return value or ""

    expanded = visit(document, "")
    if missing:
        raise ConfigError(
            f"Environment variable not set: {', '.join(dict.fromkeys(missing))}. Export it before the command, or "
            "give a default as ${NAME:-text}."
        )
    assert isinstance(expanded, dict)
    return expanded
