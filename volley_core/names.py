"""Names as people type them: compared without case and punctuation, and guessed at when misspelt.

Imports the standard library alone: listing connectors must not wait for pydantic and pyarrow.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def canonical(name: str) -> str:
    """An option's name without case, underscores and hyphens: Spark lower-cases options, people spell them freely."""
    return name.replace("_", "").replace("-", "").lower()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error about a misspelt name: the nearest known one, else all of them."""
    names = sorted(known)
    by_canonical = {canonical(k): k for k in names}
    near = difflib.get_close_matches(canonical(name), by_canonical, n=1, cutoff=0.6)
    return f"Did you mean {by_canonical[near[0]]!r}?" if near else f"Known: {', '.join(names) or 'none'}."
