"""Deleting and moving objects beyond the contract: crashes in between, big objects, what a copy keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from volley_blob_store_aws import S3BlobReader, S3BlobReaderConfig, removal

from tests.servers.aws import KEYS, client
from volley_core import BlobRef, ConfigError, VolleyError

KEY = "in/a.json"
REF = BlobRef(f"s3://landing/{KEY}")
TARGET = "s3://landing/archive/a.json"


@pytest.fixture(params=["moto", "versitygw"])
def address(request: pytest.FixtureRequest) -> str:
    """Of two stores by different hands."""
    address: str = request.getfixturevalue(request.param)
    return address


@pytest.fixture
def s3(address: str) -> Iterator[Any]:
    """A plain client, with which a test prepares and looks; the bucket is empty."""
    s3 = client("s3", address)
    if "landing" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket="landing")
    for key in keys(s3):
        s3.delete_object(Bucket="landing", Key=key)
    yield s3
    s3.close()


@pytest.fixture
def reader(s3: Any, address: str) -> Iterator[S3BlobReader]:
    reader = S3BlobReader(S3BlobReaderConfig(**KEYS, endpoint_url=address, path_style=True))
    yield reader
    reader.close()


def keys(s3: Any) -> list[str]:
    return [item["Key"] for item in s3.list_objects_v2(Bucket="landing").get("Contents", [])]


def test_a_move_that_died_before_the_original_was_deleted_is_finished(
    s3: Any, reader: S3BlobReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put_object(Bucket="landing", Key=KEY, Body=b"x")
    ref = reader.stat(REF)
    with monkeypatch.context() as patch:
        patch.setattr(removal, "delete", lambda *arguments: (_ for _ in ()).throw(ConnectionError("died")))
        with pytest.raises(ConnectionError):
            reader.move(ref, TARGET)
    assert keys(s3) == ["archive/a.json", KEY]
    assert reader.move(ref, TARGET) is True
    assert keys(s3) == ["archive/a.json"]


def test_a_copy_keeps_metadata_and_can_be_told_from_others(s3: Any, reader: S3BlobReader) -> None:
    s3.put_object(Bucket="landing", Key=KEY, Body=b"x", ContentType="text/csv", Metadata={"owner": "me"})
    assert reader.move(reader.stat(REF), TARGET)
    found = s3.head_object(Bucket="landing", Key="archive/a.json")
    assert found["ContentType"] == "text/csv"
    assert found["Metadata"]["owner"] == "me"
    s3.put_object(Bucket="landing", Key=KEY, Body=b"x")
    assert reader.move(reader.stat(REF), TARGET.replace("/a.", "/c.")) is True
    s3.put_object(Bucket="landing", Key="archive/b.json", Body=b"x")
    s3.put_object(Bucket="landing", Key=KEY, Body=b"x")
    assert reader.move(reader.stat(REF), "s3://landing/archive/b.json") is False, "the same bytes, but not our copy"


def test_a_big_object_is_copied_in_parts_with_all_that_it_has(
    s3: Any, reader: S3BlobReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_LARGEST_COPY_BYTES", 6_000_000)
    monkeypatch.setattr(removal, "_PART_BYTES", 5 * 1024**2)
    data = bytes(range(256)) * 44_000
    s3.put_object(Bucket="landing", Key=KEY, Body=data, ContentType="text/csv")
    ref = reader.stat(REF)
    assert reader.move(ref, TARGET) is True
    found = s3.get_object(Bucket="landing", Key="archive/a.json")
    assert found["ETag"].endswith('-3"'), "three parts"
    assert (found["ContentType"], found["Body"].read()) == ("text/csv", data)
    assert keys(s3) == ["archive/a.json"]
    assert reader.move(ref, TARGET) is True, "another etag, the same copy"


def test_a_bucket_that_is_not_there_is_no_success(s3: Any, reader: S3BlobReader) -> None:
    s3.put_object(Bucket="landing", Key=KEY, Body=b"x")
    with pytest.raises(VolleyError, match="Moving s3://landing/in/a.json to s3://nowhere/a.json") as caught:
        reader.move(reader.stat(REF), "s3://nowhere/a.json")
    assert isinstance(caught.value, ConfigError)
    assert keys(s3) == [KEY]
