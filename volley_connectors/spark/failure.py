"""Finds Volley's own error inside the long text that Spark makes of it.

Spark carries an error out of a Python process as text: traceback, Java stack and all. Imports no Spark.
"""

from __future__ import annotations

import re

from volley_core import errors
from volley_core.errors import VolleyError

# The message ends where the traceback's next paragraph, Java's stack or Spark's own remark begins.
_OURS = re.compile(
    r"volley_core\.errors\.(\w+): (.*?)"
    r"(?=\n\s*\n|\n\s+at |\n\w[\w.]*(?:Error|Exception)\b|\s*SQLSTATE: |\n\s*Driver stacktrace|\n=== |\Z)",
    re.DOTALL,
)
_PYTHON = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception|Exit|Interrupt)): (.+)$", re.MULTILINE)


def volley_error(text: str) -> VolleyError:
    """The error that a Volley connector raised, of its own class; else the shortest true account of Spark's."""
    # The last one: a traceback prints the causes before the error that was raised in the end.
    for name, message in reversed(_OURS.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, VolleyError):
            return kind(message.strip())
    python = _PYTHON.findall(text.partition("Traceback (most recent call last)")[2])
    if python:
        return VolleyError(f"{python[-1][0]}: {python[-1][1].strip()}")
    return VolleyError(_first_paragraph(text))


def _first_paragraph(text: str) -> str:
    paragraph = re.split(r"\n\s*\n|\n\s+at |\nJVM stacktrace|\n=== ", text.strip(), maxsplit=1)[0]
    return paragraph.strip()
