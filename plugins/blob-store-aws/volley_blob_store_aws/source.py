"""New objects in a bucket, as rows: the queue and the reader of this package put together."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, field_validator

from volley_blob_store_aws.credentials import AwsConfig
from volley_blob_store_aws.s3 import S3AccessConfig, S3BlobReader, S3BlobReaderConfig
from volley_blob_store_aws.sqs import (
    LONGEST_HIDDEN_SECONDS,
    SqsNotificationSource,
    SqsNotificationSourceConfig,
)
from volley_connectors.blob import BlobSource, BlobSourceConfig
from volley_core import NotificationSource, Seconds


class S3SourceConfig(BlobSourceConfig, S3AccessConfig):
    """Options of the source `s3`."""

    EXAMPLE = {
        "bucket": "landing",
        "prefix": "in/",
        "queue_url": "https://sqs.eu-central-1.amazonaws.com/123456789012/landing",
        "format": "json",
        "schema": "id bigint, name string",
        "state_location": "s3://pipelines/state/landing",
    }

    QUEUE_OPTION = "queue_url"

    bucket: str = Field(min_length=3, description="The bucket that holds the objects.")
    prefix: str = Field(default="", description="Only objects whose key begins so: 'in/'.")
    queue_url: str | None = Field(
        default=None, description="The SQS queue that the bucket announces its objects to. Without one, see discovery."
    )
    queue_endpoint_url: str | None = Field(
        default=None, description="Where the queue's service is, if it is not where endpoint_url says."
    )
    wait_seconds: Seconds = Field(default=1.0, le=20, description="How long a poll of the queue waits for a message.")
    visibility_seconds: Seconds = Field(
        default=300.0,
        gt=0,
        le=LONGEST_HIDDEN_SECONDS,
        description=BlobSourceConfig.model_fields["visibility_seconds"].description,
    )

    @field_validator("bucket")
    @classmethod
    def _is_a_name(cls, bucket: str) -> str:
        if "/" in bucket:
            raise ValueError("give the bucket's name alone, and the rest as 'prefix'")
        return bucket


class S3Source(BlobSource):
    """Objects in S3, announced through SQS or found by listing."""

    Config: ClassVar[type[S3SourceConfig]] = S3SourceConfig

    def __init__(self, config: S3SourceConfig) -> None:
        reader = S3BlobReader(S3BlobReaderConfig(**_given(config, S3AccessConfig)))
        prefix = f"s3://{config.bucket}/{config.prefix}"
        super().__init__(config, _queue(config), reader, prefix)

    @property
    def connector_id(self) -> str:
        return self._prefix


def _queue(config: S3SourceConfig) -> NotificationSource | None:
    if config.queue_url is None or config.discovery == "listing":
        return None
    identity = _given(config, AwsConfig)
    if config.queue_endpoint_url is not None:
        identity["endpoint_url"] = config.queue_endpoint_url
    return SqsNotificationSource(
        SqsNotificationSourceConfig(
            queue_url=config.queue_url,
            wait_seconds=config.wait_seconds,
            visibility_seconds=config.visibility_seconds,
            **identity,
        )
    )


def _given(config: AwsConfig, part: type[AwsConfig]) -> dict[str, Any]:
    """What was set of the options of a part."""
    return {name: getattr(config, name) for name in part.model_fields if name in config.model_fields_set}
