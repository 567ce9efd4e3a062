"""Where a table lies, and its storage: delta-rs' own, so that files and log go through the same credentials."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from volley_connectors.state_errors import shown
from volley_delta.errors import translated

if TYPE_CHECKING:
    from deltalake import DeltaTable


class TableLocation:
    """One table's address. Nothing is held open: each `open` shows the table as it is then."""

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self.uri = absolute(uri)
        self._options = dict(options)

    @property
    def shown(self) -> str:
        """The address as it may be printed."""
        return shown(self.uri)

    @property
    def options(self) -> dict[str, str]:
        return dict(self._options)

    def open(self) -> DeltaTable | None:
        """The table as it is now; None if there is none."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        with translated(f"Reading the log of table {self.shown!r}"):
            try:
                return DeltaTable(self.uri, storage_options=self._options)
            except TableNotFoundError:
                return None

    def files(self) -> Any:
        """The table's storage as a pyarrow file system, with paths relative to the table."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        with translated(f"Writing to {self.shown!r}"):
            if "://" not in self.uri:
                Path(self.uri).mkdir(parents=True, exist_ok=True)
            return PyFileSystem(DeltaStorageHandler(self.uri, self._options))

    def remove(self, paths: Iterable[str]) -> None:
        """Delete files. Of those that are gone, or stay, nobody sees anything: no log names them."""
        files = self.files()
        for path in paths:
            with suppress(OSError):
                files.delete_file(path)


def absolute(uri: str) -> str:
    """One spelling for local paths, also for file:// addresses."""
    if uri.startswith("file:/"):
        uri = unquote(urlsplit(uri).path)
    return uri.rstrip("/") if "://" in uri else os.path.abspath(os.path.expanduser(uri))
