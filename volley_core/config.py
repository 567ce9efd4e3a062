"""The base of every connector's config: one frozen pydantic model per connector, and every way to fill it.

The model is the single source for Python keywords, `with_...()` methods, Spark options, YAML keys, JSON Schema,
command-line help and generated docs.
"""

from __future__ import annotations

import difflib
import json
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, Self, get_args, get_origin

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from volley_core.errors import ConfigError
from volley_core.schema import ArrowSchema, format_schema
from volley_core.units import ByteSize


def canonical(name: str) -> str:
    """An option's name without case, underscores and hyphens: Spark lower-cases options, people spell them freely."""
    return name.replace("_", "").replace("-", "").lower()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error about a misspelt name: the nearest known one, else all of them."""
    names = sorted(known)
    by_canonical = {canonical(k): k for k in names}
    near = difflib.get_close_matches(canonical(name), by_canonical, n=1, cutoff=0.6)
    return f"Did you mean {by_canonical[near[0]]!r}?" if near else f"Known: {', '.join(names) or 'none'}."


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
        values = dict(zip(required, args, strict=False)) | kwargs
        _refuse_unknown(cls, values)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(_explain(cls, error)) from None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Build from Spark options or a YAML mapping: names in any case and spelling, values as text or as they are.

        A mapping is given whole, as JSON, or key by key as `name.key`; a list as JSON or separated by commas.
        """
        fields = {canonical(name): name for name in cls.model_fields}
        values: dict[str, Any] = {}
        spelled: dict[str, str] = {}
        for key, value in options.items():
            head, dot, rest = key.partition(".")
            name = fields.get(canonical(head))
            if name is None or (dot and not _accepts(cls.model_fields[name], dict)):
                raise ConfigError(f"Unknown option {key!r}. {did_you_mean(key, cls.model_fields)}")
            if dot:
                values.setdefault(name, {})[rest] = value
            elif spelled.get(name, key) != key:
                raise ConfigError(f"Options {spelled[name]!r} and {key!r} are the same; give one.")
            else:
                spelled[name] = key
                values[name] = _from_text(value, cls.model_fields[name]) if isinstance(value, str) else value
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
            description="Where the source keeps what it must remember, alone: a path or s3://, az://, gs:// address.",
        )
        delivery: Literal["exactly-once", "at-least-once"] = Field(
            "exactly-once",
            description="at-least-once permits a source that must remember to run without a state_location.",
        )


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


def is_secret(field: FieldInfo) -> bool:
    """Whether a field's value, or a value inside it, must never be shown."""
    return _holds_secret(field.annotation)


def _holds_secret(annotation: Any) -> bool:
    return annotation in (SecretStr, SecretBytes) or any(_holds_secret(part) for part in get_args(annotation))


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
        problems.append(f"Option {path!r}{shown}: {reason}." if path else f"{reason}.")
    return " ".join(problems)


def _accepts(field: FieldInfo, wanted: type) -> bool:
    return wanted in _plain_types(field.annotation)


def _plain_types(annotation: Any) -> set[Any]:
    """The classes that an annotation is made of: `dict[str, str] | None` gives dict and NoneType."""
    origin = get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return set().union(*(_plain_types(part) for part in get_args(annotation)))
    if origin is typing.Annotated:
        return _plain_types(get_args(annotation)[0])
    return {origin or annotation}


def _from_text(text: str, field: FieldInfo) -> Any:
    kinds = _plain_types(field.annotation)
    if str in kinds or not kinds & {dict, list, tuple, set, frozenset}:
        return text
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text if dict in kinds else [part.strip() for part in text.split(",") if part.strip()]


def _to_text(value: Any) -> str:
    if isinstance(value, SecretStr | SecretBytes):
        value = value.get_secret_value()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    if isinstance(value, pa.Schema):
        return format_schema(value)
    if isinstance(value, Mapping):
        return json.dumps({key: _to_text(item) for key, item in value.items()})
    if isinstance(value, list | tuple | set | frozenset):
        return json.dumps([_to_text(item) for item in value])
    return str(value)
