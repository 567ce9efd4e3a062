"""Who asks AWS, and where: the options that S3 and SQS share, and the client that they make."""

from __future__ import annotations

import os
import threading
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from volley_blob_store_aws.errors import translated
from volley_core import ConnectorConfig

_SESSION_NAME = "volley"
_HTTP_TRIES = 5
_POOL_SIZE = 32
_IDENTITY = (
    "region",
    "profile",
    "access_key_id",
    "secret_access_key",
    "session_token",
    "role_arn",
    "external_id",
    "sts_endpoint_url",
)
_making = threading.Lock()


class AwsConfig(ConnectorConfig):
    """Options of everything that talks to AWS. Without any, boto3 looks where it always looks."""

    region: str | None = Field(default=None, min_length=1, description="The AWS region, for example eu-central-1.")
    endpoint_url: str | None = Field(
        default=None, description="Where the service is, if not at AWS: http://localhost:9000."
    )
    profile: str | None = Field(default=None, min_length=1, description="A profile of the AWS configuration files.")
    access_key_id: str | None = Field(
        default=None, min_length=1, description="A static access key; needs secret_access_key."
    )
    secret_access_key: SecretStr | None = Field(default=None, description="The secret of access_key_id.")
    session_token: SecretStr | None = Field(default=None, description="The token of temporary static keys.")
    role_arn: str | None = Field(
        default=None,
        min_length=1,
        description="A role to assume with the credentials above; renewed before it expires.",
    )
    external_id: str | None = Field(default=None, min_length=1, description="The external id that the role asks for.")
    sts_endpoint_url: str | None = Field(default=None, description="Where role_arn is assumed, if not at AWS.")
    anonymous: bool = Field(default=False, description="Ask without credentials, as public buckets permit.")
    path_style: bool = Field(
        default=False, description="Put the bucket into the path, not the host name, as many S3-compatible stores need."
    )

    @field_validator("endpoint_url", "sts_endpoint_url")
    @classmethod
    def _is_address(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError("an endpoint begins with http:// or https://")
        return url

    @model_validator(mode="after")
    def _is_one_identity(self) -> Self:
        static = self.access_key_id is not None
        if static != (self.secret_access_key is not None):
            raise ValueError("'access_key_id' and 'secret_access_key' belong together; give both or none")
        if self.session_token is not None and not static:
            raise ValueError("'session_token' belongs to 'access_key_id' and 'secret_access_key'; give them too")
        if static and self.profile is not None:
            raise ValueError("static keys and 'profile' are two identities; give one")
        if self.anonymous and (static or self.profile is not None or self.role_arn is not None):
            raise ValueError("anonymous=true asks without credentials; leave the keys, 'profile' and 'role_arn' out")
        if self.role_arn is None and (self.external_id is not None or self.sts_endpoint_url is not None):
            raise ValueError("'external_id' and 'sts_endpoint_url' are about 'role_arn'; give that too")
        return self


class AwsClient:
    """A boto3 client that is made where it is first used. Pickled, it is its config alone."""

    def __init__(self, service: str, config: AwsConfig) -> None:
        self._service = service
        self._config = config
        self._lock = threading.Lock()
        self._client: Any = None
        self.session: Any = None
        """Whose credentials sign; None before the first use."""

    def __reduce__(self) -> tuple[type[AwsClient], tuple[str, AwsConfig]]:
        return (AwsClient, (self._service, self._config))

    def __call__(self) -> Any:
        with self._lock:
            if self._client is None:
                # boto3's clients may be shared between threads, its sessions only so that one client is made at a time.
                with translated(f"Connecting to {self._service}"), _making:
                    self.session = _session(self._config)
                    self._client = _connect(self._service, self.session, self._config)
            return self._client

    def credentials(self) -> Any:
        """What a request is signed with now, renewed if need be; None if nothing is to be signed."""
        self()
        if self._config.anonymous:
            return None
        with translated(f"Connecting to {self._service}"):
            return _found(self.session.get_credentials()).get_frozen_credentials()

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = self.session = None


def _connect(service: str, session: Any, config: AwsConfig) -> Any:
    from botocore import UNSIGNED
    from botocore.config import Config

    settings = Config(
        retries={"mode": "standard", "total_max_attempts": _HTTP_TRIES},
        connect_timeout=10,
        # Longer than the longest long poll.
        read_timeout=60,
        max_pool_connections=_POOL_SIZE,
        user_agent_extra=_SESSION_NAME,
        signature_version=UNSIGNED if config.anonymous else None,
        s3={"addressing_style": "path" if config.path_style else "auto"},
    )
    return session.client(service, endpoint_url=config.endpoint_url, config=settings)


def _session(config: AwsConfig) -> Any:
    identity = AwsConfig(**{name: getattr(config, name) for name in config.model_fields_set & set(_IDENTITY)})
    return _shared_session(identity, tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_"))))


@lru_cache(maxsize=16)
def _shared_session(config: AwsConfig, environment: tuple[tuple[str, str], ...]) -> Any:
    """One for all tasks of a process: each would otherwise assume its role, or ask the machine who it is, anew."""
    import boto3

    session = boto3.session.Session(
        profile_name=config.profile,
        region_name=config.region,
        aws_access_key_id=config.access_key_id,
        aws_secret_access_key=_open(config.secret_access_key),
        aws_session_token=_open(config.session_token),
    )
    return session if config.role_arn is None else _assume(session, config)


def _assume(session: Any, config: AwsConfig) -> Any:
    import boto3
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
    from botocore.session import get_session

    source = _found(session.get_credentials())
    external = {} if config.external_id is None else {"ExternalId": config.external_id}
    fetcher = AssumeRoleCredentialFetcher(
        partial(session.client, endpoint_url=config.sts_endpoint_url),
        source,
        config.role_arn,
        extra_args={"RoleSessionName": _SESSION_NAME, **external},
    )
    credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    core = get_session()
    core.register_component("credential_provider", SimpleNamespace(load_credentials=lambda: credentials))
    return boto3.session.Session(botocore_session=core, region_name=session.region_name)


def _found(credentials: Any) -> Any:
    from botocore.exceptions import NoCredentialsError

    if credentials is None:
        raise NoCredentialsError()
    return credentials


def _open(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
