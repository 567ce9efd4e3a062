"""Fetch or build every server, so that no test waits for it."""

from __future__ import annotations

from tests.servers import elasticmq, versitygw

for server in (elasticmq, versitygw):
    print(server.fetch())
