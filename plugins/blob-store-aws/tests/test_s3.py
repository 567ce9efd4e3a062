"""What S3 asks for beyond the contract: versions, blocks, answers that break off, and errors that say what to do."""

from __future__ import annotations

import io
import random
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from volley_blob_store_aws import S3BlobReader, S3BlobReaderConfig, transfers

from tests.servers.aws import KEYS, client
from volley_core import (
    BlobChangedError,
    BlobNotFoundError,
    BlobRef,
    ConfigError,
    DataError,
    TransientError,
    VolleyError,
)

Make = Callable[..., S3BlobReader]


@pytest.fixture(params=["obstore", "sdk"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[S3BlobReader] = []

    def reader(**options: Any) -> S3BlobReader:
        made.append(S3BlobReader(S3BlobReaderConfig(**{"transfer": request.param, **options})))
        return made[-1]

    yield reader
    for one in made:
        one.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are short."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    monkeypatch.setitem(transfers.RETRY_CONFIG, "backoff", backoff)


@pytest.fixture
def reader(make: Make, aws: dict[str, Any], bucket: str) -> S3BlobReader:
    return make(**aws)


def keep_versions(s3: Any, bucket: str, status: str = "Enabled") -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


class Requests:
    """A server that serves one object by ranges and notes what was asked for."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.ranges: list[str] = []
        self.cuts: list[int] = []
        """After how many bytes the next answers break off."""

    def __call__(self, request: Any, body: bytes) -> Any:
        asked = request.headers["Range"]
        self.ranges.append(asked)
        if asked is None:
            return SimpleNamespace(status=200, body=self.data, headers={"ETag": '"e"'}, cut=None)
        if not self.data:
            return failure(416, "InvalidRange")
        first, last = (int(number) for number in asked.removeprefix("bytes=").split("-"))
        part = self.data[first : last + 1]
        headers = {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(self.data)}", "ETag": '"e"'}
        return SimpleNamespace(status=206, body=part, headers=headers, cut=self.cuts.pop(0) if self.cuts else None)


def failure(status: int, code: str, **headers: str) -> Any:
    body = f"<Error><Code>{code}</Code><Message>said so</Message></Error>".encode()
    return SimpleNamespace(status=status, body=body, headers=headers, cut=None)


OBJECT = BlobRef("s3://landing/in/a.bin")


def test_a_version_is_read_even_if_it_is_not_the_latest(reader: S3BlobReader, s3: Any, bucket: str) -> None:
    keep_versions(s3, bucket)
    old = s3.put_object(Bucket=bucket, Key="k", Body=b"old")["VersionId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"new")
    s3.delete_object(Bucket=bucket, Key="k")
    with reader.open(BlobRef(f"s3://{bucket}/k", version=old)) as file:
        assert file.read() == b"old"
    with pytest.raises(BlobNotFoundError, match=f"s3://{bucket}/k: the object is gone"):
        reader.open(BlobRef(f"s3://{bucket}/k"))


def test_listing_and_looking_name_the_same_version(reader: S3BlobReader, s3: Any, bucket: str) -> None:
    for status in ("Enabled", "Suspended"):
        keep_versions(s3, bucket, status)
        for body in (b"1", b"22"):
            s3.put_object(Bucket=bucket, Key=f"in/{status}", Body=body)
        s3.put_object(Bucket=bucket, Key=f"in/{status}-deleted", Body=b"3")
        s3.delete_object(Bucket=bucket, Key=f"in/{status}-deleted")
    listed = list(reader.list(f"s3://{bucket}/in/"))
    assert [ref.uri for ref in listed] == [f"s3://{bucket}/in/{status}" for status in ("Enabled", "Suspended")]
    assert listed == [reader.stat(ref) for ref in listed]
    assert [ref.version.startswith('"') for ref in listed] == [False, True], "version null is named by its etag"


def test_an_announced_etag_pins_the_object(reader: S3BlobReader, s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"announced")["ETag"]
    ref = BlobRef(f"s3://{bucket}/k", version=etag)
    with reader.open(ref) as file:
        assert file.read() == b"announced"
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    with pytest.raises(BlobChangedError, match=f"s3://{bucket}/k: the object was overwritten"):
        reader.open(ref)


def test_an_object_that_changes_under_an_open_file_is_noticed(
    make: Make, aws: dict[str, Any], s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"a" * 600_000)
    with make(**aws, block_bytes=200_000).open(BlobRef(f"s3://{bucket}/k")) as file:
        assert file.read(10) == b"a" * 10
        s3.put_object(Bucket=bucket, Key="k", Body=b"b" * 600_000)
        file.seek(400_000)
        with pytest.raises(BlobChangedError, match="overwritten"):
            file.read(10)


def test_random_access_gives_the_right_bytes(make: Make, scripted: Any) -> None:
    chance = random.Random(7)
    data = chance.randbytes(300_000)
    with make(**scripted(Requests(data)), block_bytes=50_000).open(OBJECT) as file:
        for _ in range(200):
            start, length = chance.randrange(len(data) + 10), chance.choice([1, 100, 40_000, 200_000])
            assert file.seek(start) == start
            assert file.read(length) == data[start : start + length]
        file.seek(0)
        assert b"".join(file) == data


def test_a_small_object_costs_one_request(make: Make, scripted: Any) -> None:
    table = pa.table({"id": list(range(1000))})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    server = Requests(sink.getvalue())
    with make(**scripted(server)).open(OBJECT) as file:
        assert pq.read_table(file).equals(table)
    assert server.ranges == ["bytes=0-8388607"]


def test_a_big_object_is_asked_for_in_blocks_and_never_twice(make: Make, scripted: Any) -> None:
    data = random.Random(3).randbytes(1_000_000)
    server = Requests(data)
    with make(**scripted(server), block_bytes=300_000).open(OBJECT) as file:
        assert file.read() == data
    assert sorted(server.ranges) == [
        "bytes=0-299999",
        "bytes=300000-599999",
        "bytes=600000-899999",
        "bytes=900000-999999",
    ]


def test_an_empty_object_is_empty(make: Make, scripted: Any) -> None:
    server = Requests(b"")
    with make(**scripted(server)).open(OBJECT) as file:
        assert file.read() == b""
        assert file.seek(0, io.SEEK_END) == 0
    assert server.ranges == ["bytes=0-8388607", None]


def test_refusals_and_an_answer_that_breaks_off_are_asked_for_again(make: Make, scripted: Any, quick: None) -> None:
    server = Requests(random.Random(5).randbytes(5000))
    server.cuts = [2000]
    refusals = [failure(503, "SlowDown"), failure(500, "InternalError")]
    reader = make(**scripted(lambda request, body: refusals.pop() if refusals else server(request, body)))
    with reader.open(OBJECT) as file:
        assert file.read() == server.data
    assert (refusals, len(server.ranges)) == ([], 2)


def test_an_object_that_is_overwritten_while_an_answer_breaks_off_is_never_mixed(
    make: Make, scripted: Any, quick: None
) -> None:
    server = Requests(b"a" * 5000)
    server.cuts = [2000]

    def script(request: Any, body: bytes) -> Any:
        answer = server(request, body)
        if len(server.ranges) > 1:
            answer.body, answer.headers["ETag"] = answer.body.replace(b"a", b"b"), '"other"'
        return answer

    try:
        with make(**scripted(script)).open(OBJECT) as file:
            found = file.read()
    except TransientError:
        return
    assert found == b"b" * 5000


def test_answers_that_keep_breaking_off_are_a_transient_error(make: Make, scripted: Any, quick: None) -> None:
    server = Requests(b"x" * 5000)
    server.cuts = [100] * 10
    with pytest.raises(TransientError, match="Reading s3://landing/in/a.bin"):
        make(**scripted(server)).open(OBJECT)
    assert len(server.ranges) == 5


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (failure(403, "AccessDenied"), ConfigError, "access is denied .*said so.*Allow s3:GetObject, s3:ListBucket"),
        (failure(403, "InvalidAccessKeyId"), ConfigError, "the credentials are not accepted.*renew"),
        (failure(403, "SignatureDoesNotMatch"), ConfigError, "the credentials are not accepted"),
        (failure(400, "ExpiredToken"), ConfigError, "the credentials are not accepted"),
        (failure(403, "RequestTimeTooSkewed"), ConfigError, "clock"),
        (failure(403, "InvalidObjectState"), DataError, "archived"),
        (failure(404, "NoSuchKey"), BlobNotFoundError, "gone"),
        (failure(404, "NoSuchVersion"), BlobNotFoundError, "gone"),
        (failure(405, "MethodNotAllowed"), BlobNotFoundError, "delete marker"),
        (failure(404, "NoSuchBucket"), ConfigError, "there is no such bucket"),
        (failure(412, "PreconditionFailed"), BlobChangedError, "overwritten"),
        (failure(400, "Strange"), ConfigError, "AWS refuses the request .GetObject answered Strange"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_error_names_the_object_and_what_to_do(
    make: Make, scripted: Any, answer: Any, kind: type[VolleyError], message: str
) -> None:
    reader = make(**scripted(lambda request, body: answer))
    with pytest.raises(kind, match=f"Reading s3://landing/in/a.bin: .*{message}") as raised:
        reader.open(OBJECT)
    assert type(raised.value) is kind


@pytest.mark.parametrize("answer", [failure(503, "SlowDown"), failure(500, "InternalError"), failure(502, "Strange")])
def test_throttling_and_server_errors_are_tried_again_and_then_transient(
    make: Make, scripted: Any, answer: Any, quick: None
) -> None:
    asked: list[str] = []

    def script(request: Any, body: bytes) -> Any:
        asked.append(request.path)
        return answer

    with pytest.raises(TransientError, match="Trying again later"):
        make(**scripted(script)).open(OBJECT)
    assert len(asked) == 5


def test_a_bucket_in_another_region_says_which(make: Make, scripted: Any) -> None:
    answer = failure(301, "PermanentRedirect", **{"x-amz-bucket-region": "eu-west-3"})
    reader = make(**scripted(lambda request, body: answer))
    for call in (lambda: reader.open(OBJECT), lambda: reader.stat(OBJECT)):
        with pytest.raises(ConfigError, match=r"s3://landing/in/a\.bin: it is in another region.*to 'eu-west-3'"):
            call()


def test_a_listing_that_is_denied_says_what_to_allow(make: Make, scripted: Any) -> None:
    options = scripted(lambda request, body: failure(403, "AccessDenied"))
    for versioned, action in (
        (None, "s3:GetBucketVersioning"),
        (False, "s3:ListBucket"),
        (True, "s3:ListBucketVersions"),
    ):
        with pytest.raises(ConfigError, match=f"Listing s3://landing/in/: access is denied.*Allow {action}"):
            list(make(**options, versioned=versioned).list("s3://landing/in/"))


def test_a_missing_bucket_is_a_config_error(reader: S3BlobReader) -> None:
    with pytest.raises(ConfigError, match="s3://no-such-bucket/x: there is no such bucket"):
        reader.open(BlobRef("s3://no-such-bucket/x"))
    with pytest.raises(ConfigError, match="there is no such bucket"):
        list(reader.list("s3://no-such-bucket/"))


@pytest.mark.parametrize("uri", ["landing/a", "https://landing/a", "s3://", "s3:///a", "s3://landing", "s3://landing/"])
def test_what_is_no_object_in_s3_is_refused(make: Make, uri: str) -> None:
    with pytest.raises(ConfigError, match="s3://bucket"):
        make().open(BlobRef(uri))


def test_a_listing_longer_than_a_page_is_whole(make: Make, aws: dict[str, Any], s3: Any, bucket: str) -> None:
    # moto asks for no more than this many per page; a thousand objects would take a minute.
    reader = make(**aws)
    client = reader._client()
    client.meta.events.register("provide-client-params.s3.ListObjectsV2", lambda params, **_: {**params, "MaxKeys": 3})
    for number in range(10):
        s3.put_object(Bucket=bucket, Key=f"in/{number} +%.json", Body=b"{}")
    found = [ref.uri for ref in reader.list(f"s3://{bucket}/in/")]
    assert found == [f"s3://{bucket}/in/{number} +%.json" for number in range(10)]


@pytest.fixture
def checked(versitygw: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Options that lead to an S3 that checks signatures, and a bucket there with an object `k`."""
    s3 = client("s3", versitygw)
    bucket = f"b{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    yield {**KEYS, "endpoint_url": versitygw, "path_style": True}, bucket
    s3.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"secret_access_key": "wrong"},
            r"the credentials are not accepted \(GetObject answered SignatureDoesNotMatch",
        ),
        ({"access_key_id": "AKIANOBODY"}, r"the credentials are not accepted \(GetObject answered XAdminUserNotFound"),
    ],
)
def test_a_wrong_identity_is_named(
    make: Make, checked: tuple[dict[str, Any], str], options: dict[str, str], message: str
) -> None:
    right, bucket = checked
    with make(**right).open(BlobRef(f"s3://{bucket}/k")) as file:
        assert file.read() == b"bytes"
    with pytest.raises(ConfigError, match=f"Reading s3://{bucket}/k: {message}"):
        make(**right | options).open(BlobRef(f"s3://{bucket}/k"))


