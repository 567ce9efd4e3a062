"""Saved payloads of every kind, what they announce, and damaged ones: never an exception, never a loss."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from volley_blob_store_aws.events import parse

from volley_core import BlobRef

PAYLOADS = Path(__file__).parent / "payloads"
REFUSED = sorted((PAYLOADS / "refused").glob("*.json"))
MD5 = '"bb6cb5c68df4652941caf652a366f2d8"'
PUT_MS = 1714637394623
SNS_MS = 1714637580000


def put(key: str, size: int = 7, version: str = MD5, sequencer: str = "", time_ms: int = PUT_MS) -> BlobRef:
    return BlobRef(f"s3://landing/{key}", size, version, sequencer, time_ms)


def seen(path: str, size: int, etag: str, time_ms: int, sequencer: str = "") -> BlobRef:
    return BlobRef(f"s3://{path}", size, f'"{etag}"', sequencer, time_ms)


EXPECTED: dict[str, tuple[BlobRef, ...]] = {
    "s3_put": (put("in/a.json", sequencer="0055AED6DCD90281E5"),),
    "s3_put_odd_key": (put("in/a b+ü%.json"),),
    "s3_put_versioned": (put("in/v.json", version="096fKKXTRTtl3on89fVO.nfljtsv6qko", sequencer="0055AED6DCD90281E6"),),
    "s3_put_null_version": (put("in/v.json"),),
    "s3_copy": (put("in/copy.json", 13, '"959f0099b1f0d1c24f2943712bffe2e5"'),),
    "s3_multipart": (put("in/mp.bin", 5242890, '"298c9a5c8205ea8eeef29652993678aa-2"'),),
    "s3_several_records": (put("in/1.json"), put("in/3.json", version='"a191475ae2bf7db9c7e320f7da455bbb"')),
    "s3_delete": (),
    "s3_delete_marker": (),
    "s3_tagging": (),
    "s3_restore": (),
    "s3_test_event": (),
    "moto_put": (put("in/m.json"),),
    "minio_put_empty": (put("in/empty.json", 0, "a2198d7d-46be-45a1-9255-b5b658277952", sequencer="18E9165E39683F64"),),
    "versity_put": (put("in/v.json", 7, '"a191475ae2bf7db9c7e320f7da455bbb"', sequencer="2", time_ms=1714638518000),),
    "sns_wrapped": (put("d=1/x y.json", 2),),
    "sns_raw": (put("d=1/x y.json", 2),),
    "sns_wrapped_test_event": (),
    "eventbridge_created": (
        put("d/a=1/x y+z%20.json", 2, "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e", "617f08299329d189", SNS_MS),
    ),
    "sns_eventbridge": (put("d/a=1/x y+z%20.json", 2, "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e", "617f08299329d189", SNS_MS),),
    "eventbridge_unversioned": (put("in/u.json", 2, '"99914b932bd37a50b983c5e7c90ae93b"', "617f08299329d18a", SNS_MS),),
    "moto_eventbridge": (put("in/e.json", 2, "a6a21c97-3eb8-40d9-b5c7-087a6e94e458", "617f08299329d189", SNS_MS),),
    "eventbridge_deleted": (),
    # As the servers sent them, every field.
    "moto_test_event": (),
    "moto_put_odd_key": (seen("bucket1/in/a b+ü.json", 7, "bb6cb5c68df4652941caf652a366f2d8", 1794989394623),),
    "moto_copy": (seen("bucket1/in/copy.json", 13, "959f0099b1f0d1c24f2943712bffe2e5", 1794989396809),),
    "moto_multipart": (seen("bucket1/in/mp.bin", 5242890, "298c9a5c8205ea8eeef29652993678aa-2", 1794989397973),),
    "moto_sns_wrapped": (seen("bsns/d/a=1/x y.json", 2, "99914b932bd37a50b983c5e7c90ae93b", 1794989578697),),
    "minio_put_versioned": (
        BlobRef(
            "s3://judge1794990520/in/v.json",
            7,
            "a2198d7d-46be-45a1-9255-b5b658277952",
            "18E9165E39683F64",
            1794990520430,
        ),
    ),
    "minio_delete_marker": (),
    "versity_put_versioned": (
        seen("judge1794990518/in/v.json", 7, "a191475ae2bf7db9c7e320f7da455bbb", 1794990518000, "2"),
    ),
    "versity_put_odd_key": (
        seen("judge1794990518/in/a b+c%20ü.json", 7, "a191475ae2bf7db9c7e320f7da455bbb", 1794990518000, "2"),
    ),
}


def body(name: str) -> str:
    return (PAYLOADS / f"{name}.json").read_text()


def understood(text: str) -> tuple[BlobRef, ...] | None:
    """What a message announces; None if it is left in the queue. Any other exception fails the test."""
    try:
        return parse(text)
    except ValueError:
        return None


def test_every_payload_has_an_expectation() -> None:
    assert {file.stem for file in PAYLOADS.glob("*.json")} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_payload_announces_exactly_its_objects(name: str) -> None:
    assert parse(body(name)) == EXPECTED[name]


@pytest.mark.parametrize("file", REFUSED, ids=lambda file: file.stem)
def test_a_message_that_is_not_wholly_understood_is_refused(file: Path) -> None:
    with pytest.raises(ValueError, match="."):
        parse(file.read_text())


def test_a_message_nested_without_end_is_refused() -> None:
    assert understood("[" * 200_000) is None
    assert understood('{"a":' * 200_000) is None


@pytest.mark.parametrize("name", [name for name, refs in EXPECTED.items() if refs])
def test_a_truncated_message_is_refused(name: str) -> None:
    text = body(name).rstrip()
    assert [parse(text[:end]) for end in range(0, len(text), 7) if understood(text[:end]) is not None] == []


@pytest.mark.parametrize("name", [name for name, refs in EXPECTED.items() if refs and "eventbridge" not in name])
def test_a_record_without_what_names_its_object_is_refused(name: str) -> None:
    message = json.loads(body(name))
    inner = json.loads(message["Message"]) if "Message" in message else message
    for missing in ("key", "bucket", "object", "s3"):
        damaged = json.loads(json.dumps(inner))
        for record in damaged["Records"]:
            remove(record, missing)
        assert understood(json.dumps(damaged)) is None, missing


def remove(value: Any, name: str) -> None:
    if isinstance(value, dict):
        value.pop(name, None)
        for item in value.values():
            remove(item, name)


@pytest.mark.parametrize("name", EXPECTED)
def test_fuzzed_bytes_raise_nothing_but_value_errors(name: str) -> None:
    chance = random.Random(name)
    text = body(name)
    for _ in range(150):
        damaged = list(text)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chr(chance.choice([chance.randrange(128), 0xD800, 0x1F600]))
        found = understood("".join(damaged))
        assert found is None or all(ref.uri.startswith("s3://") and ref.size >= 0 for ref in found)


@pytest.mark.parametrize("name", [name for name, refs in EXPECTED.items() if refs])
def test_a_field_of_any_other_type_never_makes_an_object_disappear(name: str) -> None:
    """A message that is understood is acknowledged, so what it announces must not become less."""
    message = json.loads(body(name))
    for path in paths(message):
        for value in (None, 7, -1, 1.5, True, "", [], {}, [None], {"a": 1}):
            found = understood(json.dumps(replaced(message, path, value)))
            assert found is None or len(found) == len(EXPECTED[name]), (path, value)


def paths(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, item in items for path in ((*above, key), *paths(item, (*above, key)))]


def replaced(message: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(message))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return copy


def test_a_time_that_cannot_be_read_costs_only_the_time() -> None:
    message = json.loads(body("s3_put"))
    for time in ("yesterday", None, 7, "9999-99-99T00:00:00Z"):
        message["Records"][0]["eventTime"] = time
        (ref,) = parse(json.dumps(message))
        assert ref.event_time_ms is None
        assert ref.identity == EXPECTED["s3_put"][0].identity


def test_a_time_without_zone_is_utc() -> None:
    message = json.loads(body("s3_put"))
    message["Records"][0]["eventTime"] = "2024-05-02T08:09:54.623"
    assert parse(json.dumps(message))[0].event_time_ms == PUT_MS


def test_an_event_without_etag_leaves_the_version_open() -> None:
    message = json.loads(body("s3_put"))
    del message["Records"][0]["s3"]["object"]["eTag"]
    assert parse(json.dumps(message))[0].version == ""
