"""What a config field's type annotation says about the values that it takes."""

from __future__ import annotations

import types
import typing
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic.fields import FieldInfo


def is_secret(field: FieldInfo) -> bool:
    """Whether a field's value, or a value inside it, must never be shown."""
    return _holds_secret(field.annotation)


def _holds_secret(annotation: Any) -> bool:
    if is_model(annotation):
        return any(is_secret(field) for field in annotation.model_fields.values())
    return annotation in (SecretStr, SecretBytes) or any(_holds_secret(part) for part in get_args(annotation))


def is_model(annotation: Any) -> bool:
    """Whether an annotation is a config of its own."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def accepts(field: FieldInfo, wanted: type) -> bool:
    """Whether values of this class, as such and not inside another, fit the field."""
    return wanted in plain_types(field.annotation)


def plain_types(annotation: Any) -> set[Any]:
    """The classes that an annotation is made of: `dict[str, str] | None` gives dict and NoneType."""
    origin = get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return set().union(*(plain_types(part) for part in get_args(annotation)))
    if origin is typing.Annotated:
        return plain_types(get_args(annotation)[0])
    return {origin or annotation}
