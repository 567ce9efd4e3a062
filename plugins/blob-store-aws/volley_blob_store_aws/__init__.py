"""Amazon S3 and SQS."""
