"""`volley setup aws`: what an S3 bucket needs to announce its objects to an SQS queue, made, changed and removed.

What is to be done is planned first, as calls with all their parameters: `--dry-run` shows the very calls that are made
without it.
"""
