"""The base of every connector's config: one frozen pydantic model per connector, and every way to fill it.

The model is the single source for Python keywords, `with_...()` methods, Spark options, YAML keys, JSON Schema,
command-line help and generated docs.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from volley_core.annotations import accepts, is_model, is_secret, plain_types
from volley_core.errors import ConfigError
from volley_core.names import canonical as canonical
from volley_core.names import did_you_mean as did_you_mean
from volley_core.schema import ArrowSchema, format_schema
from volley_core.units import ByteSize

_REDACTED_BY_SPARK = re.compile("secret|password|token", re.IGNORECASE)
"""Options whose names Spark hides in plans and logs by itself, whatever its settings."""


class ConnectorConfig(BaseModel):
    """Frozen, strict about names, silent about secrets. Wrong values raise ConfigError, never pydantic's own error."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True)

    EXAMPLE: ClassVar[Mapping[str, Any]] = {}
    """Options of one working use, shown by `volley show` and in the docs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        required = [name for name, field in cls.model_fields.items() if field.is_required()]
        if len(args) > len(required):
            raise ConfigError(f"{cls.__name__} takes {len(required)} values by position, got {len(args)}.")
        values = dict(zip(required, args, strict=False))
        for name in values.keys() & kwargs.keys():
            raise ConfigError(f"Option {name!r} of {cls.__name__} is given twice: by position and by name.")
        values |= kwargs
        _refuse_unknown(cls, values)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(_explain(cls, error)) from None

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if plain_types(field.annotation) & {SecretStr, SecretBytes} and not _REDACTED_BY_SPARK.search(name):
                raise TypeError(
                    f"{cls.__name__}.{name} is a secret, but Spark would print it in query plans: it hides an option "
                    "only if its name holds 'secret', 'password' or 'token'. Rename it."
                )

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Build from Spark options or a YAML mapping: names in any case and spelling, values as text or as they are.

        A mapping is given whole, as JSON, or key by key as `name.key`; a list as JSON or separated by commas.
        """
        fields = {canonical(name): name for name in cls.model_fields}
        values: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {}
        spelled: dict[str, str] = {}
        for key, value in options.items():
            head, dot, rest = key.partition(".")
            name = fields.get(canonical(head))
            if name is None or (dot and not accepts(cls.model_fields[name], dict)):
                raise ConfigError(f"Unknown option {key!r}. {did_you_mean(key, cls.model_fields)}")
            if dot:
                parts.setdefault(name, {})[rest] = value
            elif spelled.get(name, key) != key:
                raise ConfigError(f"Options {spelled[name]!r} and {key!r} are the same; give one.")
            else:
                spelled[name] = key
                values[name] = _from_text(value, cls.model_fields[name]) if isinstance(value, str) else value
        for name, part in parts.items():
            whole = values.get(name, {})
            if not isinstance(whole, Mapping):
                raise ConfigError(
                    f"Option {name!r} is given by key ({name}.{next(iter(part))}) and as a text; give one."
                )
            values[name] = {**whole, **part}
        return cls(**values)

    def to_options(self) -> dict[str, str]:
        """The same config as Spark options, secrets included: for handing to Spark, not for printing."""
        options = {}
        for name in sorted(self.model_fields_set):
            value = getattr(self, name)
            if value is not None:
                options[name] = _to_text(value)
        return options

    def __getattr__(self, name: str) -> Callable[..., Self]:
        if not name.startswith("with_"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        field = name.removeprefix("with_")
        if field not in type(self).model_fields:
            hint = did_you_mean(name, self._builders())
            raise AttributeError(f"{type(self).__name__!r} has no method {name!r}. {hint}")

        def with_value(value: Any) -> Any:
            kept = {key: getattr(self, key) for key in self.model_fields_set}
            return type(self)(**(kept | {field: value}))

        with_value.__name__ = name
        with_value.__doc__ = type(self).model_fields[field].description
        return with_value

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self._builders()]

    @classmethod
    def _builders(cls) -> list[str]:
        return [f"with_{name}" for name in cls.model_fields]


with warnings.catch_warnings():
    # pydantic's own `schema` is deprecated; ours is the word that users know.
    warnings.filterwarnings("ignore", message='Field name "schema"')

    class SourceConfig(ConnectorConfig):
        """Options that every source takes."""

        schema: ArrowSchema | None = Field(  # type: ignore[assignment]
            None,
            description="The rows' schema in Spark's DDL, where the source cannot tell it: 'id bigint, name string'.",
        )
        max_files_per_trigger: int | None = Field(None, gt=0, description="Most objects that one epoch takes in.")
        max_bytes_per_trigger: ByteSize | None = Field(None, gt=0, description="Most bytes that one epoch takes in.")
        max_rows_per_trigger: int | None = Field(
            None, gt=0, description="Most rows that one epoch takes in, where the source can know."
        )
        state_location: str | None = Field(
            None,
            description="A place of its own for what the source must remember: a path or s3://, az://, gs:// address.",
        )
        delivery: Literal["exactly-once", "at-least-once"] = Field(
            "exactly-once",
            description="at-least-once permits a source that must remember to run without a state_location.",
        )

        def detached(self) -> Self:
            """These options for one reading that neither follows nor disturbs what a query remembers."""
            return self.with_state_location(None).with_delivery("at-least-once")


class SinkConfig(ConnectorConfig):
    """Options that every sink takes."""

    pipeline_id: str = Field(
        "volley-default",
        min_length=1,
        max_length=200,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Names this pipeline in the sink: its commits are recognised by it after a restart.",
    )
    adopt_pipeline: bool = Field(
        False,
        description="Take over a pipeline_id of an earlier query. Set it once, after deleting a checkpoint on purpose.",
    )


def _refuse_unknown(cls: type[ConnectorConfig], values: Mapping[str, Any]) -> None:
    for name in values:
        if name not in cls.model_fields:
            raise ConfigError(f"Unknown option {name!r} of {cls.__name__}. {did_you_mean(name, cls.model_fields)}")


def _explain(cls: type[ConnectorConfig], error: ValidationError) -> str:
    problems = []
    for detail in error.errors(include_url=False, include_context=False):
        name = str(detail["loc"][0]) if detail["loc"] else ""
        field = cls.model_fields.get(name)
        path = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "missing" and field is not None:
            problems.append(f"Option {path!r} is required: {field.description or 'no description'}")
            continue
        # A value that may be a secret is never repeated, also not inside pydantic's own sentence.
        shown = "" if field is None or is_secret(field) else f" = {detail['input']!r}"
        reason = detail["msg"].removeprefix("Value error, ")
        reason += "" if reason.endswith((".", "?")) else "."
        problems.append(f"Option {path!r}{shown}: {reason}" if path else reason)
    return " ".join(problems)


def _from_text(text: str, field: FieldInfo) -> Any:
    kinds = plain_types(field.annotation)
    model = any(is_model(kind) for kind in kinds)
    if str in kinds or not (model or kinds & {dict, list, tuple, set, frozenset}):
        return text
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text if model or dict in kinds else [part.strip() for part in text.split(",") if part.strip()]


def _to_text(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, str):
        return plain
    return json.dumps(plain) if isinstance(plain, bool | dict | list) else str(plain)


def _plain(value: Any) -> Any:
    """A value as JSON has it, secrets opened also where they are nested: pydantic's own dump would mask them."""
    if isinstance(value, SecretStr | SecretBytes):
        value = value.get_secret_value()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, pa.Schema):
        return format_schema(value)
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in sorted(value.model_fields_set)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
