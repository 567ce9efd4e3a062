"""The blob-store pattern on AWS: objects in S3, announced through an SQS queue."""

from volley_blob_store_aws.credentials import AwsConfig
from volley_blob_store_aws.s3 import S3BlobReader, S3BlobReaderConfig
from volley_blob_store_aws.source import S3Source, S3SourceConfig
from volley_blob_store_aws.sqs import SqsNotificationSource, SqsNotificationSourceConfig

__all__ = [
    "AwsConfig",
    "S3BlobReader",
    "S3BlobReaderConfig",
    "S3Source",
    "S3SourceConfig",
    "SqsNotificationSource",
    "SqsNotificationSourceConfig",
]
