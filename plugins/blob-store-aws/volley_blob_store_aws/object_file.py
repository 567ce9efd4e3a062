"""An S3 object as a file: read by ranges, every range of the same version."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import closing
from typing import Any

from volley_blob_store_aws.errors import INVALID_RANGE, code_of, translated
from volley_blob_store_aws.versions import pin, spell

_TRIES = 3


class ObjectFile(io.RawIOBase):
    """Asks for a block at a time and keeps the last one, so that a small object costs one request in all."""

    def __init__(self, client: Callable[[], Any], uri: str, request: dict[str, str], block_bytes: int) -> None:
        super().__init__()
        self._client = client
        self._uri = uri
        self._request = request
        self._block_bytes = block_bytes
        self._block_start = 0
        self._position = 0
        answer, self._block = self._first_block()
        _, _, total = answer.get("ContentRange", "").partition("/")
        self._size = int(total) if total else len(self._block)
        # What follows must be of the version that the first block was of, also where none was asked for.
        self._request = request | pin(spell(answer.get("VersionId"), answer.get("ETag")))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._size - self._position)
        if wanted <= 0:
            return 0
        data = self._at_position(wanted)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        # The inherited one asks for 8 KB at a time.
        return b"".join(iter(lambda: self.read(self._block_bytes) or b"", b""))

    def _at_position(self, wanted: int) -> memoryview:
        """One to `wanted` bytes from here on."""
        offset = self._position - self._block_start
        if 0 <= offset < len(self._block):
            return memoryview(self._block)[offset : offset + wanted]
        if wanted >= self._block_bytes:
            return memoryview(self._range(self._position, wanted))
        self._block = self._range(self._position, min(self._block_bytes, self._size - self._position))
        self._block_start = self._position
        return memoryview(self._block)[:wanted]

    def _first_block(self) -> tuple[dict[str, Any], bytes]:
        from botocore.exceptions import ClientError

        with translated(f"Reading {self._uri}"):
            try:
                return self._download(Range=f"bytes=0-{self._block_bytes - 1}")
            except ClientError as error:
                # S3 refuses every range of an empty object.
                if code_of(error) != INVALID_RANGE:
                    raise
                return self._download()

    def _range(self, start: int, length: int) -> bytes:
        with translated(f"Reading {self._uri}"):
            return self._download(Range=f"bytes={start}-{start + length - 1}")[1]

    def _download(self, **what: str) -> tuple[dict[str, Any], bytes]:
        """boto3 repeats a request until its answer begins; an answer that breaks off is asked for again here."""
        from botocore.exceptions import HTTPClientError, IncompleteReadError

        tries = 0
        while True:
            answer = self._client().get_object(**self._request, **what)
            try:
                with closing(answer["Body"]) as body:
                    return answer, body.read()
            except (HTTPClientError, IncompleteReadError):
                tries += 1
                if tries == _TRIES:
                    raise
