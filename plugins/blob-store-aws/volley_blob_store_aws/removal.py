"""Deletes and moves objects in S3, each only if it is still the version that was read."""

from __future__ import annotations

import hashlib
from typing import Any

from volley_blob_store_aws.errors import translated
from volley_blob_store_aws.versions import pin, spell
from volley_core import BlobChangedError, BlobNotFoundError, BlobRef

_MARK = "volley-moved-from"
"""Metadata of a copy: tells it from another object of that name. Its etag need not be that of the original."""
_LARGEST_COPY_BYTES = 5 * 1024**3
_PART_BYTES = 512 * 1024**2
_KEPT = ("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType")


def delete(client: Any, address: dict[str, str], ref: BlobRef) -> bool:
    """See BlobRemover. One that is named by its version id is gone for good, and leaves no delete marker."""
    try:
        with translated(f"Deleting {ref.uri}"):
            # Asked first, because not every store heeds the condition of the request itself.
            if not _is(client.head_object(**address), ref):
                return False
            client.delete_object(**address, **pin(ref.version))
    except BlobNotFoundError:
        return True
    except BlobChangedError:
        return False
    return True


def move(client: Any, address: dict[str, str], target: dict[str, str], ref: BlobRef) -> bool:
    """See BlobRemover. The copy keeps metadata and tags."""
    uri = f"s3://{target['Bucket']}/{target['Key']}"
    with translated(f"Moving {ref.uri} to {uri}"):
        found, there = _look(client, address), _look(client, target)
        mark = hashlib.sha256(f"{ref.uri}\0{ref.version}".encode()).hexdigest()
        is_copy = there is not None and there["Metadata"].get(_MARK) == mark
        if found is None:
            return is_copy
        if not _is(found, ref) or not (there is None or is_copy):
            return False
        if there is None:
            _copy(client, address | pin(ref.version), target, found, mark)
    return delete(client, address, ref)


def _copy(client: Any, source: dict[str, str], target: dict[str, str], found: dict[str, Any], mark: str) -> None:
    from boto3.s3.transfer import TransferConfig

    payer = {name: target[name] for name in ("RequestPayer",) if name in target}
    client.copy(
        {name: source[name] for name in ("Bucket", "Key", "VersionId") if name in source},
        target["Bucket"],
        target["Key"],
        ExtraArgs={
            **payer,
            "CopySourceIfMatch": found["ETag"],
            "MetadataDirective": "REPLACE",
            "Metadata": {**found["Metadata"], _MARK: mark},
            **{name: found[name] for name in _KEPT if name in found},
        },
        # Without threads of its own, which could outlive this process's wish to end.
        Config=TransferConfig(
            multipart_threshold=_LARGEST_COPY_BYTES, multipart_chunksize=_PART_BYTES, use_threads=False
        ),
    )


def _look(client: Any, address: dict[str, str]) -> dict[str, Any] | None:
    from botocore.exceptions import ClientError

    try:
        found: dict[str, Any] = client.head_object(**address)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
            raise
        return None
    return found


def _is(found: dict[str, Any], ref: BlobRef) -> bool:
    # Some stores name the version in their answers and not in their events.
    return ref.version in (spell(found.get("VersionId"), found["ETag"]), spell(None, found["ETag"]))
