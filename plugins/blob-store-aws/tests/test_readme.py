"""The README's example runs, and its tables say what the config models say.

After a change of an option: `python plugins/blob-store-aws/tests/test_readme.py` writes the tables anew.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import volley_blob_store_aws
from volley_blob_store_aws import AwsConfig, S3BlobReaderConfig, S3SourceConfig
from volley_blob_store_aws.setup.command import aws

from tests.servers.aws import announce
from volley_connectors.blob import BlobSourceConfig
from volley_core import ConnectorConfig

README = Path(__file__).parents[1] / "README.md"
_TABLE = re.compile(r"(<!-- options: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(config: type[ConnectorConfig]) -> str:
    # Shown once, with the queue; those of every blob source, with the source `files`.
    shared = set(AwsConfig.model_fields) if config in (S3BlobReaderConfig, S3SourceConfig) else set()
    shared |= {*BlobSourceConfig.model_fields, *S3BlobReaderConfig.model_fields} if config is S3SourceConfig else set()
    rows = ["| option | default | meaning |", "| --- | --- | --- |"]
    for name, field in config.model_fields.items():
        if name not in shared:
            default = "required" if field.is_required() else f"`{field.default}`"
            rows.append(f"| `{name}` | {default} | {field.description} |")
    return "\n".join(rows) + "\n"


def setup_table() -> str:
    app = typer.Typer(add_completion=False)
    app.command()(aws)
    rows = ["| option of `volley setup aws` | default | meaning |", "| --- | --- | --- |"]
    for option in typer.main.get_command(app).params:
        help_text = getattr(option, "help", "")
        default = "required" if option.required else f"`{option.default}`" if option.default else ""
        rows.append(f"| `{option.opts[0]}` | {default} | {help_text} |")
    return "\n".join(rows) + "\n"


def generated() -> str:
    def fill(match: re.Match[str]) -> str:
        name = match[2]
        return match[1] + (setup_table() if name == "setup" else table(getattr(volley_blob_store_aws, name))) + match[3]

    return _TABLE.sub(fill, README.read_text())


def test_the_option_tables_are_those_of_the_models() -> None:
    assert README.read_text() == generated()
    assert len(_TABLE.findall(README.read_text())) == 4


def test_the_example_runs(
    tmp_path: Path, aws: dict[str, Any], s3: Any, sqs: Any, bucket: str, queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    announce(s3, sqs, bucket, queue)
    s3.put_object(Bucket=bucket, Key="in/a.json", Body=b'{"id": 1, "name": "x"}\n')
    (code,) = re.findall(r"```python file=example.py\n(.*?)```", README.read_text(), re.DOTALL)
    code = code.replace("/data/", f"{tmp_path}/").replace(code.split("queue_url = ")[1].split("\n")[0], repr(queue))
    names: dict[str, Any] = {}
    exec(compile(code.replace('{"region": "eu-central-1"}', repr(aws)), "README.md", "exec"), names)
    assert capsys.readouterr().out == "[{'id': 1, 'name': 'x'}]\n"


if __name__ == "__main__":
    README.write_text(generated())
