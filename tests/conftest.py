"""What all tests share: one Spark session, servers, a checkpoint directory each, no way out of this machine."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers.fixtures import delta_judge, elasticmq, iceberg_judge, iceberg_rest, moto, versitygw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "checkpoint",
    "delta_judge",
    "elasticmq",
    "iceberg_judge",
    "iceberg_rest",
    "loopback_only",
    "moto",
    "spark",
    "versitygw",
]


def _refuse_others(address: Any) -> None:
    """Let through Unix sockets and loopback, raise for everything else."""
    if not isinstance(address, tuple) or address[0] == "localhost":
        return
    try:
        loopback = ipaddress.ip_address(address[0]).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise PermissionError(f"A test tried to connect to {address[0]}; tests talk to this machine only.")


@pytest.fixture(autouse=True, scope="session")
def loopback_only() -> Iterator[None]:
    """Refuse every connection that this process tries to make to another machine."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            original = getattr(socket.socket, name)

            def guarded(self: socket.socket, address: Any, original: Any = original) -> Any:
                _refuse_others(address)
                return original(self, address)

            patch.setattr(socket.socket, name, guarded)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the whole run. A test that needs another starts it in a process of its own."""
    from volley_connectors.spark import session

    warehouse = tmp_path_factory.mktemp("warehouse")
    conf = {
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": warehouse,
    }
    with pytest.MonkeyPatch.context() as patch:
        # Spark's processes see a third party's packages beside ours; this process and its other children do not.
        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "third_party"))
        spark = session("volley-tests", master="local[2]", conf=conf, local_checkpoints=True)
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A checkpoint location of the test's own."""
    return str(tmp_path / "checkpoint")
