"""The base of every connector's config."""

from __future__ import annotations

import json
import pickle
import traceback
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pytest
from pydantic import BaseModel, Field, SecretBytes, SecretStr, model_validator

from volley_core import ByteSize, ConfigError, ConnectorConfig, Seconds, SinkConfig, SourceConfig
from volley_core.annotations import is_secret
from volley_core.config import canonical, did_you_mean

SECRET = "hunter2-s3cr3t"


class Login(BaseModel):
    user: str
    password: SecretStr


class ExampleConfig(SourceConfig):
    """A config with one field of every kind."""

    EXAMPLE: ClassVar[dict[str, Any]] = {"bucket_name": "events"}

    bucket_name: str = Field(description="The bucket.")
    region: str = Field(description="The region.")
    port: int = Field(9000, gt=0, description="The port.")
    strict: bool = Field(False, description="Whether to be strict.")
    mode: Literal["fast", "safe"] = Field("fast", description="The mode.")
    chunk_size: ByteSize = Field(1024, description="Bytes per request.")
    wait_seconds: Seconds = Field(1.0, description="How long to wait.")
    password: SecretStr | None = Field(None, description="The password.")
    token: SecretBytes | None = Field(None, description="The token.")
    headers: dict[str, SecretStr] = Field({}, description="Secret headers.")
    settings: dict[str, str] = Field({}, description="Settings of the client.")
    topics: list[str] = Field([], description="Topics.")
    sizes: tuple[int, ...] = Field((), description="Sizes.")
    start_at: str | dict[str, int] = Field("earliest", description="Where to begin.")


def make(**values: Any) -> ExampleConfig:
    return ExampleConfig(**({"bucket_name": "events", "region": "eu"} | values))


def test_required_values_may_be_given_by_position() -> None:
    assert ExampleConfig("events", "eu", port=1) == make(port=1)


def test_too_many_values_by_position_are_refused() -> None:
    with pytest.raises(ConfigError, match="takes 2 values by position, got 3"):
        ExampleConfig("events", "eu", 9000)


def test_a_value_given_by_position_and_by_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="'bucket_name'.*twice"):
        ExampleConfig("events", "eu", bucket_name="other")


def test_a_missing_value_is_named_with_its_description() -> None:
    with pytest.raises(ConfigError, match="Option 'region' is required: The region"):
        ExampleConfig("events")


def test_a_config_is_frozen() -> None:
    config = make()
    with pytest.raises(Exception, match="frozen"):
        config.port = 1  # type: ignore[misc]
    assert config.port == 9000


def test_a_wrong_value_is_shown_with_the_option_and_the_reason() -> None:
    with pytest.raises(ConfigError, match=r"Option 'port' = -1: .*greater than 0"):
        make(port=-1)
    with pytest.raises(ConfigError, match=r"Option 'mode' = 'slow': .*'fast' or 'safe'"):
        make(mode="slow")


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        make(port="many", mode="slow")
    assert "'port'" in str(caught.value)
    assert "'mode'" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("prot", "Did you mean 'port'?"), ("bucketName", "Did you mean 'bucket_name'?"), ("zzz", "Known: ")],
)
def test_an_unknown_name_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match="Unknown option") as caught:
        make(**{name: 1})
    assert hint in str(caught.value)
    with pytest.raises(ConfigError, match="Unknown option") as caught:
        ExampleConfig.from_options({"bucket_name": "a", "region": "b", f"{name}x": "1"})
    assert "Did you mean" in str(caught.value) or "Known: " in str(caught.value)


def test_did_you_mean_of_nothing_known() -> None:
    assert did_you_mean("x", []) == "Known: none."


@pytest.mark.parametrize(
    "spelling", ["bucket_name", "bucketname", "bucketName", "BUCKET_NAME", "bucket-name", "Bucket_name"]
)
def test_options_may_be_spelt_in_any_case_with_or_without_underscores(spelling: str) -> None:
    assert ExampleConfig.from_options({spelling: "events", "REGION": "eu"}) == make()
    assert canonical(spelling) == "bucketname"


def test_one_option_in_two_spellings_is_refused() -> None:
    with pytest.raises(ConfigError, match="'bucketName' and 'bucket_name' are the same"):
        ExampleConfig.from_options({"bucketName": "a", "bucket_name": "b", "region": "eu"})


