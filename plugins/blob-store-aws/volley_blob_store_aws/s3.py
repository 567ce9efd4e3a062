"""Objects in S3 and in stores that speak its language."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, BinaryIO, ClassVar

from pydantic import Field

from volley_blob_store_aws import removal
from volley_blob_store_aws.credentials import AwsClient, AwsConfig
from volley_blob_store_aws.errors import translated
from volley_blob_store_aws.transfers import fetch_by_sdk, obstore_transfer
from volley_blob_store_aws.versions import spell
from volley_connectors.blob.transfer import Transfer, TransferConfig, object_address, split_address
from volley_core import BlobRef

_SCHEME = "s3://"


class S3AccessConfig(AwsConfig, TransferConfig):
    """How objects in S3 are read, by a source or by a reader alone."""

    requester_pays: bool = Field(
        default=False, description="Agree to pay for the requests, as requester-pays buckets demand."
    )


class S3BlobReaderConfig(S3AccessConfig):
    """Options of the blob reader `s3`."""

    EXAMPLE = {"region": "eu-central-1", "block_bytes": "8 MiB"}

    versioned: bool | None = Field(
        default=None,
        description="Whether the bucket keeps versions, so that a listing names them. Not given: the bucket is asked.",
    )


class S3BlobReader:
    """Objects named s3://bucket/key, each read in the very version that was announced."""

    Config: ClassVar[type[S3BlobReaderConfig]] = S3BlobReaderConfig
    GUARANTEE: ClassVar[str] = (
        "An object that was overwritten since it was announced is read as it was, where the bucket keeps versions, "
        "and refused elsewhere; never read as another."
    )

    def __init__(self, config: S3BlobReaderConfig) -> None:
        self._config = config
        self._client = AwsClient("s3", config)
        self._payer = {"RequestPayer": "requester"} if config.requester_pays else {}
        by_obstore = obstore_transfer(self._client, config.path_style, config.requester_pays)
        self._transfer = Transfer(config, by_obstore, partial(fetch_by_sdk, self._client, self._payer))

    def __reduce__(self) -> tuple[type[S3BlobReader], tuple[S3BlobReaderConfig]]:
        return (S3BlobReader, (self._config,))

    def open(self, ref: BlobRef) -> BinaryIO:
        return self._transfer.open(ref, *object_address(ref.uri, _SCHEME))

    def list(self, prefix: str) -> Iterator[BlobRef]:
        bucket, key = split_address(prefix, _SCHEME)
        with translated(f"Listing {prefix}"):
            for item in self._items(bucket, key):
                version = spell(item.get("VersionId"), item["ETag"])
                uri = f"{_SCHEME}{bucket}/{item['Key']}"
                yield BlobRef(uri, item["Size"], version, event_time_ms=_milliseconds(item["LastModified"]))

    def stat(self, ref: BlobRef) -> BlobRef:
        with translated(f"Looking at {ref.uri}"):
            found = self._client().head_object(**self._request(ref.uri))
        version = spell(found.get("VersionId"), found["ETag"])
        return BlobRef(ref.uri, found["ContentLength"], version, event_time_ms=_milliseconds(found["LastModified"]))

    def delete(self, ref: BlobRef) -> bool:
        return removal.delete(self._client(), self._request(ref.uri), ref)

    def move(self, ref: BlobRef, uri: str) -> bool:
        return removal.move(self._client(), self._request(ref.uri), self._request(uri), ref)

    def close(self) -> None:
        """Let go of connections. May be called twice, or never."""
        self._transfer.close()
        self._client.close()

    def _request(self, uri: str) -> dict[str, str]:
        bucket, key = object_address(uri, _SCHEME)
        return {"Bucket": bucket, "Key": key, **self._payer}

    def _items(self, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
        # The plain listing names no version ids, which the events and HEAD do.
        request = {"Bucket": bucket, "Prefix": prefix, **self._payer}
        if self._is_versioned(bucket):
            pages = self._client().get_paginator("list_object_versions").paginate(**request)
            return (item for page in pages for item in page.get("Versions", []) if item["IsLatest"])
        pages = self._client().get_paginator("list_objects_v2").paginate(**request)
        return (item for page in pages for item in page.get("Contents", []))

    def _is_versioned(self, bucket: str) -> bool:
        if self._config.versioned is not None:
            return self._config.versioned
        return "Status" in self._client().get_bucket_versioning(Bucket=bucket)


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
