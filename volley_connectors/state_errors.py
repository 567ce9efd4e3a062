"""What a state_location's store answers, as our errors: the one place that knows obstore's.

obstore tells most failures apart only in its text, which also quotes whole requests. So the status and the store's own
code are taken from it, and nothing else that could hold a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import BaseError, NotSupportedError, PermissionDeniedError, UnauthenticatedError

from volley_core import ConfigError, TransientError, VolleyError

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]*)</Code>|\"code\": ?\"(\w+)\"")
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_QUERY = re.compile(r"\?\S*")
_PASSWORD = re.compile(r"//[^/@:]*:[^/@]*@")
_METADATA_SERVICE = "169.254.169.254"

_NO_BUCKET = "there is no such bucket or container. Make it, or correct the option 'state_location'."
_DENIED = (
    "access is denied. Allow reading, writing, listing and deleting there, or correct the credentials that the "
    "environment provides."
)
_ELSEWHERE = "the bucket is in another region, or behind another endpoint. Correct AWS_REGION and AWS_ENDPOINT_URL."
_NOT_CONDITIONAL = (
    "this store cannot create a file only if it is absent, without which two queries could not be kept apart. "
    "Give a state_location in a store that can."
)
_NO_CREDENTIALS = "there are no credentials. Set them in the environment, or run where the cloud provides a role."
_LATER = "Trying again later may help."

_BY_CODE = dict.fromkeys(("NoSuchBucket", "ContainerNotFound", "FilesystemNotFound"), _NO_BUCKET) | dict.fromkeys(
    ("PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"),
    _ELSEWHERE,
)
_BY_STATUS = {301: _ELSEWHERE, 307: _ELSEWHERE, 401: _DENIED, 403: _DENIED, 404: _NO_BUCKET, 501: _NOT_CONDITIONAL}


@contextmanager
def translated(doing: str, location: str, *, writes: bool = False) -> Iterator[None]:
    """Raise whatever the store raises inside as our error, except that a file to be read is missing."""
    try:
        yield
    except FileNotFoundError as error:
        # Of a bucket that is missing obstore says the same as of a file.
        if writes or _code(str(error)) in _BY_CODE:
            raise _explain(error, f"{doing} at {shown(location)!r}") from None
        raise
    except (BaseError, OSError) as error:
        # Not as the cause: its text quotes requests, with their signatures.
        raise _explain(error, f"{doing} at {shown(location)!r}") from None


def shown(location: str) -> str:
    """A location as it may be printed: without a password or a token."""
    return _PASSWORD.sub("//", _QUERY.sub("", location)) if "://" in location else location


def _explain(error: Exception, doing: str) -> VolleyError:
    text = str(error).partition("\n\nDebug source")[0]
    found = _STATUS.search(text)
    status = int(found[1]) if found else 0
    answer = " ".join(filter(None, (str(status or ""), _code(text))))
    if _code(text) in _BY_CODE:
        return ConfigError(f"{doing}: {_BY_CODE[_code(text)]} (The store answered {answer}.)")
    if status in _BY_STATUS:
        return ConfigError(f"{doing}: {_BY_STATUS[status]} (The store answered {answer}.)")
    if status in (408, 409, 429) or status >= 500:
        return TransientError(f"{doing}: the store answered {answer}. {_LATER}")
    if status:
        return ConfigError(f"{doing}: the store refuses the request, it answered {answer}. Correct 'state_location'.")
    if _METADATA_SERVICE in text:
        return ConfigError(f"{doing}: {_NO_CREDENTIALS}")
    return _of_this_machine(error, text, doing)


def _of_this_machine(error: Exception, text: str, doing: str) -> VolleyError:
    """What went wrong before a store could answer, or in the file system."""
    if isinstance(error, NotSupportedError | NotImplementedError):
        return ConfigError(f"{doing}: {_NOT_CONDITIONAL}")
    if isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError):
        return ConfigError(f"{doing}: {_DENIED}")
    reason = _QUERY.sub("", text.partition("<")[0]).strip()
    if isinstance(error, OSError) or _OS_ERROR.search(text):
        return ConfigError(f"{doing}: {reason}. Make room or correct its permissions, or the option 'state_location'.")
    return TransientError(f"{doing}: {reason}. {_LATER}")


def _code(text: str) -> str:
    found = _CODE.search(text)
    return (found[1] or found[2]) if found else ""
