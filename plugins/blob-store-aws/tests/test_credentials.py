"""Who asks AWS: each way to say so, that secrets stay secret, and that nothing is imported or built too early."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest
from volley_blob_store_aws import AwsConfig, S3BlobReader, S3BlobReaderConfig, SqsNotificationSourceConfig, transfers

from volley_core import BlobRef, ConfigError

SECRETS: dict[str, Any] = {
    "access_key_id": "AKIA1",
    "secret_access_key": "the-secret-key",
    "session_token": "the-session-token",
}


def test_importing_and_constructing_does_not_import_the_sdk() -> None:
    code = (
        "import sys, pickle; from volley_blob_store_aws import *;"
        "made = S3BlobReader(S3BlobReaderConfig()), SqsNotificationSource(SqsNotificationSourceConfig('https://q'));"
        "pickle.loads(pickle.dumps(made));"
        "print(*({'boto3', 'botocore'} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_secrets_are_never_shown() -> None:
    config = SqsNotificationSourceConfig(queue_url="https://q", **SECRETS)
    for shown in (repr(config), str(config), str(config.model_dump()), config.model_dump_json()):
        assert "the-secret-key" not in shown
        assert "the-session-token" not in shown
    with pytest.raises(ConfigError) as refused:
        AwsConfig(**SECRETS | {"access_key_id": None})
    assert "the-secret-key" not in str(refused.value)


def test_secrets_reach_spark_and_a_pickled_copy() -> None:
    config = S3BlobReaderConfig(**SECRETS)
    assert S3BlobReaderConfig.from_options(config.to_options()) == config
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"access_key_id": "AKIA1"}, "belong together"),
        ({"secret_access_key": "x"}, "belong together"),
        ({"session_token": "x"}, "'session_token' belongs to"),
        ({"access_key_id": "AKIA1", "secret_access_key": "x", "profile": "p"}, "two identities"),
        ({"anonymous": True, "profile": "p"}, "leave the keys"),
        ({"anonymous": True, "role_arn": "arn:aws:iam::1:role/r"}, "leave the keys"),
        ({"external_id": "x"}, "are about 'role_arn'"),
        ({"endpoint_url": "localhost:9000"}, "begins with http"),
    ],
)
def test_a_contradictory_identity_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AwsConfig(**options)


def read(config: S3BlobReaderConfig) -> bytes:
    reader = S3BlobReader(config)
    try:
        with reader.open(BlobRef("s3://landing/a.txt")) as file:
            return file.read()
    finally:
        reader.close()


@pytest.fixture(params=["obstore", "sdk"])
def transfer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def seen(scripted: Any, transfer: str) -> tuple[dict[str, Any], list[Any]]:
    """Options that lead to a server which notes the headers of each request, and those headers."""
    requests: list[Any] = []

    def script(request: Any, body: bytes) -> Any:
        requests.append((request.path, request.headers))
        return answer_with(b"bytes")

    return {**scripted(script), "transfer": transfer}, requests


def answer_with(data: bytes) -> Any:
    headers = {"Content-Range": f"bytes 0-{len(data) - 1}/{len(data)}", "ETag": '"e"'}
    return SimpleNamespace(status=206, body=data, headers=headers, cut=None)


def test_anonymous_requests_are_not_signed(seen: tuple[dict[str, Any], list[Any]]) -> None:
    options, requests = seen
    address = {name: options[name] for name in ("region", "endpoint_url", "path_style", "transfer")}
    assert read(S3BlobReaderConfig(anonymous=True, **address)) == b"bytes"
    assert [headers["Authorization"] for _, headers in requests] == [None]


def test_static_keys_sign_for_their_region(seen: tuple[dict[str, Any], list[Any]]) -> None:
    options, requests = seen
    assert read(S3BlobReaderConfig(**options | {"session_token": "token"})) == b"bytes"
    ((path, headers),) = requests
    assert path == "/landing/a.txt"
    assert f"Credential={options['access_key_id']}/" in headers["Authorization"]
    assert "/us-east-1/s3/" in headers["Authorization"]
    assert headers["X-Amz-Security-Token"] == "token"


def test_a_profile_is_read_from_the_configuration_files(
    seen: tuple[dict[str, Any], list[Any]], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, requests = seen
    file = tmp_path / "credentials"
    file.write_text("[landing]\naws_access_key_id = AKIAFROMPROFILE\naws_secret_access_key = x\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    address = {name: options[name] for name in ("region", "endpoint_url", "path_style", "transfer")}
    assert read(S3BlobReaderConfig(profile="landing", **address)) == b"bytes"
    assert "Credential=AKIAFROMPROFILE/" in requests[0][1]["Authorization"]
    with pytest.raises(ConfigError, match="Connecting to s3: .*nobody"):
        read(S3BlobReaderConfig(profile="nobody", **address))


ROLE = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIAOFTHEROLE</AccessKeyId><SecretAccessKey>x</SecretAccessKey><SessionToken>role-token</SessionToken>
<Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
DENIED = b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"


def test_a_role_is_assumed_with_the_given_keys(seen: tuple[dict[str, Any], list[Any]], scripted: Any) -> None:
    options, requests = seen
    asked: list[tuple[str, dict[str, list[str]]]] = []

    def sts(request: Any, body: bytes) -> Any:
        asked.append((request.headers["Authorization"], parse_qs(body.decode())))
        return SimpleNamespace(status=200, body=ROLE.encode(), headers={"Content-Type": "text/xml"}, cut=None)

    role = {"role_arn": "arn:aws:iam::123456789012:role/reader", "external_id": "volley"}
    config = S3BlobReaderConfig(**options | role, sts_endpoint_url=scripted(sts)["endpoint_url"])
    assert read(config) == b"bytes"
    ((signature, parameters),) = asked
    assert f"Credential={options['access_key_id']}/" in signature
    assert (parameters["RoleArn"], parameters["ExternalId"]) == ([role["role_arn"]], ["volley"])
    ((_, headers),) = requests
    assert "Credential=ASIAOFTHEROLE/" in headers["Authorization"]
    assert headers["X-Amz-Security-Token"] == "role-token"


def role_for_minutes(seen: tuple[dict[str, Any], list[Any]], scripted: Any, script: Any) -> S3BlobReader:
    """A reader that assumes a role; before the first object was read, for too short a time."""
    options, requests = seen
    issued = itertools.count()

    def sts(request: Any, body: bytes) -> Any:
        token, ends = str(next(issued)), datetime.now(UTC) + timedelta(minutes=20 if requests else 5)
        text = ROLE.replace("role-token", token).replace("2999-01-01T00:00:00Z", ends.isoformat())
        granted = SimpleNamespace(status=200, body=text.encode(), headers={"Content-Type": "text/xml"}, cut=None)
        return script(granted) if requests else granted

    role = {"role_arn": "arn:aws:iam::123456789012:role/reader", "sts_endpoint_url": scripted(sts)["endpoint_url"]}
    return S3BlobReader(S3BlobReaderConfig(**options | role))


def test_a_role_is_assumed_again_before_its_credentials_expire(
    seen: tuple[dict[str, Any], list[Any]], scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # obstore asks for credentials whenever the ones that it has are about to end.
    monkeypatch.setattr(transfers, "_CREDENTIALS_LAST", timedelta(0))
    reader = role_for_minutes(seen, scripted, lambda granted: granted)
    for _ in range(3):
        reader.open(BlobRef("s3://landing/a.txt")).close()
    reader.close()
    tokens = [headers["X-Amz-Security-Token"] for _, headers in seen[1]]
    assert tokens[0] != tokens[1] == tokens[2]


def test_a_role_that_is_taken_away_meanwhile_says_so(seen: tuple[dict[str, Any], list[Any]], scripted: Any) -> None:
    denied = SimpleNamespace(status=403, body=DENIED, headers={"Content-Type": "text/xml"}, cut=None)
    reader = role_for_minutes(seen, scripted, lambda granted: denied)
    reader.open(BlobRef("s3://landing/a.txt")).close()
    with pytest.raises(ConfigError, match=r"access is denied \(AssumeRole answered AccessDenied"):
        reader.open(BlobRef("s3://landing/a.txt"))
    reader.close()


def test_a_role_that_may_not_be_assumed_says_so(seen: tuple[dict[str, Any], list[Any]], scripted: Any) -> None:
    options, _ = seen
    denied = SimpleNamespace(status=403, body=DENIED, headers={"Content-Type": "text/xml"}, cut=None)
    sts = scripted(lambda request, body: denied)["endpoint_url"]
    role = "arn:aws:iam::123456789012:role/reader"
    with pytest.raises(ConfigError, match=r"access is denied \(AssumeRole answered.*Allow sts:AssumeRole"):
        read(S3BlobReaderConfig(**options, role_arn=role, sts_endpoint_url=sts))


def test_no_credentials_say_what_to_give(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ConfigError, match="there are no credentials. Give 'profile' or"):
        read(S3BlobReaderConfig(region="us-east-1", endpoint_url="http://127.0.0.1:1"))
