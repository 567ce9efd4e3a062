"""What delta-rs raises, as our errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from volley_core import ConfigError, TransientError, VolleyError

_COLOUR = re.compile(r"\x1b\[[0-9;]*m|\u21b3")
_BACKTRACE = re.compile(r"\n\s*0: <unknown>.*", re.DOTALL)
_QUERY = re.compile(r"\?\S*")
_DENIED = re.compile(r"\b40[13]\b|AccessDenied|Forbidden|PermissionDenied|Permission denied|InvalidAccessKeyId")
_MISSING = re.compile(r"NoSuchBucket|ContainerNotFound|FilesystemNotFound")
_LENGTH = 400


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise what delta-rs raises inside as our error."""
    from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError

    try:
        yield
    # Not as the cause: the whole text quotes requests.
    except DeltaProtocolError as error:
        raise ConfigError(f"{doing}: this version of delta-rs cannot write the table ({said(error)}).") from None
    except CommitFailedError as error:
        raise TransientError(f"{doing}: others are writing ({said(error)}). Trying again later may help.") from None
    except DeltaError as error:
        raise ConfigError(
            f"{doing}: delta-rs refuses ({said(error)}). Correct the sink's options or the table."
        ) from None
    except OSError as error:
        raise _of_the_store(error, doing) from None


def said(error: Exception) -> str:
    """What an error says, in one line that may be shown."""
    text = _QUERY.sub("", _COLOUR.sub("", _BACKTRACE.sub("", str(error))))
    return " ".join(text.split())[:_LENGTH].removesuffix(".")


def _of_the_store(error: OSError, doing: str) -> VolleyError:
    if _MISSING.search(str(error)):
        return ConfigError(f"{doing}: there is no such bucket or container. Make it, or correct 'table_uri'.")
    if isinstance(error, PermissionError) or _DENIED.search(str(error)):
        return ConfigError(
            f"{doing}: access is denied ({said(error)}). Allow reading, writing, listing and deleting there, or "
            "correct 'storage_options', 'storage_secrets' or the credentials that the environment provides."
        )
    return TransientError(f"{doing}: the store could not do it ({said(error)}). Trying again later may help.")
