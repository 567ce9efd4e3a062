"""Who may do what, as AWS's policy documents. Nothing here talks to AWS."""

from __future__ import annotations

import json
from typing import Any

from volley_blob_store_aws.setup.wanted import Via, Wanted

Statement = dict[str, Any]

READ_QUEUE = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"]
_SERVICES = {Via.DIRECT: "s3", Via.SNS: "sns", Via.EVENTBRIDGE: "events"}
_VERSION = "2012-10-17"


def sender(wanted: Wanted, via: Via, queue_arn: str, source_arn: str, account: str) -> Statement:
    """Lets a service put messages of this one origin into the queue."""
    return _service(_sid(wanted, via), _SERVICES[via], "sqs:SendMessage", queue_arn, source_arn, account)


def publisher(wanted: Wanted, topic_arn: str, bucket_arn: str, account: str) -> Statement:
    """Lets S3 publish this bucket's events to the topic."""
    return _service(_sid(wanted, Via.DIRECT), "s3", "sns:Publish", topic_arn, bucket_arn, account)


def receiver(wanted: Wanted, queue_arn: str) -> Statement:
    """Lets the reader read the queue, from another account too."""
    return {
        "Sid": f"VolleyReader{wanted.token}",
        "Effect": "Allow",
        "Principal": {"AWS": wanted.principal},
        "Action": READ_QUEUE,
        "Resource": queue_arn,
    }


def merged(policy: str, wanted: Wanted, statements: list[Statement]) -> str:
    """The policy with these as the only statements of this bucket; those of others stay. Empty if none is left."""
    document = json.loads(policy) if policy else {"Version": _VERSION}
    if [one for one in _statements(document) if _is_ours(one, wanted)] == statements:
        return policy
    kept = [one for one in _statements(document) if not _is_ours(one, wanted)]
    document["Statement"] = [*kept, *statements]
    return json.dumps(document) if document["Statement"] else ""


def ways(policy: str, wanted: Wanted) -> set[Via]:
    """How this bucket's events reach the queue, as the policy tells."""
    sids = {one.get("Sid") for one in _statements(json.loads(policy or "{}"))}
    return {via for via in Via if _sid(wanted, via) in sids}


def has_others(policy: str, wanted: Wanted) -> bool:
    """Whether the policy lets anybody in who has nothing to do with this bucket."""
    return any(not _is_ours(one, wanted) for one in _statements(json.loads(policy or "{}")))


def equal(one: str, other: str) -> bool:
    """Whether two documents, or the empty text, say the same."""
    return one == other or (bool(one and other) and json.loads(one) == json.loads(other))


def reader(wanted: Wanted, queue_arn: str, partition: str, versioned: bool) -> dict[str, Any]:
    """The IAM policy of who runs the source: what it calls, and nothing else."""
    bucket = f"arn:{partition}:s3:::{wanted.bucket}"
    statements = [
        _allow("ReadQueue", READ_QUEUE, queue_arn),
        _allow("ReadObjects", ["s3:GetObject", *["s3:GetObjectVersion"] * versioned], f"{bucket}/{wanted.prefix}*"),
        _allow(
            "ListBucket",
            ["s3:ListBucket", "s3:GetBucketVersioning", *["s3:ListBucketVersions"] * versioned],
            bucket,
        ),
    ]
    location = wanted.state_location or ""
    if location.startswith("s3://"):
        state, _, folder = location.removeprefix("s3://").rstrip("/").partition("/")
        arn = f"arn:{partition}:s3:::{state}"
        path = f"{folder}/*" if folder else "*"
        statements += [
            _allow("KeepState", ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], f"{arn}/{path}"),
            _allow("ListState", ["s3:ListBucket"], arn),
        ]
    return {"Version": _VERSION, "Statement": statements}


def _allow(sid: str, actions: list[str], resource: str) -> Statement:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resource}


def _service(sid: str, service: str, action: str, resource: str, source_arn: str, account: str) -> Statement:
    # A bucket's ARN names no account, so that the condition on it is what keeps out a stranger's bucket of this name.
    # SNS and EventBridge, whose ARNs do name it, need not send it along.
    of_account = "StringEquals" if service == "s3" else "StringEqualsIfExists"
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Principal": {"Service": f"{service}.amazonaws.com"},
        "Action": action,
        "Resource": resource,
        "Condition": {
            "ArnEquals": {"aws:SourceArn": source_arn},
            of_account: {"aws:SourceAccount": account},
        },
    }


def _sid(wanted: Wanted, via: Via) -> str:
    return f"Volley{via.title()}{wanted.token}"


def _is_ours(statement: Statement, wanted: Wanted) -> bool:
    sid = str(statement.get("Sid", ""))
    return sid.startswith("Volley") and sid.endswith(wanted.token)


def _statements(document: dict[str, Any]) -> list[Statement]:
    found = document.get("Statement", [])
    return [found] if isinstance(found, dict) else found
