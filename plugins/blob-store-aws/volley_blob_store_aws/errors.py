"""What AWS answers, as our errors: the one place that knows AWS's error codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from volley_connectors.blob.obstore_transfer import Refusal, UnsuitedError
from volley_core import BlobChangedError, BlobNotFoundError, ConfigError, DataError, TransientError, VolleyError

INVALID_RANGE = "InvalidRange"
STALE_RECEIPT = frozenset(
    {
        "ReceiptHandleIsInvalid",
        "MessageNotInflight",
        "AWS.SimpleQueueService.MessageNotInflight",
        # The answer of FIFO queues to an expired receipt.
        "InvalidParameterValue",
    }
)
# What an operation that looks for something answers if it is not there.
MISSING = frozenset(
    {
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        "NotFound",
        "404",
        "NoSuchBucket",
        "ResourceNotFoundException",
    }
)
# S3's answer while the permission that it needs is on its way, and if there is none.
DESTINATION_REFUSED = "InvalidArgument"

_ELSEWHERE = (
    "PermanentRedirect TemporaryRedirect AuthorizationHeaderMalformed IllegalLocationConstraintException 301 307"
)
_LATER = "Trying again later may help."

# Each: our error, what happened, what to do, AWS's codes. What to do about a DataError, BlobSource knows.
_ROWS: tuple[tuple[type[VolleyError], str, str, str], ...] = (
    (BlobNotFoundError, "the object is gone", "", "NoSuchKey NoSuchVersion NotFound 404"),
    (BlobNotFoundError, "the object is gone, a delete marker took its place", "", "MethodNotAllowed 405"),
    (BlobChangedError, "the object was overwritten after it was announced", "", "PreconditionFailed 412"),
    (DataError, "the object is archived and must be restored before it can be read", "", "InvalidObjectState"),
    (ConfigError, "there is no such bucket", "Correct its name, or the option 'endpoint_url'.", "NoSuchBucket"),
    (
        ConfigError,
        "there is no such queue",
        "Correct the option 'queue_url', 'region' or 'endpoint_url'.",
        "QueueDoesNotExist AWS.SimpleQueueService.NonExistentQueue",
    ),
    (
        ConfigError,
        "access is denied",
        "Allow {action} to this identity.",
        "AccessDenied AccessDeniedException AuthorizationError AllAccessDisabled 403",
    ),
    (
        ConfigError,
        "the credentials are not accepted",
        "Correct or renew them: the options, the profile, or what the environment provides.",
        "InvalidAccessKeyId SignatureDoesNotMatch InvalidSecurity InvalidClientTokenId UnrecognizedClientException "
        "InvalidSignatureException IncompleteSignature MissingAuthenticationToken InvalidToken ExpiredToken "
        "ExpiredTokenException TokenRefreshRequired XAdminUserNotFound",
    ),
    (
        ConfigError,
        "it is in another region",
        "Set the option 'region'{region}; leave 'endpoint_url' out or let it name that region too.",
        _ELSEWHERE,
    ),
    (ConfigError, "this machine's clock is wrong", "Set the clock.", "RequestTimeTooSkewed RequestExpired"),
    (
        TransientError,
        "AWS asks for fewer requests",
        _LATER,
        "SlowDown Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException "
        "RequestLimitExceeded TooManyRequestsException BandwidthLimitExceeded KmsThrottled",
    ),
    (
        TransientError,
        "a queue of this name was deleted less than a minute ago",
        "Run it again in a minute.",
        "AWS.SimpleQueueService.QueueDeletedRecently QueueDeletedRecently",
    ),
    (TransientError, "too many messages are in flight", "Acknowledged ones make room.", "OverLimit"),
    (TransientError, "AWS could not answer", _LATER, "InternalError InternalFailure ServiceUnavailable RequestTimeout"),
)
_TABLE = {code: (kind, what, advice) for kind, what, advice, codes in _ROWS for code in codes.split()}

_ACTIONS = {
    # Without s3:ListBucket, S3 says "denied" of an object that is gone.
    "GetObject": "s3:GetObject, s3:ListBucket, and where the bucket keeps versions s3:GetObjectVersion",
    "HeadObject": "s3:GetObject and s3:ListBucket",
    "HeadBucket": "s3:ListBucket",
    "GetBucketNotificationConfiguration": "s3:GetBucketNotification",
    "PutBucketNotificationConfiguration": "s3:PutBucketNotification",
    "CreateQueue": "sqs:CreateQueue and sqs:TagQueue",
    "CreateTopic": "sns:CreateTopic and sns:TagResource",
    "PutRule": "events:PutRule and events:TagResource",
    "ListObjectsV2": "s3:ListBucket",
    "ListObjectVersions": "s3:ListBucketVersions",
    "GetBucketVersioning": "s3:GetBucketVersioning (or set the option 'versioned')",
    "DeleteObject": "s3:DeleteObject, and where the bucket keeps versions s3:DeleteObjectVersion",
    "CopyObject": "s3:GetObject and s3:GetObjectTagging here, s3:PutObject and s3:PutObjectTagging there",
    "ReceiveMessage": "sqs:ReceiveMessage",
    "DeleteMessageBatch": "sqs:DeleteMessage",
    "ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
    "AssumeRole": "sts:AssumeRole",
    **{
        operation: f"{service}:{operation}"
        for service, operations in (
            ("sqs", "GetQueueUrl GetQueueAttributes SetQueueAttributes ListQueueTags DeleteQueue"),
            ("sqs", "ListDeadLetterSourceQueues"),
            ("sns", "GetTopicAttributes SetTopicAttributes ListSubscriptionsByTopic Subscribe DeleteTopic"),
            ("events", "DescribeRule PutTargets ListTargetsByRule RemoveTargets DeleteRule"),
        )
        for operation in operations.split()
    },
}


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise whatever the SDK raises inside as our error. `doing` says what was being done, to what."""
    # Not at the top: importing this package must not import the SDK.
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise _from_answer(error, doing) from error
    except BotoCoreError as error:
        raise _from_client(error, doing) from error