def test_options_as_text_are_parsed() -> None:
    config = ExampleConfig.from_options(
        {
            "bucketname": "events",
            "region": "eu",
            "port": "80",
            "strict": "TRUE",
            "chunksize": "128 MB",
            "waitseconds": "10 minutes",
            "topics": "a, b,,c ",
            "sizes": "[1, 2]",
            "settings.fetch.min.bytes": "1",
            "settings.acks": "all",
            "startat": '{"topic": 5}',
            "schema": "id bigint",
            "maxBytesPerTrigger": "1g",
        }
    )
    assert (config.port, config.strict, config.chunk_size, config.wait_seconds) == (80, True, 128_000_000, 600.0)
    assert (config.topics, config.sizes) == (["a", "b", "c"], (1, 2))
    assert config.settings == {"fetch.min.bytes": "1", "acks": "all"}
    assert config.schema.equals(pa.schema([("id", pa.int64())]))
    assert config.max_bytes_per_trigger == 1024**3


def test_a_mapping_may_be_given_as_json() -> None:
    config = ExampleConfig.from_options({"bucket_name": "a", "region": "b", "settings": '{"x.y": "1"}'})
    assert config.settings == {"x.y": "1"}


def test_a_mapping_given_whole_and_by_key_is_merged() -> None:
    base = {"bucket_name": "a", "region": "b"}
    both = {"settings": '{"x": "1"}', "settings.y": "2"}
    for options in (both, dict(reversed(both.items()))):
        assert ExampleConfig.from_options(base | options).settings == {"x": "1", "y": "2"}


def test_broken_json_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="'settings'"):
        ExampleConfig.from_options({"bucket_name": "a", "region": "b", "settings": '{"x": '})


def test_a_dotted_option_needs_a_mapping() -> None:
    with pytest.raises(ConfigError, match=r"Unknown option 'port\.x'"):
        ExampleConfig.from_options({"bucket_name": "a", "region": "b", "port.x": "1"})


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"port": 80, "strict": True, "mode": "safe"},
        {"chunk_size": "64 MiB", "wait_seconds": "1500 ms"},
        {"password": SECRET, "token": b"bytes", "headers": {"Authorization": SECRET}},
        {"settings": {"a.b": "1", "c": "with, comma"}, "topics": ["a", "b, c", ""], "sizes": (1, 2)},
        {"schema": "id bigint not null, tags array<struct<k: string, v: decimal(38, 18)>>"},
        {"topics": ['["looks like json"]', "{x"], "settings": {"k": '{"j": 1}'}},
        {"strict": False, "port": 9000},
    ],
)
def test_options_round_trip(values: dict[str, Any]) -> None:
    config = make(**values)
    options = config.to_options()
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in options.items())
    assert ExampleConfig.from_options(options) == config
    lowered = {key.lower().replace("_", ""): value for key, value in options.items()}
    assert ExampleConfig.from_options(lowered) == config


def test_to_options_leaves_out_what_was_not_set() -> None:
    assert make().to_options() == {"bucket_name": "events", "region": "eu"}


def test_builder_methods_make_changed_copies() -> None:
    config = make()
    changed = config.with_port(80).with_topics(["a"]).with_password(SECRET)
    assert (changed.port, changed.topics, config.port) == (80, ["a"], 9000)
    assert changed.to_options().keys() == {"bucket_name", "region", "port", "topics", "password"}
    assert config.with_port.__doc__ == "The port."


def test_builder_methods_validate() -> None:
    with pytest.raises(ConfigError, match="'port'"):
        make().with_port(0)


def test_an_unknown_builder_method_is_an_attribute_error_with_a_hint() -> None:
    with pytest.raises(AttributeError, match="Did you mean 'with_port'"):
        make().with_prot(1)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = make().colour
    assert not hasattr(make(), "colour")


def test_builder_methods_are_listed() -> None:
    assert {"with_port", "with_bucket_name", "with_schema"} <= set(dir(make()))


@pytest.mark.parametrize(
    "values", [{"password": SECRET}, {"token": SECRET.encode()}, {"headers": {"Authorization": SECRET}}]
)
def test_a_secret_is_never_shown(values: dict[str, Any]) -> None:
    config = make(**values)
    shown = [repr(config), str(config), f"{config}", config.model_dump_json(), repr(config.model_dump())]
    assert all(SECRET not in text for text in shown)
    assert SECRET in json.dumps(config.to_options())


