"""What every connector owes the host before it does anything: a name, a config, and to be picklable."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from pydantic import SecretBytes, SecretStr

from volley_core.config import ConnectorConfig


def assert_stable_id(make: Callable[[], Any]) -> None:
    first, second = make(), make()
    assert isinstance(first.connector_id, str), "connector_id is text"
    assert first.connector_id.strip(), "connector_id is not empty"
    assert first.connector_id == first.connector_id == second.connector_id, "connector_id is the same in every run"


def assert_id_without_secrets(make: Callable[[], Any]) -> None:
    connector = make()
    for secret in _secrets(config_of(connector)):
        assert secret not in connector.connector_id, "connector_id goes into logs and must not hold a secret"
        assert secret not in repr(connector), "repr goes into logs and must not hold a secret"


def assert_config_class(make: Callable[[], Any], kind: type[ConnectorConfig]) -> None:
    cls = type(make())
    assert issubclass(cls.Config, kind), f"{cls.__name__}.Config must be a {kind.__name__}"
    for name, field in cls.Config.model_fields.items():
        assert field.description, f"option {name!r} of {cls.Config.__name__} has no description"
    assert cls(config_of(make())) is not None, "a connector is made as Class(config)"


def assert_picklable(make: Callable[[], Any]) -> Any:
    """Pickle a fresh connector and its config; gives the copy."""
    connector = make()
    config = config_of(connector)
    assert pickle.loads(pickle.dumps(config)) == config, "a config equals its pickled copy"
    copy = pickle.loads(pickle.dumps(connector))
    assert config_of(copy) == config, "a pickled connector keeps its config"
    return copy


def config_of(connector: Any) -> ConnectorConfig:
    """The config that the connector's constructor kept."""
    held = [value for value in vars(connector).values() if isinstance(value, ConnectorConfig)]
    assert held, f"{type(connector).__name__} does not keep its config; a constructor holds the config"
    return held[0]


def _secrets(value: Any) -> list[str]:
    if isinstance(value, SecretStr | SecretBytes):
        text = value.get_secret_value()
        shown = text.decode(errors="replace") if isinstance(text, bytes) else text
        return [shown] if shown else []
    if isinstance(value, ConnectorConfig):
        return [secret for name in type(value).model_fields for secret in _secrets(getattr(value, name))]
    if isinstance(value, dict):
        return [secret for item in value.values() for secret in _secrets(item)]
    if isinstance(value, list | tuple | set | frozenset):
        return [secret for item in value for secret in _secrets(item)]
    return []
