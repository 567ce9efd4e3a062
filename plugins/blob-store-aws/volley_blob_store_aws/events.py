"""What a queue message says, whichever way it came: from S3 itself, through SNS (raw or wrapped), through EventBridge.

A message is acknowledged once it was understood, so whatever is not wholly understood is refused: it stays in the
queue for the redrive policy, and no object in it gets lost.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus

from volley_blob_store_aws.versions import spell
from volley_core import BlobRef

# The beginnings of S3's names for what makes no new object, and of EventBridge's.
_NOTHING_NEW = (
    "ObjectRemoved:",
    "ObjectRestore:",
    "ObjectTagging:",
    "ObjectAcl:",
    "Lifecycle",
    "IntelligentTiering",
    "Replication:",
    "ReducedRedundancyLostObject",
)
_NOTHING_NEW_DETAIL = (
    "Object Deleted",
    "Object Restore",
    "Object Storage",
    "Object Access",
    "Object ACL",
    "Object Tags",
)


def parse(body: str) -> tuple[BlobRef, ...]:
    """The objects that a message announces; none for S3's test event. Raises ValueError if it is anything else."""
    message = _object(body)
    if isinstance(message.get("Message"), str) and "TopicArn" in message:
        message = _from_sns(message)
    if message.get("Event") == "s3:TestEvent":
        return ()
    if "detail-type" in message:
        return _from_event_bridge(message)
    records = message.get("Records")
    if not isinstance(records, list) or not records:
        raise ValueError("it is no notification of S3, SNS or EventBridge")
    return tuple(ref for record in records for ref in _from_record(_mapping(record, "a record")))


def _object(text: str) -> dict[str, Any]:
    try:
        return _mapping(json.loads(text), "it")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _from_sns(envelope: dict[str, Any]) -> dict[str, Any]:
    if envelope.get("Type", "Notification") != "Notification":
        raise ValueError(f"SNS sent a {envelope['Type']!r}, which somebody has to answer")
    return _object(envelope["Message"])


def _from_record(record: dict[str, Any]) -> tuple[BlobRef, ...]:
    name = _text(record, "eventName").removeprefix("s3:")
    if name.startswith(_NOTHING_NEW):
        return ()
    if not name.startswith("ObjectCreated:"):
        raise ValueError(f"the event {name!r} is unknown")
    s3 = _mapping(record.get("s3"), "'s3'")
    written = _mapping(s3.get("object"), "'object'")
    key = _text(written, "key")
    if not _is_plain(s3, key):
        key = unquote_plus(key, errors="strict")
    return (_ref(s3, written, key, _optional(written, "versionId"), record.get("eventTime")),)


def _is_plain(s3: dict[str, Any], key: str) -> bool:
    """Whether the key is not URL-encoded. So it is with versitygw, which also puts it into the bucket's ARN."""
    bucket = s3.get("bucket")
    return isinstance(bucket, dict) and str(bucket.get("arn")).endswith(f"/{key}")


def _from_event_bridge(event: dict[str, Any]) -> tuple[BlobRef, ...]:
    kind = _text(event, "detail-type")
    if event.get("source") != "aws.s3":
        raise ValueError(f"its source is {event.get('source')!r}, not 'aws.s3'")
    if kind.startswith(_NOTHING_NEW_DETAIL):
        return ()
    if kind != "Object Created":
        raise ValueError(f"the event {kind!r} is unknown")
    detail = _mapping(event.get("detail"), "'detail'")
    written = _mapping(detail.get("object"), "'object'")
    # Here the key is not URL-encoded.
    return (_ref(detail, written, _text(written, "key"), _optional(written, "version-id"), event.get("time")),)


def _ref(holder: dict[str, Any], written: dict[str, Any], key: str, version_id: str, time: Any) -> BlobRef:
    bucket = _text(_mapping(holder.get("bucket"), "'bucket'"), "name")
    if "/" in bucket:
        raise ValueError(f"{bucket!r} is no bucket")
    uri = f"s3://{bucket}/{key}"
    # Half a surrogate pair is no text: UnicodeEncodeError is a ValueError.
    uri.encode()
    # Some S3-compatible stores leave out the size of an empty object.
    size = written.get("size", 0)
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"the size of {uri} is {size!r}")
    etag = _optional(written, "eTag") or _optional(written, "etag")
    return BlobRef(uri, size, spell(version_id, etag), _optional(written, "sequencer"), _milliseconds(time))


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no JSON object")
    return value


def _text(holder: dict[str, Any], name: str) -> str:
    value = holder.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name!r} is no text")
    return value


def _optional(holder: dict[str, Any], name: str) -> str:
    value = holder.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is no text")
    return value


def _milliseconds(time: Any) -> int | None:
    """When it happened; None if that cannot be told, which costs nothing but the time."""
    try:
        moment = datetime.fromisoformat(time)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