@pytest.mark.parametrize(
    "values",
    [
        {"password": [SECRET]},
        {"token": {"x": SECRET}},
        {"headers": {"Authorization": [SECRET]}},
        {"headers": SECRET},
        {"passwrd": SECRET},
        {"password": SECRET, "port": -1},
    ],
)
def test_a_secret_is_never_in_an_error_or_its_traceback(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        make(**values)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(ConfigError) as caught:
        ExampleConfig.from_options({"bucket_name": "a", "region": "b"} | values)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


class LoginConfig(ConnectorConfig):
    login: Login | None = Field(None, description="Who.")

    @model_validator(mode="after")
    def _refuse_root(self) -> LoginConfig:
        if self.login is not None and self.login.user == "root":
            raise ValueError("root may not log in")
        return self


def test_a_secret_inside_a_nested_model_is_a_secret() -> None:
    assert is_secret(LoginConfig.model_fields["login"])
    assert SECRET not in repr(LoginConfig(login={"user": "me", "password": SECRET}))
    for login in ({"user": ["x"], "password": SECRET}, {"user": "root", "password": SECRET}, {"password": SECRET}):
        with pytest.raises(ConfigError) as caught:
            LoginConfig(login=login)
        assert SECRET not in str(caught.value)


def test_a_nested_model_keeps_its_secret_on_the_way_through_options() -> None:
    config = LoginConfig(login={"user": "me", "password": SECRET})
    again = LoginConfig.from_options(config.to_options())
    assert again.login is not None
    assert again.login.password.get_secret_value() == SECRET


def test_which_fields_are_secret() -> None:
    secret = {name for name, field in ExampleConfig.model_fields.items() if is_secret(field)}
    assert secret == {"password", "token", "headers"}


def test_configs_are_equal_hash_by_value_where_they_can_and_pickle() -> None:
    config = make(password=SECRET, schema="id bigint")
    assert pickle.loads(pickle.dumps(config)) == config
    assert make(port=1) != make(port=2)


def test_json_schema_describes_every_option() -> None:
    schema = ExampleConfig.model_json_schema()
    assert set(schema["properties"]) == set(ExampleConfig.model_fields)
    assert schema["required"] == ["bucket_name", "region"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["chunk_size"]["unit"] == "bytes"
    assert schema["properties"]["port"]["description"] == "The port."
    assert json.dumps(schema)


@pytest.mark.parametrize("base", [SourceConfig, SinkConfig])
def test_every_shared_option_has_a_description(base: type[ConnectorConfig]) -> None:
    assert all(field.description for field in base.model_fields.values())


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("1_000", 1000),
        ("1,000 bytes", 1000),
        ("128m", 128 * 1024**2),
        ("128 MB", 128_000_000),
        ("128 MiB", 128 * 1024**2),
        ("1.5kb", 1500),
        ("2 G", 2 * 1024**3),
        (" 7 b ", 7),
    ],
)
def test_sizes_are_read_with_their_unit(text: str, size: int) -> None:
    assert make(chunk_size=text).chunk_size == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("250 ms", 0.25), ("10 minutes", 600), ("1.5h", 5400), ("2 days", 172800), ("1 week", 604800)],
)
def test_durations_are_read_with_their_unit(text: str, seconds: float) -> None:
    assert make(wait_seconds=text).wait_seconds == seconds


@pytest.mark.parametrize("text", ["", "fast", "10 parsecs", "-5 MB", "MB", "1.2.3", "5 minutes"])
def test_a_wrong_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="'128 MB'"):
        make(chunk_size=text)


@pytest.mark.parametrize("text", ["", "soon", "10 MB", "-1 s"])
def test_a_wrong_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="'10 minutes'"):
        make(wait_seconds=text)


def test_negative_numbers_are_no_sizes_or_durations() -> None:
    with pytest.raises(ConfigError, match="'chunk_size'"):
        make(chunk_size=-1)
    with pytest.raises(ConfigError, match="'wait_seconds'"):
        make(wait_seconds=-0.5)


def test_a_wrong_schema_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"Option 'schema' = 'id bigin': unknown type 'bigin'"):
        make(schema="id bigin")
    with pytest.raises(ConfigError, match="'schema'"):
        make(schema=5)


@pytest.mark.parametrize("pipeline_id", ["", "with space", "a/b", "x" * 201])
def test_a_pipeline_id_is_a_plain_word(pipeline_id: str) -> None:
    with pytest.raises(ConfigError, match="'pipeline_id'"):
        SinkConfig(pipeline_id=pipeline_id)


def test_a_secret_that_spark_would_print_in_a_plan_cannot_be_defined():
    with pytest.raises(TypeError, match=r"Leaky\.api_key is a secret, but Spark would print it .* Rename it"):

        class Leaky(ConnectorConfig):
            api_key: SecretStr | None = None
