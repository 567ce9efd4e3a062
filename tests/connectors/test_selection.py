"""Which announced objects a blob source reads."""

from __future__ import annotations

import pytest

from volley_connectors.blob.config import BlobSourceConfig
from volley_connectors.blob.selection import Selection


@pytest.mark.parametrize(
    ("uri", "wanted"),
    [
        ("s3://bucket/in/a.json", True),
        ("s3://bucket/in/day=1/a.json", True),
        ("s3://bucket/other/a.json", False),
        ("s3://bucket/in/_SUCCESS", False),
        ("s3://bucket/in/.hidden/a.json", False),
        ("s3://bucket/in/folder/", False),
        ("s3://bucket/in/", False),
    ],
)
def test_hidden_names_folder_marks_and_strangers_are_left_out(uri, wanted):
    assert Selection(BlobSourceConfig(), "s3://bucket/in/").wants(uri) is wanted