def test_a_bucket_in_another_region_is_found_if_the_store_tells_where(
    make: Make, checked: tuple[dict[str, Any], str]
) -> None:
    right, bucket = checked
    with make(**right | {"region": "eu-west-3"}).open(BlobRef(f"s3://{bucket}/k")) as file:
        assert file.read() == b"bytes"


@pytest.mark.parametrize("pays", [True, False])
def test_requester_pays_goes_with_every_request(make: Make, scripted: Any, pays: bool) -> None:
    server = Requests(b"x" * 100)
    asked: list[tuple[str, str | None]] = []

    def script(request: Any, body: bytes) -> Any:
        asked.append((request.command, request.headers["x-amz-request-payer"]))
        if "list-type" in request.path:
            return SimpleNamespace(status=200, body=b"<ListBucketResult/>", headers={}, cut=None)
        answer = server(request, body)
        answer.headers["Last-Modified"] = "Wed, 18 Nov 2026 10:00:00 GMT"
        return answer

    reader = make(**scripted(script), requester_pays=pays, versioned=False)
    reader.open(OBJECT).close()
    reader.stat(OBJECT)
    assert list(reader.list("s3://landing/")) == []
    assert asked == [(method, "requester" if pays else None) for method in ("GET", "HEAD", "GET")]


