"""How a cloud's objects are fetched: by obstore, or by the cloud's own SDK. The rest is the same for every cloud."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Literal, TypeAlias

from pydantic import Field

from volley_connectors.blob.obstore_transfer import ObstoreTransfer, UnsuitedError
from volley_connectors.blob.ranged_file import Part, open_ranged
from volley_core import BlobRef, ByteSize, ConfigError, ConnectorConfig

FetchByName: TypeAlias = Callable[[str, str, str, int, int, str], Part]
"""Uri, bucket, key, then what `ranged_file.Fetch` is told."""


class TransferConfig(ConnectorConfig):
    """Options of whatever reads objects of a cloud."""

    transfer: Literal["obstore", "sdk"] = Field(
        default="obstore",
        description="Which library fetches the objects' bytes: obstore takes less CPU time, sdk is the cloud's own. "
        "What obstore cannot do, such as a name with an empty, '.' or '..' part, the SDK does in any case.",
    )
    block_bytes: ByteSize = Field(
        default=8 * 1024 * 1024,
        gt=0,
        description="How much of an object one request asks for. An object that is read from front to back takes up "
        "to four times as much memory.",
    )


class Transfer:
    """Opens objects as the config says."""

    def __init__(self, config: TransferConfig, by_obstore: ObstoreTransfer, by_sdk: FetchByName) -> None:
        self._config = config
        self._by_obstore = by_obstore
        self._by_sdk = by_sdk

    def open(self, ref: BlobRef, bucket: str, key: str) -> BinaryIO:
        return open_ranged(partial(self._fetch, ref.uri, bucket, key), ref, self._config.block_bytes)

    def close(self) -> None:
        self._by_obstore.close()

    def _fetch(self, uri: str, bucket: str, key: str, start: int, length: int, version: str) -> Part:
        if self._config.transfer == "obstore":
            try:
                return self._by_obstore.fetch(uri, bucket, key, start, length, version)
            except UnsuitedError:
                pass
        return self._by_sdk(uri, bucket, key, start, length, version)


def split_address(uri: str, scheme: str) -> tuple[str, str]:
    """Bucket and key, which may be empty. By hand: a key may hold whatever URL parsers give a meaning to."""
    bucket, _, key = uri.removeprefix(scheme).partition("/")
    if not uri.startswith(scheme) or not bucket:
        raise ConfigError(f"{uri!r} is no address of an object here: it must begin with {scheme}bucket/.")
    return bucket, key


def object_address(uri: str, scheme: str) -> tuple[str, str]:
    """Bucket and key of an object."""
    bucket, key = split_address(uri, scheme)
    if not key:
        raise ConfigError(f"{uri!r} names no object: an object is {scheme}bucket/key.")
    return bucket, key
