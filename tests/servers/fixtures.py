"""The servers as fixtures: each starts when a test first asks for it, and stops with the run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import elasticmq as elasticmq_server
from tests.servers import iceberg_rest as iceberg_rest_server
from tests.servers import moto as moto_server
from tests.servers import versitygw as versitygw_server
from tests.servers.judges import delta as delta_judge_process
from tests.servers.judges import iceberg as iceberg_judge_process
from tests.servers.judges.delta import DeltaJudge
from tests.servers.judges.iceberg import IcebergJudge


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """The address of one moto server for the whole run."""
    with moto_server.serve() as address:
        yield address


@pytest.fixture(scope="session")
def elasticmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one ElasticMQ for the whole run."""
    with elasticmq_server.serve(tmp_path_factory.mktemp("elasticmq")) as address:
        yield address


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one versitygw for the whole run."""
    with versitygw_server.serve(tmp_path_factory.mktemp("versitygw")) as address:
        yield address


@pytest.fixture(scope="session")
def delta_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaJudge]:
    """The one judge of Delta tables for the whole run."""
    with delta_judge_process.serve(tmp_path_factory.mktemp("delta_judge")) as judge:
        yield judge


@pytest.fixture(scope="session")
def iceberg_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergJudge]:
    """The one judge of Iceberg tables for the whole run."""
    with iceberg_judge_process.serve(tmp_path_factory.mktemp("iceberg_judge")) as judge:
        yield judge


@pytest.fixture(scope="session")
def iceberg_rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one Iceberg REST catalog for the whole run, with its warehouse in a folder."""
    with iceberg_rest_server.serve(tmp_path_factory.mktemp("iceberg_rest")) as address:
        yield address
