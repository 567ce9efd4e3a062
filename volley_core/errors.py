"""Every error that Volley raises on purpose, named for what the caller should do.

VolleyError
├── ConfigError              change an option; never retried
│   ├── UnknownConnectorError    no such name: correct it
│   ├── MissingConnectorError    known, but not installed: run the `pip install` line
│   ├── BrokenConnectorError     installed, but does not import: mend or remove the package
│   └── AmbiguousConnectorError  two packages claim the name: uninstall one
├── TransientError           try the same call again later; the host does
├── PipelineConflictError    another query owns this pipeline id or state location: decide which goes on
├── SchemaChangedError       the input has new columns, which are remembered now: restart the query
├── SinkError                the sink refused rows or a commit for a reason that a retry will not cure
└── DataError                these bytes will never be readable; the host follows `on_bad_record`, `on_corrupt_file`
    ├── BlobNotFoundError        deleted before it was read
    ├── BlobChangedError         overwritten between its notification and its reading
    └── DecodeError              not in the format or schema that was asked for

A message says what was being done, to what, what happened, and what to do next. None holds a secret.
"""

from __future__ import annotations


class VolleyError(Exception):
    """Base of all the errors below."""


class ConfigError(VolleyError):
    """The user must change an option."""


class UnknownConnectorError(ConfigError):
    """No package, installed or known, provides the connector that was named."""


class MissingConnectorError(ConfigError):
    """The connector is known, but the package that brings it is not installed."""


class BrokenConnectorError(ConfigError):
    """The connector's package is installed, but importing it failed; the cause is kept as `__cause__`."""


class AmbiguousConnectorError(ConfigError):
    """Two installed packages claim one connector name."""


class TransientError(VolleyError):
    """The same call may succeed later."""


class PipelineConflictError(VolleyError):
    """Another query owns what this one wants to write."""


class SchemaChangedError(VolleyError):
    """The input has columns that the query's schema lacks; a restarted query will have them."""


class SinkError(VolleyError):
    """The sink cannot take these rows or this commit, now or later."""


class DataError(VolleyError):
    """These bytes will never be readable."""


class BlobNotFoundError(DataError):
    """The object was deleted before it could be read."""


class BlobChangedError(DataError):
    """The object was overwritten between its notification and its reading."""


class DecodeError(DataError):
    """The bytes are not in the format, or not in the schema, that was asked for."""
