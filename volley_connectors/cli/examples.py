"""One working use of a connector in each language that can name it, made from its config's EXAMPLE."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml


def examples(kind: str, name: str, class_name: str, module: str, options: Mapping[str, Any]) -> dict[str, str]:
    """The texts by language; none for a language that the connector cannot be used from."""
    texts = {key: _text(value) for key, value in options.items()}
    if kind == "sources":
        return {"Python": _python_source(name, texts), "SQL": _sql(name, texts), "YAML": _yaml("source", name, options)}
    if kind == "sinks":
        return {"Python": _python_sink(name, texts), "YAML": _yaml("sink", name, options)}
    arguments = ", ".join(f"{key}={value!r}" for key, value in options.items())
    return {"Python": f"from {module} import {class_name}\n\n{class_name}({class_name}.Config({arguments}))"}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value) if isinstance(value, list | dict) else str(value)


def _option_lines(name: str, texts: Mapping[str, str]) -> str:
    pairs = {"connector": name, **texts}.items()
    return "\n".join(f"    .option({json.dumps(key)}, {json.dumps(value, ensure_ascii=False)})" for key, value in pairs)


def _python_source(name: str, texts: Mapping[str, str]) -> str:
    return f'rows = (\n    spark.readStream.format("volley")\n{_option_lines(name, texts)}\n    .load()\n)'


def _python_sink(name: str, texts: Mapping[str, str]) -> str:
    options = _option_lines(name, {**texts, "checkpointLocation": "/data/checkpoints/example"})
    return f'query = (\n    rows.writeStream.format("volley")\n{options}\n    .start()\n)'


def _sql(name: str, texts: Mapping[str, str]) -> str:
    pairs = {"connector": name, **texts}.items()
    options = ",\n".join(f"  {_sql_name(key)} {_sql_text(value)}" for key, value in pairs)
    return f"CREATE TEMPORARY VIEW example USING volley OPTIONS (\n{options}\n);\nSELECT * FROM example;"


def _sql_name(key: str) -> str:
    return key if key.isidentifier() else f"`{key}`"


def _sql_text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _yaml(side: str, name: str, options: Mapping[str, Any]) -> str:
    text = yaml.safe_dump({side: {"connector": name, **options}}, sort_keys=False, allow_unicode=True, width=10_000)
    return text.rstrip()
