"""The source `s3`: one config for queue, reader and blob source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from volley_blob_store_aws import S3Source, S3SourceConfig

from tests.servers.aws import announce, depth
from volley_core import ConfigError, ReadLimit, SplitSource

SCHEMA = "id bigint"


def put(s3: Any, key: str, *ids: int) -> None:
    s3.put_object(Bucket="landing", Key=key, Body="".join(json.dumps({"id": i}) + "\n" for i in ids).encode())


def read_epoch(source: S3Source, start: dict[str, Any]) -> tuple[list[int], dict[str, Any]]:
    end = source.latest_offset(start, ReadLimit())
    splits = source.splits(start, end) if end != start else []
    return sorted(i for s in splits for r in source.read(s) for i in r.batch.column(0).to_pylist()), end


@pytest.fixture
def announced(s3: Any, sqs: Any, bucket: str, queue: str) -> str:
    """A queue that the bucket announces its objects to."""
    announce(s3, sqs, bucket, queue)
    return queue


def test_it_is_a_split_source() -> None:
    assert isinstance(S3Source(S3SourceConfig(bucket="landing")), SplitSource)


def test_announced_objects_below_the_prefix_are_read_once_and_their_messages_deleted(
    aws: dict[str, Any], s3: Any, sqs: Any, announced: str, tmp_path: Path
) -> None:
    put(s3, "in/a.json", 1, 2)
    put(s3, "in/b.json", 3)
    put(s3, "elsewhere/c.json", 4)
    config = S3SourceConfig(
        bucket="landing",
        prefix="in/",
        queue_url=announced,
        wait_seconds=0,
        schema=SCHEMA,
        state_location=str(tmp_path),
        **aws,
    )
    source = S3Source(config)
    rows, end = read_epoch(source, source.initial_offset())
    assert rows == [1, 2, 3]
    assert read_epoch(source, end) == ([], end)
    source.close()
    assert depth(sqs, announced) == 0


def test_a_restart_may_change_from_the_queue_to_listing_and_reads_nothing_twice(
    aws: dict[str, Any], s3: Any, announced: str, tmp_path: Path
) -> None:
    put(s3, "in/a.json", 1)
    options = {"bucket": "landing", "schema": SCHEMA, "state_location": str(tmp_path), **aws}
    queued = S3Source(S3SourceConfig(queue_url=announced, wait_seconds=0, **options))
    rows, end = read_epoch(queued, queued.initial_offset())
    queued.close()
    assert rows == [1]
    put(s3, "in/b.json", 2)
    listing = S3Source(S3SourceConfig(queue_url=announced, discovery="listing", **options))
    assert read_epoch(listing, end)[0] == [2]
    listing.close()


@pytest.mark.parametrize("versions", ["Enabled", ""])
def test_what_was_read_is_archived_and_an_event_of_the_archive_is_not_ours(
    aws: dict[str, Any], s3: Any, sqs: Any, announced: str, tmp_path: Path, versions: str
) -> None:
    if versions:
        s3.put_bucket_versioning(Bucket="landing", VersioningConfiguration={"Status": versions})
    for number in range(3):
        put(s3, f"in/2024/{number}.json", number)
    config = S3SourceConfig(
        bucket="landing",
        prefix="in/",
        queue_url=announced,
        wait_seconds=0,
        schema=SCHEMA,
        state_location=str(tmp_path),
        clean_source="archive",
        clean_source_retention=0,
        archive_path="s3://landing/archive/",
        **aws,
    )
    source = S3Source(config)
    rows, end = read_epoch(source, source.initial_offset())
    put(s3, "in/2024/1.json", 11)
    source.freeze()
    assert (rows, read_epoch(source, end)) == ([0, 1, 2], ([], end))
    source.close()
    keys = [item["Key"] for item in s3.list_objects_v2(Bucket="landing")["Contents"]]
    assert keys == ["archive/2024/0.json", "archive/2024/2.json", "in/2024/1.json"], "an overwritten object stays"
    again = S3Source(config)
    again.freeze()
    assert read_epoch(again, end) == ([], end)
    again.close()
    assert depth(sqs, announced) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'bucket' is required"),
        ({"bucket": "landing/in"}, "the bucket's name alone, and the rest as 'prefix'"),
        ({"bucket": "landing", "discovery": "notifications"}, "needs the option 'queue_url'"),
        ({"bucket": "landing", "queue_url": "landing", "quue_url": 1}, "Did you mean 'queue_url'"),
        ({"bucket": "landing", "access_key_id": "x"}, "belong together"),
        ({"bucket": "landing", "visibility_seconds": "13 hours"}, "visibility_seconds"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        S3SourceConfig.from_options(options)


def test_the_secret_is_shown_nowhere() -> None:
    config = S3SourceConfig(bucket="landing", access_key_id="AKIA", secret_access_key="hush-hush")
    source = S3Source(config)
    assert "hush-hush" not in f"{config!r} {config} {source.connector_id} {vars(source)}"
