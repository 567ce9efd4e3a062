"""Real servers for tests and benchmarks: fetched or built once, started on free ports of this machine, then stopped.

`python -m tests.servers` fetches them all ahead of a test run.
"""
