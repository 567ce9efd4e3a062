"""Every class of the package against the contract that it claims to keep."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote_plus

import pytest
from volley_blob_store_aws import (
    S3BlobReader,
    S3BlobReaderConfig,
    SqsNotificationSource,
    SqsNotificationSourceConfig,
)

from tests.servers.aws import KEYS, QueueServer, client, depth
from tests.servers.moto import empty
from volley_core.conformance import BlobReaderSuite, BlobRemoverSuite, NotificationSourceSuite


def created(name: str) -> str:
    """S3's own message about a new object."""
    written = {"key": quote_plus(name), "size": 7, "eTag": "a191475ae2bf7db9c7e320f7da455bbb"}
    record = {"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "landing"}, "object": written}}
    return json.dumps({"Records": [record]})


class SqsSuite(NotificationSourceSuite):
    """A queue of a server that tests can talk to with boto3."""

    ending = ""

    @pytest.fixture
    def address(self) -> str:
        raise NotImplementedError("a suite's class says which server it is about")

    @pytest.fixture
    def make_source(self, address: str) -> Iterator[Callable[[], SqsNotificationSource]]:
        self.sqs = client("sqs", address)
        self.queue = QueueServer({}, self.sqs).queue(self.ending)
        self.made: list[SqsNotificationSource] = []
        options = {**KEYS, "endpoint_url": address, "wait_seconds": 0, "visibility_seconds": self.hidden_seconds}

        def make() -> SqsNotificationSource:
            self.made.append(SqsNotificationSource(SqsNotificationSourceConfig(queue_url=self.queue, **options)))
            return self.made[-1]

        yield make
        for source in self.made:
            source.close()
        self.sqs.close()

    def announce(self, name: str) -> str:
        self.send(created(name))
        return f"s3://landing/{name}"

    def announce_garbage(self) -> None:
        self.send("{garbage")

    def send(self, body: str) -> None:
        self.sqs.send_message(QueueUrl=self.queue, MessageBody=body)

    def depth(self) -> int:
        return depth(self.sqs, self.queue)


class TestSqsOnMoto(SqsSuite):
    @pytest.fixture
    def address(self, moto: str) -> str:
        empty(moto)
        return moto


class TestSqsOnElasticMq(SqsSuite):
    @pytest.fixture
    def address(self, elasticmq: str) -> str:
        return elasticmq


class TestFifoSqsOnElasticMq(TestSqsOnElasticMq):
    ending = ".fifo"

    def send(self, body: str) -> None:
        # Groups of their own: within one, nothing shows while something is hidden.
        names = {"MessageGroupId": uuid.uuid4().hex, "MessageDeduplicationId": uuid.uuid4().hex}
        self.sqs.send_message(QueueUrl=self.queue, MessageBody=body, **names)


class TestSqsOnAStrictServer(NotificationSourceSuite):
    @pytest.fixture
    def make_source(self, scripted: Any, strict: Any) -> Iterator[Callable[[], SqsNotificationSource]]:
        self.strict = strict
        self.made: list[SqsNotificationSource] = []
        options = scripted(strict)

        def make() -> SqsNotificationSource:
            url = f"{options['endpoint_url']}/123456789012/announcements"
            config = SqsNotificationSourceConfig(
                queue_url=url, wait_seconds=0, visibility_seconds=self.hidden_seconds, **options
            )
            self.made.append(SqsNotificationSource(config))
            return self.made[-1]

        yield make
        for source in self.made:
            source.close()

    def announce(self, name: str) -> str:
        self.strict.send(created(name))
        return f"s3://landing/{name}"

    def announce_garbage(self) -> None:
        self.strict.send("{garbage")

    def depth(self) -> int:
        return len(self.strict.bodies)


class TestS3(BlobReaderSuite, BlobRemoverSuite):
    transfer = "obstore"
    versioning = ""

    @pytest.fixture
    def options(self, aws: dict[str, Any]) -> dict[str, Any]:
        return aws

    @pytest.fixture
    def make_reader(self, options: dict[str, Any]) -> Iterator[Callable[[], S3BlobReader]]:
        self.s3, self.bucket = client("s3", options["endpoint_url"]), f"b{uuid.uuid4().hex}"
        self.made: list[S3BlobReader] = []
        self.s3.create_bucket(Bucket=self.bucket)
        if self.versioning:
            self.s3.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration={"Status": self.versioning})

        def make() -> S3BlobReader:
            config = S3BlobReaderConfig(transfer=self.transfer, block_bytes=1_000_000, **options)
            self.made.append(S3BlobReader(config))
            return self.made[-1]

        yield make
        for reader in self.made:
            reader.close()
        self.s3.close()

    def put(self, name: str, data: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=name, Body=data)

    def remove(self, name: str) -> None:
        self.s3.delete_object(Bucket=self.bucket, Key=name)

    def uri(self, name: str) -> str:
        return f"s3://{self.bucket}/{name}"


class TestS3BySdk(TestS3):
    transfer = "sdk"


class TestS3WithVersions(TestS3):
    versioning = "Enabled"

    def remove(self, name: str) -> None:
        for version in self.s3.list_object_versions(Bucket=self.bucket, Prefix=name)["Versions"]:
            self.s3.delete_object(Bucket=self.bucket, Key=name, VersionId=version["VersionId"])


class TestS3WithVersionsBySdk(TestS3WithVersions):
    transfer = "sdk"


class TestS3ThatChecksSignatures(TestS3):
    @pytest.fixture
    def options(self, versitygw: str) -> dict[str, Any]:
        return {**KEYS, "endpoint_url": versitygw, "path_style": True}


class TestS3ThatChecksSignaturesBySdk(TestS3ThatChecksSignatures):
    transfer = "sdk"


class TestS3ThatChecksSignaturesWithVersions(TestS3ThatChecksSignatures):
    versioning = "Enabled"
    remove = TestS3WithVersions.remove
