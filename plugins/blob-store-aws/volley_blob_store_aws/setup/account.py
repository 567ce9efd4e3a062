"""The account, region and bucket that are set up: asks AWS what is there, and makes the calls that change it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from volley_blob_store_aws.credentials import AwsClient, AwsConfig
from volley_blob_store_aws.errors import DESTINATION_REFUSED, MISSING, code_of, translated
from volley_core import ConfigError, VolleyError

_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)
"""S3 tries a queue before it takes it as a destination, and the queue's policy needs a while to be known everywhere."""


@dataclass(frozen=True, slots=True)
class Call:
    """One change, with everything that AWS is told."""

    service: str
    operation: str
    """As boto3 spells it."""
    parameters: dict[str, Any]


class Account:
    """Whose things these are. Nothing is asked before it is needed."""

    def __init__(self, config: AwsConfig, bucket: str) -> None:
        self._config = config
        self._bucket = bucket
        self._clients: dict[str, AwsClient] = {}

    def ask(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """What AWS answers. Changes nothing."""
        with translated(f"Looking at what is there, {service}:{self._name(service, operation)} {_about(parameters)}"):
            answer: dict[str, Any] = getattr(self.client(service), operation)(**parameters)
        return answer

    def find(self, service: str, operation: str, **parameters: Any) -> dict[str, Any] | None:
        """The same; None if what is asked for does not exist."""
        try:
            return self.ask(service, operation, **parameters)
        except VolleyError as error:
            if _code(error) in MISSING:
                return None
            raise

    def make(self, call: Call) -> None:
        """Change something."""
        doing = f"{self.name(call)} {_about(call.parameters)}"
        for pause in (*_PAUSES_SECONDS, None):
            try:
                with translated(doing):
                    getattr(self.client(call.service), call.operation)(**call.parameters)
                return
            except ConfigError as error:
                if pause is None or call.service != "s3" or _code(error) != DESTINATION_REFUSED:
                    raise
            time.sleep(pause)

    def name(self, call: Call) -> str:
        """The call as AWS's own documents name it: sqs:CreateQueue."""
        return f"{call.service}:{self._name(call.service, call.operation)}"

    def client(self, service: str) -> Any:
        if service not in self._clients:
            config = self._config if service == "s3" else self._config.with_region(self.region)
            self._clients[service] = AwsClient(service, config)
        return self._clients[service]()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    @cached_property
    def region(self) -> str:
        """The bucket's: S3 announces to queues and topics beside the bucket only."""
        wanted = self._config.region
        found = self.find("s3", "head_bucket", Bucket=self._bucket)
        if found is None and wanted is None:
            raise ConfigError(
                f"There is no bucket {self._bucket!r}. Correct --bucket, or make it first. To tear down what announced "
                "a bucket that is gone, give --region."
            )
        region: str = (found or {}).get("BucketRegion") or wanted or self.client("s3").meta.region_name
        if wanted is not None and wanted != region:
            raise ConfigError(
                f"The bucket {self._bucket!r} is in {region}, not in {wanted}, and a queue must be beside its bucket. "
                f"Leave --region out, or give --region {region}."
            )
        return region

    @cached_property
    def number(self) -> str:
        return str(self._identity["Account"])

    @cached_property
    def partition(self) -> str:
        """`aws`, or what ARNs begin with in China and for governments."""
        return str(self._identity["Arn"]).split(":")[1]

    @cached_property
    def bucket_arn(self) -> str:
        return f"arn:{self.partition}:s3:::{self._bucket}"

    @cached_property
    def is_versioned(self) -> bool:
        return "Status" in self.ask("s3", "get_bucket_versioning", Bucket=self._bucket)

    def arn(self, service: str, name: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.number}:{name}"

    def queue_url(self, name: str) -> str:
        """What the URL of a queue is or will be."""
        return f"{self.client('sqs').meta.endpoint_url.rstrip('/')}/{self.number}/{name}"

    @cached_property
    def _identity(self) -> dict[str, Any]:
        return self.ask("sts", "get_caller_identity")

    def _name(self, service: str, operation: str) -> str:
        return str(self.client(service).meta.method_to_api_mapping[operation])


def _about(parameters: dict[str, Any]) -> str:
    """What a call is about: its first parameter, which names the thing."""
    return str(next(iter(parameters.values()), "")).rpartition("/")[2]


def _code(error: VolleyError) -> str:
    return code_of(error.__cause__) if hasattr(error.__cause__, "response") else ""
