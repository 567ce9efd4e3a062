"""The plugins' tests keep the rules of all tests, and have their servers: see tests/conftest.py."""

from __future__ import annotations

from tests.conftest import loopback_only
from tests.servers.fixtures import delta_judge, elasticmq, iceberg_judge, iceberg_rest, moto, versitygw

__all__ = ["delta_judge", "elasticmq", "iceberg_judge", "iceberg_rest", "loopback_only", "moto", "versitygw"]
