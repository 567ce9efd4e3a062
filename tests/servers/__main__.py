"""Fetch or build every server, so that no test waits for it."""

from __future__ import annotations

from tests.servers import elasticmq, versitygw
from tests.servers.judges import delta

for server in (elasticmq, versitygw, delta):
    print(server.fetch())