def explained(refusal: Refusal, doing: str) -> VolleyError:
    """What S3 answered to obstore, in the words of `translated`."""
    from botocore.exceptions import ClientError

    if refusal.code in _ELSEWHERE.split():
        raise UnsuitedError("boto3 finds out which region it is")
    said = {"Code": refusal.code, "Message": refusal.message}
    answer = {"Error": said, "ResponseMetadata": {"HTTPStatusCode": refusal.status}}
    return _from_answer(ClientError(answer, "GetObject"), doing)


def code_of(error: Any) -> str:
    """The code of an SDK's ClientError."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _from_answer(error: Any, doing: str) -> VolleyError:
    code = code_of(error)
    answer = error.response.get("ResponseMetadata", {})
    kind, what, advice = _TABLE.get(code) or _by_status(answer.get("HTTPStatusCode", 0))
    said = error.response.get("Error", {}).get("Message", "")
    text = f"{doing}: {what} ({error.operation_name} answered {code}{': ' if said else ''}{said})"
    if not advice:
        return kind(text)
    region = answer.get("HTTPHeaders", {}).get("x-amz-bucket-region")
    action = _ACTIONS.get(error.operation_name, error.operation_name)
    return kind(f"{text}. {advice.format(region=f' to {region!r}' if region else '', action=action)}")


def _by_status(status: int) -> tuple[type[VolleyError], str, str]:
    if status >= 500 or status == 429:
        return TransientError, "AWS could not answer", _LATER
    return ConfigError, "AWS refuses the request", "Correct the options so that the request makes sense."


def _from_client(error: Exception, doing: str) -> VolleyError:
    from botocore import exceptions as sdk

    if isinstance(
        error,
        sdk.ConnectionError
        | sdk.HTTPClientError
        | sdk.IncompleteReadError
        | sdk.FlexibleChecksumError
        | sdk.CredentialRetrievalError,
    ):
        return TransientError(f"{doing}: {error}. {_LATER}")
    if isinstance(error, sdk.NoCredentialsError):
        return ConfigError(
            f"{doing}: there are no credentials. Give 'profile' or 'access_key_id' and 'secret_access_key', run where "
            "AWS provides a role, or set anonymous=true for a public bucket."
        )
    if isinstance(error, sdk.NoRegionError):
        return ConfigError(f"{doing}: the region is not known. Set the option 'region', for example 'eu-central-1'.")
    return ConfigError(f"{doing}: {error}. Correct the options 'profile', 'region', 'endpoint_url' or the credentials.")
