"""The blob-store pattern: a queue announces objects, a reader opens them, a decoder makes rows, each object once."""

from volley_connectors.blob.config import BlobSourceConfig
from volley_connectors.blob.source import BlobSource

__all__ = ["BlobSource", "BlobSourceConfig"]
