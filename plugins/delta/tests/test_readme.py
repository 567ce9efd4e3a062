"""The README's example runs, and its tables say what the config models say.

After a change of an option: `python plugins/delta/tests/test_readme.py` writes the tables anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import volley_delta
from deltalake import DeltaTable

from volley_core import ConnectorConfig

README = Path(__file__).parents[1] / "README.md"
_TABLE = re.compile(r"(<!-- options: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(config: type[ConnectorConfig]) -> str:
    rows = ["| option | default | meaning |", "| --- | --- | --- |"]
    for name, field in config.model_fields.items():
        default = "required" if field.is_required() else f"`{field.get_default(call_default_factory=True)}`"
        rows.append(f"| `{name}` | {default} | {field.description} |")
    return "\n".join(rows) + "\n"


def generated() -> str:
    return _TABLE.sub(lambda match: match[1] + table(getattr(volley_delta, match[2])) + match[3], README.read_text())


def test_the_option_tables_are_those_of_the_models() -> None:
    assert README.read_text() == generated()
    assert len(_TABLE.findall(README.read_text())) == 1


def test_the_example_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python file=example.py\n(.*?)```", README.read_text(), re.DOTALL)
    exec(compile(code.replace("/data/", f"{tmp_path}/"), "README.md", "exec"), {})
    rows = DeltaTable(str(tmp_path / "events")).to_pyarrow_table().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "day": "2024-01-31"},
        {"id": 2, "day": "2024-02-01"},
    ]


if __name__ == "__main__":
    README.write_text(generated())
