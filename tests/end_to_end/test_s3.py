"""Objects in S3, announced through SQS, become a table: Spark and the servers are real, the cloud is moto."""

from __future__ import annotations

import json

import boto3
import pytest
from moto.server import ThreadedMotoServer

KEYS = {"region": "us-east-1", "access_key_id": "AKIATESTTESTTESTTEST", "secret_access_key": "not-a-real-secret"}


@pytest.fixture
def endpoint():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def clients(endpoint):
    made = {
        service: boto3.client(
            service,
            region_name=KEYS["region"],
            endpoint_url=endpoint,
            aws_access_key_id=KEYS["access_key_id"],
            aws_secret_access_key=KEYS["secret_access_key"],
        )
        for service in ("s3", "sqs")
    }
    yield made
    for client in made.values():
        client.close()


@pytest.fixture
def queue(clients):
    """A queue to which the bucket `landing` announces its objects."""
    s3, sqs = clients["s3"], clients["sqs"]
    s3.create_bucket(Bucket="landing")
    url = sqs.create_queue(QueueName="announcements")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    configuration = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
    s3.put_bucket_notification_configuration(Bucket="landing", NotificationConfiguration=configuration)
    return url


def put(s3, number: int, rows: int = 10) -> None:
    lines = [json.dumps({"id": i}) for i in range(number * rows, number * rows + rows)]
    s3.put_object(Bucket="landing", Key=f"in/{number}.json", Body="\n".join(lines).encode())


def test_a_bucket_becomes_a_table_once_over_two_runs(spark, clients, endpoint, queue, tmp_path, checkpoint):
    source = {"connector": "s3", "bucket": "landing", "prefix": "in/", "queue_url": queue, "endpoint_url": endpoint}
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
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    left = clients["sqs"].get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    assert {int(value) for value in left.values()} == {0}