@pytest.mark.parametrize("key", ["in//a", "/a", "a/", "./a", "a/../b", "a\nb"])
def test_a_key_that_looks_like_a_detour_is_taken_as_it_is(make: Make, scripted: Any, key: str) -> None:
    paths: list[str] = []
    server = Requests(b"bytes")

    def script(request: Any, body: bytes) -> Any:
        paths.append(unquote(request.path))
        return server(request, body)

    with make(**scripted(script)).open(BlobRef(f"s3://landing/{key}")) as file:
        assert file.read() == b"bytes"
    assert paths == [f"/landing/{key}"]


def test_obstore_goes_where_boto3_would() -> None:
    def store(bucket: str, **options: Any) -> Any:
        reader = S3BlobReader(S3BlobReaderConfig(anonymous=True, region="eu-central-1", **options))
        try:
            return reader._transfer._by_obstore._make_store(bucket).config
        finally:
            reader.close()

    address = "https://s3.eu-central-1.amazonaws.com"
    for bucket, options, endpoint in (
        ("landing", {}, address.replace("s3", "landing.s3", 1)),
        ("landing", {"path_style": True}, address),
        ("my.bucket", {}, address),
        ("landing", {"endpoint_url": "https://minio.example:9000"}, "https://minio.example:9000"),
    ):
        config = store(bucket, **options)
        assert (config["endpoint"], config["region"]) == (endpoint, "eu-central-1")
        assert config["virtual_hosted_style_request"] == str(bucket in endpoint).lower()
