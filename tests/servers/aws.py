"""What tests ask of an AWS stand-in with a plain boto3 client, to prepare and to look."""

from __future__ import annotations

from typing import Any

# Given as options, so that whatever identity this machine has stays out of the tests.
KEYS = {"region": "us-east-1", "access_key_id": "AKIATESTTESTTESTTEST", "secret_access_key": "not-a-real-secret"}


def client(service: str, address: str) -> Any:
    import boto3

    return boto3.client(
        service,
        region_name=KEYS["region"],
        endpoint_url=address,
        aws_access_key_id=KEYS["access_key_id"],
        aws_secret_access_key=KEYS["secret_access_key"],
    )


def queue_arn(sqs: Any, url: str) -> str:
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


def depth(sqs: Any, url: str) -> int:
    """How many messages a queue holds, hidden ones included."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(found[name]) for name in names)


def announce(s3: Any, sqs: Any, bucket: str, url: str, *events: str) -> None:
    """Let a bucket announce its new objects, or these events, to a queue."""
    configuration = {"QueueArn": queue_arn(sqs, url), "Events": [*events] or ["s3:ObjectCreated:*"]}
    s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"QueueConfigurations": [configuration]}
    )
