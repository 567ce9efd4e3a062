"""Objects in S3 and in stores that speak its language."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, BinaryIO, ClassVar, Literal

from pydantic import Field

from volley_blob_store_aws import removal
from volley_blob_store_aws.credentials import AwsClient, AwsConfig
from volley_blob_store_aws.errors import translated
from volley_blob_store_aws.transfers import SdkTransfer, obstore_transfer
from volley_blob_store_aws.versions import spell
from volley_connectors.blob.obstore_transfer import UnsuitedError
from volley_connectors.blob.ranged_file import Part, open_ranged
from volley_core import BlobRef, ByteSize, ConfigError

_SCHEME = "s3://"


class S3AccessConfig(AwsConfig):
    """How objects in S3 are read, by a source or by a reader alone."""

    transfer: Literal["obstore", "sdk"] = Field(
        default="obstore",
        description="Which library fetches the objects' bytes. obstore takes less CPU time; sdk is boto3, which "
        "verifies checksums, and also fetches what obstore cannot: a key with an empty, '.' or '..' part, a bucket in "
        "another region.",
    )
    requester_pays: bool = Field(
        default=False, description="Agree to pay for the requests, as requester-pays buckets demand."
    )


class S3BlobReaderConfig(S3AccessConfig):
    """Options of the blob reader `s3`."""

    EXAMPLE = {"region": "eu-central-1", "block_bytes": "8 MiB"}

    block_bytes: ByteSize = Field(
        default=8 * 1024 * 1024,
        gt=0,
        description="How much of an object one request asks for. A file that is read from front to back takes up to "
        "four times as much memory.",
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
        self._payer = {"RequestPayer": "requester"} if config.requester_pays else {}
        self._sdk = SdkTransfer(self._client, self._payer)
        self._obstore = obstore_transfer(self._client, config.path_style, config.requester_pays)

    def __reduce__(self) -> tuple[type[S3BlobReader], tuple[S3BlobReaderConfig]]:
        return (S3BlobReader, (self._config,))

    def open(self, ref: BlobRef) -> BinaryIO:
        return open_ranged(partial(self._fetch, ref.uri, *_address(ref.uri)), ref, self._config.block_bytes)

    def list(self, prefix: str) -> Iterator[BlobRef]:
        bucket, key = _split(prefix)
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
        self._obstore.close()
        self._client.close()

    def _request(self, uri: str) -> dict[str, str]:
        bucket, key = _address(uri)
        return {"Bucket": bucket, "Key": key, **self._payer}

    def _fetch(self, *what: Any) -> Part:
        if self._config.transfer == "obstore":
            try:
                return self._obstore.fetch(*what)
            except UnsuitedError:
                pass
        return self._sdk.fetch(*what)

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


def _address(uri: str) -> tuple[str, str]:
    """Bucket and key of an object."""
    bucket, key = _split(uri)
    if not key:
        raise ConfigError(f"{uri!r} names no object: an object is s3://bucket/key.")
    return bucket, key


def _split(uri: str) -> tuple[str, str]:
    """Bucket and key. By hand: a key may hold whatever URL parsers give a meaning to."""
    bucket, _, key = uri.removeprefix(_SCHEME).partition("/")
    if not uri.startswith(_SCHEME) or not bucket:
        raise ConfigError(f"{uri!r} is no address in S3: it must begin with s3://bucket/.")
    return bucket, key


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
