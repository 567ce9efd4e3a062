"""The README's example runs, and its tables say what the config models say.

After a change of an option: `python plugins/blob-store-local/tests/test_readme.py` writes the tables anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.dataset as ds
import volley_blob_store_local

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
    return _TABLE.sub(
        lambda match: match[1] + table(getattr(volley_blob_store_local, match[2])) + match[3], README.read_text()
    )


def test_the_option_tables_are_those_of_the_models() -> None:
    assert README.read_text() == generated()
    assert len(_TABLE.findall(README.read_text())) == 3


def test_the_example_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python file=example.py\n(.*?)```", README.read_text(), re.DOTALL)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(json.dumps({"id": 1, "name": "x"}) + "\n")
    exec(compile(code.replace("/data/", f"{tmp_path}/"), "README.md", "exec"), {})
    assert ds.dataset(tmp_path / "out", format="parquet").to_table().to_pylist() == [{"id": 1, "name": "x"}]


if __name__ == "__main__":
    README.write_text(generated())
