"""ElasticMQ: the strict SQS. An old receipt is refused, and deep queues stay fast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.processes import running
from tests.servers.toolchains import maven, tool

_CONFIGURATION = """\
include classpath("application.conf")
node-address {{ protocol = http, host = "127.0.0.1", port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-hostname = "127.0.0.1", bind-port = {port}, sqs-limits = strict }}
rest-stats {{ enabled = false }}
"""


def fetch() -> str:
    return maven("org.elasticmq:elasticmq-server_2.13:1.7.1")


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Its address, while the block lasts."""
    classpath = fetch()

    def command(port: int) -> list[str]:
        file = folder / "elasticmq.conf"
        file.write_text(_CONFIGURATION.format(port=port))
        java = [tool("java", "Java 17"), "-Xmx128m", f"-Dconfig.file={file}", "-cp", classpath]
        return [*java, "org.elasticmq.server.Main"]

    with running(command, folder / "elasticmq.log") as address:
        yield f"http://{address}"
