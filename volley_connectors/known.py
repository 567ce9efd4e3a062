"""The connectors that Volley's own packages bring: tells one that is not installed from one that is misspelt."""

from __future__ import annotations

from dataclasses import dataclass

from volley_core.names import canonical


@dataclass(frozen=True, slots=True)
class KnownConnector:
    kind: str
    name: str
    feature: str
    """The extra of `volley-connectors` that brings it; empty if it is always there."""
    summary: str
    released: bool = True

    @property
    def install(self) -> str:
        # The quotes matter: zsh and others expand the square brackets.
        return f"pip install 'volley-connectors[{self.feature}]'" if self.feature else "pip install volley-connectors"


KNOWN = (
    KnownConnector("sources", "memory", "", "Batches pushed from a test or a notebook"),
    KnownConnector("sources", "volley-files", "", "What another query of a blob source has read, object by object"),
    KnownConnector("sources", "files", "blob-store", "New files in a directory"),
    KnownConnector("sources", "s3", "blob-store-aws", "Objects in S3, announced through SQS"),
    KnownConnector("sources", "azure-blob", "blob-store-azure", "Azure blobs, announced by a queue", released=False),
    KnownConnector("sources", "gcs", "blob-store-gcs", "Objects in GCS, announced by Pub/Sub", released=False),
    KnownConnector("sources", "kafka", "kafka", "Records of Kafka topics", released=False),
    KnownConnector("sources", "delta", "delta", "Rows added to a Delta table", released=False),
    KnownConnector("sources", "iceberg", "iceberg", "Rows added to an Iceberg table", released=False),
    KnownConnector("sinks", "memory", "", "Batches that a test or a notebook reads back"),
    KnownConnector("sinks", "count", "", "Counts rows and forgets them"),
    KnownConnector("sinks", "files", "blob-store", "Parquet files, one directory per epoch"),
    KnownConnector("sinks", "kafka", "kafka", "Records into Kafka, exactly-once", released=False),
    KnownConnector("sinks", "delta", "delta", "A Delta Lake table, exactly-once"),
    KnownConnector("sinks", "iceberg", "iceberg", "An Iceberg table, exactly-once", released=False),
    KnownConnector("notification_sources", "directory-queue", "blob-store", "Message files in a directory"),
    KnownConnector("notification_sources", "sqlite-queue", "blob-store", "Messages in an SQLite file"),
    KnownConnector("notification_sources", "sqs", "blob-store-aws", "S3 events in an SQS queue"),
    KnownConnector("notification_sources", "azure-queue", "blob-store-azure", "Blob events", released=False),
    KnownConnector("notification_sources", "pubsub", "blob-store-gcs", "GCS events in Pub/Sub", released=False),
    KnownConnector("blob_readers", "files", "blob-store", "Files of a directory"),
    KnownConnector("blob_readers", "s3", "blob-store-aws", "Objects in S3"),
    KnownConnector("blob_readers", "azure-blob", "blob-store-azure", "Azure blobs", released=False),
    KnownConnector("blob_readers", "gcs", "blob-store-gcs", "Objects in GCS", released=False),
    KnownConnector("decoders", "json", "", "JSON, lines or one document"),
    KnownConnector("decoders", "csv", "", "Comma-separated values"),
    KnownConnector("decoders", "parquet", "", "Apache Parquet"),
    KnownConnector("decoders", "orc", "", "Apache ORC"),
    KnownConnector("decoders", "arrow", "", "Arrow IPC, files and streams"),
    KnownConnector("decoders", "text", "", "Text, one row per line"),
    KnownConnector("decoders", "binary", "", "Whole objects, one row each"),
    KnownConnector("decoders", "avro", "file-formats", "Apache Avro"),
    KnownConnector("setups", "aws", "blob-store-aws", "A queue to which an S3 bucket announces its objects"),
)


def find_known(kind: str, name: str) -> KnownConnector | None:
    """The known connector of this name, in any case and spelling."""
    return next((k for k in KNOWN if k.kind == kind and canonical(k.name) == canonical(name)), None)
