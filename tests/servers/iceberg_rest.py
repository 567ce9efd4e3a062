"""An Iceberg REST catalog: Iceberg's own, in Java, over a database of SQLite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.servers.processes import running
from tests.servers.toolchains import javac, tool

_SOURCE = Path(__file__).parent / "IcebergRestCatalog.java"


def fetch() -> str:
    iceberg, hadoop, jetty = "1.11.0", "3.4.1", "12.1.5"
    return javac(
        [_SOURCE],
        f"org.apache.iceberg:iceberg-open-api:{iceberg}:test-fixtures",
        f"org.apache.iceberg:iceberg-core:{iceberg}:tests",
        f"org.apache.iceberg:iceberg-core:{iceberg}",
        f"org.apache.iceberg:iceberg-aws:{iceberg}",
        f"org.apache.iceberg:iceberg-aws-bundle:{iceberg}",
        f"org.apache.hadoop:hadoop-client-api:{hadoop}",
        f"org.apache.hadoop:hadoop-client-runtime:{hadoop}",
        f"org.eclipse.jetty:jetty-server:{jetty}",
        f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{jetty}",
        f"org.eclipse.jetty.compression:jetty-compression-server:{jetty}",
        f"org.eclipse.jetty.compression:jetty-compression-gzip:{jetty}",
        "org.xerial:sqlite-jdbc:3.49.1.0",
        "org.slf4j:slf4j-simple:2.0.17",
        "org.junit.jupiter:junit-jupiter-api:5.13.4",
        "org.assertj:assertj-core:3.27.3",
    )


@contextmanager
def serve(
    folder: Path, credential: str | None = None, warehouse: str | None = None, io: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Its address, while the block lasts.

    With a credential, `id:secret`, it asks for the token that it gives for that. A warehouse that is not a folder
    needs `io`, properties of the catalog such as `io-impl` and `s3.endpoint`.
    """
    classpath = fetch()
    properties = {
        "uri": f"jdbc:sqlite:{folder / 'catalog.db'}?busy_timeout=30000",
        "warehouse": warehouse or (folder / "warehouse").as_uri(),
        **(io or {}),
    }

    def command(port: int) -> list[str]:
        java = [tool("java", "Java 17"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath]
        settings = [f"{name}={value}" for name, value in properties.items()]
        return [*java, "org.apache.iceberg.rest.IcebergRestCatalog", str(port), credential or "", *settings]

    with running(command, folder / "iceberg_rest.log") as address:
        yield f"http://{address}"
