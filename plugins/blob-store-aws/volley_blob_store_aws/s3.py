"""Objects in S3 and in stores that speak its language."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO, ClassVar, cast

from pydantic import Field

from volley_blob_store_aws import removal
from volley_blob_store_aws.credentials import AwsClient, AwsConfig
from volley_blob_store_aws.errors import translated
from volley_blob_store_aws.object_file import ObjectFile
from volley_blob_store_aws.versions import pin, spell
from volley_core import BlobRef, ByteSize, ConfigError

_SCHEME = "s3://"
_BUFFER_BYTES = 128 * 1024


class S3BlobReaderConfig(AwsConfig):
    """Options of the blob reader `s3`."""

    EXAMPLE = {"region": "eu-central-1", "block_bytes": "8 MiB"}

    block_bytes: ByteSize = Field(
        default=8 * 1024 * 1024,
        gt=0,
        description="How much of an object one request asks for; so much memory a file takes.",
    )
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

    def open(self, ref: BlobRef) -> BinaryIO:
        file = ObjectFile(self._client, ref.uri, _address(ref.uri) | pin(ref.version), self._config.block_bytes)
        return cast(BinaryIO, io.BufferedReader(file, _BUFFER_BYTES))

    def list(self, prefix: str) -> Iterator[BlobRef]:
        bucket, key = _split(prefix)
        with translated(f"Listing {prefix}"):
            for item in self._items(bucket, key):
                version = spell(item.get("VersionId"), item["ETag"])
                uri = f"{_SCHEME}{bucket}/{item['Key']}"
                yield BlobRef(uri, item["Size"], version, event_time_ms=_milliseconds(item["LastModified"]))

    def stat(self, ref: BlobRef) -> BlobRef:
        with translated(f"Looking at {ref.uri}"):
            found = self._client().head_object(**_address(ref.uri))
        version = spell(found.get("VersionId"), found["ETag"])
        return BlobRef(ref.uri, found["ContentLength"], version, event_time_ms=_milliseconds(found["LastModified"]))

    def delete(self, ref: BlobRef) -> bool:
        return removal.delete(self._client(), _address(ref.uri), ref)

    def move(self, ref: BlobRef, uri: str) -> bool:
        return removal.move(self._client(), _address(ref.uri), _address(uri), ref)

    def close(self) -> None:
        """Let go of connections. May be called twice, or never."""
        self._client.close()

    def _items(self, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
        # The plain listing names no version ids, which the events and HEAD do.
        if self._is_versioned(bucket):
            pages = self._client().get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix)
            return (item for page in pages for item in page.get("Versions", []) if item["IsLatest"])
        pages = self._client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return (item for page in pages for item in page.get("Contents", []))

    def _is_versioned(self, bucket: str) -> bool:
        if self._config.versioned is not None:
            return self._config.versioned
        return "Status" in self._client().get_bucket_versioning(Bucket=bucket)


def _address(uri: str) -> dict[str, str]:
    bucket, key = _split(uri)
    if not key:
        raise ConfigError(f"{uri!r} names no object: an object is s3://bucket/key.")
    return {"Bucket": bucket, "Key": key}


def _split(uri: str) -> tuple[str, str]:
    """Bucket and key. By hand: a key may hold whatever URL parsers give a meaning to."""
    bucket, _, key = uri.removeprefix(_SCHEME).partition("/")
    if not uri.startswith(_SCHEME) or not bucket:
        raise ConfigError(f"{uri!r} is no address in S3: it must begin with s3://bucket/.")
    return bucket, key


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
