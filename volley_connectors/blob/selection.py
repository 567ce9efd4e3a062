"""Which of the announced objects belong to the source."""

from __future__ import annotations

import re

from volley_connectors.blob.config import BlobSourceConfig


class Selection:
    """Judges an object by its path below the source's prefix."""

    def __init__(self, config: BlobSourceConfig, prefix: str) -> None:
        self._prefix = prefix
        self._ignored = re.compile(config.ignored) if config.ignored else None
        self._glob = _compile_glob(config.path_glob) if config.path_glob else None
        self._regex = re.compile(config.regex) if config.regex else None

    def is_ours(self, uri: str) -> bool:
        """Whether it lies in the source's part of the store at all."""
        return uri.startswith(self._prefix)

    def wants(self, uri: str) -> bool:
        # A uri that ends in a slash is no object with rows, but the mark that consoles leave for an empty folder.
        if not self.is_ours(uri) or uri.endswith("/"):
            return False
        path = uri[len(self._prefix) :]
        if self._ignored is not None and any(map(self._ignored.search, path.split("/"))):
            return False
        if self._regex is not None and self._regex.search(path) is None:
            return False
        return self._glob is None or self._glob.fullmatch(path) is not None


def _compile_glob(glob: str) -> re.Pattern[str]:
    """`*` and `?` stay within a folder, `**/` is any number of folders; a glob without `/` is about the file's name."""
    if "/" not in glob:
        glob = f"**/{glob}"
    pattern = ""
    for token in re.findall(r"\*\*/|\*+|\?|\[[^\]]+\]|\{[^}]*\}|.", glob, flags=re.DOTALL):
        if token == "**/":
            pattern += "(?:.*/)?"
        elif token == "**":
            pattern += ".*"
        elif token.startswith("*"):
            pattern += "[^/]*"
        elif token == "?":
            pattern += "[^/]"
        elif len(token) > 1 and token[0] == "[":
            pattern += "[^" + token[2:] if token[1] in "!^" else token
        elif len(token) > 1 and token[0] == "{":
            pattern += "(?:" + "|".join(map(re.escape, token[1:-1].split(","))) + ")"
        else:
            pattern += re.escape(token)
    return re.compile(pattern, flags=re.DOTALL)
