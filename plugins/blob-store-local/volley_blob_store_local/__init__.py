"""The blob-store pattern on local directories: files as objects, a directory or an SQLite file as queue."""

from volley_blob_store_local.directory_queue import DirectoryQueue, DirectoryQueueConfig
from volley_blob_store_local.reader import FileBlobReader, FileBlobReaderConfig
from volley_blob_store_local.sink import FilesSink, FilesSinkConfig
from volley_blob_store_local.source import FilesSource, FilesSourceConfig
from volley_blob_store_local.sqlite_queue import SqliteQueue, SqliteQueueConfig
from volley_blob_store_local.watcher import Watcher

__all__ = [
    "DirectoryQueue",
    "DirectoryQueueConfig",
    "FileBlobReader",
    "FileBlobReaderConfig",
    "FilesSink",
    "FilesSinkConfig",
    "FilesSource",
    "FilesSourceConfig",
    "SqliteQueue",
    "SqliteQueueConfig",
    "Watcher",
]
