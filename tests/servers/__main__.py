"""Fetch or build every server, so that no test waits for it."""

from __future__ import annotations

from tests.servers import elasticmq, iceberg_rest, versitygw
from tests.servers.judges import delta, iceberg

for server in (elasticmq, versitygw, iceberg_rest, delta, iceberg):
    print(server.fetch())
