"""Objects in S3, announced through SQS, become a table: Spark and the servers are real, the cloud is moto."""

from __future__ import annotations

import json

import pytest

from tests.servers.aws import KEYS, announce, client, depth
from tests.servers.moto import empty


@pytest.fixture
def clients(moto):
    empty(moto)
    made = {service: client(service, moto) for service in ("s3", "sqs")}
    yield made
    for one in made.values():
        one.close()


@pytest.fixture
def queue(clients):
    """A queue to which the bucket `landing` announces its objects."""
    clients["s3"].create_bucket(Bucket="landing")
    url = clients["sqs"].create_queue(QueueName="announcements")["QueueUrl"]
    announce(clients["s3"], clients["sqs"], "landing", url)
    return url


def put(s3, number: int, rows: int = 10) -> None:
    lines = [json.dumps({"id": i}) for i in range(number * rows, number * rows + rows)]
    s3.put_object(Bucket="landing", Key=f"in/{number}.json", Body="\n".join(lines).encode())


def test_a_bucket_becomes_a_table_once_over_two_runs(spark, clients, moto, queue, tmp_path, checkpoint):
    source = {"connector": "s3", "bucket": "landing", "prefix": "in/", "queue_url": queue, "endpoint_url": moto}
    source |= {"path_style": "true", "wait_seconds": "0", "state_location": str(tmp_path / "state"), **KEYS}
    sink = {"connector": "files", "path": str(tmp_path / "table"), "checkpointLocation": checkpoint}

    def run() -> None:
        frame = spark.readStream.format("volley").options(**source, max_files_per_trigger=5).schema("id bigint").load()
        frame.writeStream.format("volley").options(**sink).trigger(availableNow=True).start().awaitTermination()

    for number in range(12):
        put(clients["s3"], number)
    run()
    for number in range(10, 15):  # the first two again: new messages for old objects
        put(clients["s3"], number)
    run()
    ids = [row.id for row in spark.read.parquet(sink["path"]).select("id").collect()]
    assert sorted(ids) == list(range(150))
    assert depth(clients["sqs"], queue) == 0
