"""A channel: the directory of shared memory through which a handle and connectors in other processes meet.

Spark runs connectors in several processes, so that "memory" has to be files. They live in `$VOLLEY_MEMORY_DIR`, else
in `/dev/shm`, else in the temporary directory, and until `clear()` or a restart of the machine.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

from pydantic import Field

from volley_core.errors import ConfigError

DIRECTORY_VARIABLE = "VOLLEY_MEMORY_DIR"
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

ChannelName = Annotated[str, Field(max_length=100, pattern=_NAME)]
"""A field that names a channel; it becomes the name of a directory."""


class Channel:
    """The directory of one name. Picklable; nothing is made before the first write."""

    def __init__(self, kind: str, name: str) -> None:
        if re.fullmatch(_NAME, name) is None or len(name) > 100:
            raise ConfigError(
                f"{name!r} cannot name a memory channel: use up to 100 letters, digits, '.', '_' and '-', "
                "beginning with a letter or digit."
            )
        self.kind = kind
        self.name = name

    @property
    def path(self) -> Path:
        return _memory_directory() / self.kind / self.name

    def folder(self, name: str) -> Path:
        """A directory inside the channel, made if need be."""
        folder = self.path / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def first_time(self, event: str) -> bool:
        """True for one caller of all processes, once in the channel's life."""
        try:
            os.close(os.open(self.folder("events") / event, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

    def clear(self) -> None:
        """Remove everything. For use between queries, not under a running one."""
        shutil.rmtree(self.path, ignore_errors=True)


class ChannelHandle:
    """One end of a channel, in its user's process. As a context manager it removes the channel at the end."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def clear(self) -> None:
        """Remove everything that the channel holds, and begin anew."""
        self._channel.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()


class FileSequence:
    """Files numbered 0, 1, 2, ... without a gap. Each number is given once, whoever else is writing."""

    def __init__(self, directory: Path, suffix: str) -> None:
        self._directory = directory
        self._suffix = suffix

    def path(self, number: int) -> Path:
        return self._directory / f"{number:012d}{self._suffix}"

    def count(self) -> int:
        """How many there are: all numbers below this exist, complete."""
        try:
            return sum(name.endswith(self._suffix) for name in os.listdir(self._directory))
        except FileNotFoundError:
            return 0

    def claim(self, number: int, finished: Path) -> bool:
        """Give a finished file this number, in one step. False if the number is taken."""
        try:
            os.link(finished, self.path(number))
        except FileExistsError:
            return False
        finished.unlink()
        return True

    def append(self, finished: Path) -> int:
        """Give a finished file the next number."""
        while True:
            number = self.count()
            if self.claim(number, finished):
                return number

    def draft(self) -> Path:
        """A path on the same file system for a file that has no number yet."""
        self._directory.mkdir(parents=True, exist_ok=True)
        return self._directory / f"{uuid.uuid4().hex}.draft"


def _memory_directory() -> Path:
    named = os.environ.get(DIRECTORY_VARIABLE)
    if named:
        return Path(named).expanduser()
    shared = Path("/dev/shm")
    usable = shared.is_dir() and os.access(shared, os.W_OK | os.X_OK)
    owner = os.getuid() if hasattr(os, "getuid") else 0
    directory = (shared if usable else Path(tempfile.gettempdir())) / f"volley-memory-{owner}"
    directory.mkdir(mode=0o700, exist_ok=True)
    # Anybody may create a directory of this name in a shared place, and would then read our rows.
    if hasattr(os, "getuid") and directory.stat().st_uid != owner:
        raise ConfigError(f"{directory} belongs to another user. Set {DIRECTORY_VARIABLE} to a directory of your own.")
    return directory
