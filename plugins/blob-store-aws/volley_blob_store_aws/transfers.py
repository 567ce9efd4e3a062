"""Ranges of S3 objects: fetched by boto3, or by obstore with boto3's credentials."""

from __future__ import annotations

import random
import re
import time
from contextlib import closing
from datetime import timedelta
from typing import Any

from volley_blob_store_aws.credentials import AwsClient
from volley_blob_store_aws.errors import INVALID_RANGE, code_of, explained, translated
from volley_blob_store_aws.versions import pin, spell
from volley_connectors.blob.obstore_transfer import CLIENT_OPTIONS, RETRY_CONFIG, ObjectStore, ObstoreTransfer
from volley_connectors.blob.ranged_file import Part

_TRIES = 5
# What boto3 hands out lasts for ten minutes more; obstore asks anew five minutes before the end.
_CREDENTIALS_LAST = timedelta(minutes=9)
_AWS_HOST = re.compile(r"https://(s3[a-z0-9.-]*\.amazonaws\.com(?:\.cn)?)$")
_OBSTORE_NAMES = {"IfMatch": "if_match", "VersionId": "version"}


def fetch_by_sdk(
    client: AwsClient, payer: dict[str, str], uri: str, bucket: str, key: str, start: int, length: int, version: str
) -> Part:
    """Part of an object, by boto3."""
    from botocore.exceptions import ClientError

    request = {"Bucket": bucket, "Key": key, **pin(version), **payer}
    with translated(f"Reading {uri}"):
        try:
            answer, data = _download(client(), request | {"Range": f"bytes={start}-{start + length - 1}"})
        except ClientError as error:
            # S3 refuses every range of an empty object.
            if start or code_of(error) != INVALID_RANGE:
                raise
            answer, data = _download(client(), request)
    total = answer.get("ContentRange", "").partition("/")[2]
    return Part(data, int(total) if total else len(data), spell(answer.get("VersionId"), answer.get("ETag")))


def _download(client: Any, request: dict[str, str]) -> tuple[dict[str, Any], bytes]:
    """boto3 repeats a request until its answer begins; an answer that breaks off is asked for again here."""
    from botocore.exceptions import HTTPClientError, IncompleteReadError

    tries = 0
    while True:
        answer = client.get_object(**request)
        try:
            with closing(answer["Body"]) as body:
                return answer, body.read()
        except (HTTPClientError, IncompleteReadError):
            tries += 1
            if tries == _TRIES:
                raise
            time.sleep(random.uniform(0, 0.1 * 2**tries))


def obstore_transfer(client: AwsClient, path_style: bool, requester_pays: bool) -> ObstoreTransfer:
    """Fetches by obstore, from where and as whom boto3 would."""

    def make_store(bucket: str) -> ObjectStore:
        from obstore.store import S3Store

        region, address = client().meta.region_name, client().meta.endpoint_url
        host = _AWS_HOST.match(address)
        # No certificate of AWS is valid for a bucket whose name holds a dot.
        in_host = host is not None and not path_style and "." not in bucket
        return S3Store(
            bucket,
            endpoint=f"https://{bucket}.{host[1]}" if host and in_host else address,
            virtual_hosted_style_request=in_host,
            region="us-east-1" if region == "aws-global" else region,
            request_payer=requester_pays,
            client_options=CLIENT_OPTIONS | {"allow_http": address.startswith("http:")},
            retry_config=RETRY_CONFIG,
            **_identity(client),
        )

    def options(version: str) -> dict[str, str]:
        # Renewed here if need be, where an error can be told, and not in obstore's own thread.
        client.credentials()
        return {_OBSTORE_NAMES[name]: value for name, value in pin(version).items()}

    return ObstoreTransfer(make_store, options, lambda found: spell(found["version"], found["e_tag"]), explained)


def _identity(client: AwsClient) -> dict[str, Any]:
    if client.credentials() is None:
        return {"skip_signature": True}
    from obstore.auth.boto3 import Boto3CredentialProvider

    return {"credential_provider": Boto3CredentialProvider(client.session, ttl=_CREDENTIALS_LAST)}
