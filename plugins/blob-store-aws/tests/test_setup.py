"""`volley setup aws` against moto: what it makes works, what is there stays, only what it made is removed."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from botocore.client import BaseClient
from typer.testing import CliRunner
from volley_blob_store_aws import S3Source, S3SourceConfig, credentials
from volley_blob_store_aws.errors import _ACTIONS
from volley_blob_store_aws.events import parse

from tests.servers.aws import KEYS, announce, depth, queue_arn
from volley_connectors.cli.app import app
from volley_core import ReadLimit

README = Path(__file__).parents[1] / "README.md"
WAYS = ["direct", "sns", "eventbridge"]
MARKS = {"Id": "mark", "Events": ["s3:ObjectRemoved:*"]}


class Cloud:
    """A bucket, plain clients, and the command."""

    def __init__(self, aws: dict[str, Any], clients: Callable[[str], Any]) -> None:
        self.address = aws["endpoint_url"]
        self.s3, self.sqs = clients("s3"), clients("sqs")
        self.sns, self.events = clients("sns"), clients("events")
        self.s3.create_bucket(Bucket="landing")

    def run(self, *arguments: str, code: int = 0, answer: str | None = None) -> SimpleNamespace:
        base = ["setup", "aws", "--bucket", "landing", "--queue", "orders", "--endpoint-url", self.address]
        result = CliRunner().invoke(app, [*base, *arguments], input=answer)
        assert result.exit_code == code, f"{result.stdout}{result.stderr}{result.exception!r}"
        return SimpleNamespace(out=result.stdout, err=result.stderr)

    def actions(self, *arguments: str) -> dict[str, str]:
        """What became of each thing."""
        found = json.loads(self.run("--json", *arguments).out)
        return {step["thing"]: step["action"] for step in found["steps"]}

    def url(self, name: str = "orders") -> str:
        return str(self.sqs.get_queue_url(QueueName=name)["QueueUrl"])

    def announced(self) -> list[str]:
        """What the messages in the queue announce. Reads them away."""
        found = []
        while messages := self.sqs.receive_message(QueueUrl=self.url(), MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                found += [blob.uri for blob in parse(message["Body"])]
                self.sqs.delete_message(QueueUrl=self.url(), ReceiptHandle=message["ReceiptHandle"])
        return sorted(found)

    def put(self, *keys: str) -> None:
        for key in keys:
            self.s3.put_object(Bucket="landing", Key=key, Body=b"{}")

    def notifications(self) -> dict[str, Any]:
        found: dict[str, Any] = self.s3.get_bucket_notification_configuration(Bucket="landing")
        del found["ResponseMetadata"]
        return found

    def everything(self) -> Any:
        """All that setup could change."""
        urls = self.sqs.list_queues().get("QueueUrls", [])
        queues = {
            url: (
                self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"],
                self.sqs.list_queue_tags(QueueUrl=url).get("Tags"),
            )
            for url in urls
        }
        topics = [topic["TopicArn"] for topic in self.sns.list_topics()["Topics"]]
        rules = [
            (rule, self.events.list_targets_by_rule(Rule=rule["Name"])["Targets"])
            for rule in self.events.list_rules()["Rules"]
        ]
        policies = [self.sns.get_topic_attributes(TopicArn=arn)["Attributes"] for arn in topics]
        subscriptions = self.sns.list_subscriptions()["Subscriptions"]
        return queues, topics, policies, subscriptions, rules, self.notifications()


@pytest.fixture(scope="module", autouse=True)
def one_session() -> Iterator[None]:
    """Half of a run's time goes into the SDK's reading its own files, which one session does once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(credentials, "_session", cache(credentials._session))
        yield


@pytest.fixture
def cloud(aws: dict[str, Any], clients: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Cloud:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_access_key"])
    return Cloud(aws, clients)


@pytest.mark.parametrize("via", WAYS)
def test_objects_are_announced_in_the_queue(cloud: Cloud, via: str) -> None:
    cloud.run("--via", via, "--prefix", "in/", "--suffix", ".json")
    cloud.put("in/a b+ü.json", "in/b.csv", "elsewhere/c.json", "in/deep/d.json")
    assert cloud.announced() == ["s3://landing/in/a b+ü.json", "s3://landing/in/deep/d.json"]


@pytest.mark.parametrize("via", WAYS)
def test_without_filters_the_whole_bucket_is_announced(cloud: Cloud, via: str) -> None:
    cloud.run("--via", via)
    cloud.put("a.json", "in/b.json")
    assert cloud.announced() == ["s3://landing/a.json", "s3://landing/in/b.json"]


@pytest.mark.parametrize("via", ["direct", "sns"])
def test_a_second_run_finds_everything_unchanged(cloud: Cloud, via: str) -> None:
    first = cloud.actions("--via", via, "--prefix", "in/")
    assert set(first.values()) == {"create"}
    before = cloud.everything()
    assert cloud.actions("--via", via, "--prefix", "in/") == dict.fromkeys(first, "unchanged")
    assert cloud.everything() == before


def test_a_second_run_through_event_bridge_changes_at_most_what_moto_forgets(cloud: Cloud) -> None:
    cloud.run("--via", "eventbridge")
    # moto does not tell that a bucket speaks to EventBridge, so that it is told again.
    again = cloud.actions("--via", "eventbridge")
    assert again.pop("announcement") in ("create", "unchanged")
    assert set(again.values()) == {"unchanged"}


@pytest.mark.parametrize("via", WAYS)
def test_a_dry_run_changes_nothing(cloud: Cloud, via: str) -> None:
    before = cloud.everything()
    planned = json.loads(cloud.run("--via", via, "--dry-run", "--json").out)["steps"]
    assert cloud.everything() == before
    done = json.loads(cloud.run("--via", via, "--json").out)["steps"]
    assert planned == done, "what it prints is what is done"
    before = cloud.everything()
    cloud.run("--via", via, "--dry-run", "--prefix", "other/")
    cloud.run("--via", via, "--teardown", "--dry-run", "--force")
    assert cloud.everything() == before


def test_the_printed_calls_are_commands_that_make_the_same(cloud: Cloud) -> None:
    printed = cloud.run("--dry-run", "--prefix", "in/").out
    for line in printed.splitlines():
        if line.startswith("aws "):
            _, _, _, service, operation, _, parameters = shlex.split(line)
            client = cloud.s3 if service == "s3api" else cloud.sqs
            getattr(client, operation.replace("-", "_"))(**json.loads(parameters))
    assert set(cloud.actions("--prefix", "in/").values()) == {"unchanged"}


def test_only_this_bucket_may_send_to_the_queue(cloud: Cloud) -> None:
    cloud.run("--principal", "arn:aws:iam::123456789012:role/reader")
    attributes = cloud.sqs.get_queue_attributes(QueueUrl=cloud.url(), AttributeNames=["All"])["Attributes"]
    sender, receiver = json.loads(attributes["Policy"])["Statement"]
    assert sender["Principal"] == {"Service": "s3.amazonaws.com"}
    assert sender["Condition"] == {
        "ArnEquals": {"aws:SourceArn": "arn:aws:s3:::landing"},
        "StringEquals": {"aws:SourceAccount": "123456789012"},
    }
    assert receiver["Principal"] == {"AWS": "arn:aws:iam::123456789012:role/reader"}
    assert "sqs:SendMessage" not in receiver["Action"]


@pytest.mark.parametrize(("via", "service"), [("sns", "sns"), ("eventbridge", "events")])
def test_what_stands_in_between_is_the_only_one_to_send(cloud: Cloud, via: str, service: str) -> None:
    cloud.run("--via", via)
    attributes = cloud.sqs.get_queue_attributes(QueueUrl=cloud.url(), AttributeNames=["All"])["Attributes"]
    (sender,) = json.loads(attributes["Policy"])["Statement"]
    assert sender["Principal"] == {"Service": f"{service}.amazonaws.com"}
    assert sender["Condition"]["ArnEquals"]["aws:SourceArn"].startswith(f"arn:aws:{service}:us-east-1:123456789012:")
    assert sender["Condition"]["StringEqualsIfExists"] == {"aws:SourceAccount": "123456789012"}


def test_the_redrive_policy_works(cloud: Cloud) -> None:
    cloud.run("--max-receive-count", "2", "--visibility-seconds", "1")
    cloud.announced()
    cloud.sqs.send_message(QueueUrl=cloud.url(), MessageBody="{poison")
    for _ in range(3):
        for message in cloud.sqs.receive_message(QueueUrl=cloud.url()).get("Messages", []):
            cloud.sqs.change_message_visibility(
                QueueUrl=cloud.url(), ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
            )
    (message,) = cloud.sqs.receive_message(QueueUrl=cloud.url("orders-dlq"))["Messages"]
    assert message["Body"] == "{poison"


def test_what_others_configured_stays(cloud: Cloud) -> None:
    foreign = cloud.sqs.create_queue(QueueName="foreign")["QueueUrl"]
    arn = queue_arn(cloud.sqs, foreign)
    marks = MARKS | {"QueueArn": arn}
    cloud.s3.put_bucket_notification_configuration(
        Bucket="landing", NotificationConfiguration={"QueueConfigurations": [marks]}
    )
    cloud.run("--prefix", "in/")
    assert [entry["Id"] for entry in cloud.notifications()["QueueConfigurations"]] == ["mark", "volley-orders"]
    cloud.put("in/a.json")
    cloud.s3.delete_object(Bucket="landing", Key="in/a.json")
    assert depth(cloud.sqs, foreign) >= 1
    cloud.run("--teardown", "--yes", "--force")
    assert cloud.notifications()["QueueConfigurations"] == [marks]


def test_an_overlap_is_explained_before_anything_is_made(cloud: Cloud) -> None:
    foreign = cloud.sqs.create_queue(QueueName="foreign")["QueueUrl"]
    announce(cloud.s3, cloud.sqs, "landing", foreign, "s3:ObjectCreated:Put")
    before = cloud.everything()
    error = cloud.run("--prefix", "in/", code=2).err
    assert "s3://landing/in/ is announced already" in error
    assert "s3:ObjectCreated:Put, the whole bucket to arn:aws:sqs:us-east-1:123456789012:foreign" in error
    assert "--via eventbridge" in error
    assert cloud.everything() == before
    cloud.run("--prefix", "in/", "--via", "eventbridge")
    cloud.put("in/a.json")
    assert cloud.announced() == ["s3://landing/in/a.json"]


def test_an_existing_queue_keeps_what_it_had(cloud: Cloud) -> None:
    dead = queue_arn(cloud.sqs, cloud.sqs.create_queue(QueueName="old-dead")["QueueUrl"])
    stranger = {"Sid": "Old", "Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    attributes = {
        "Policy": json.dumps({"Version": "2012-10-17", "Statement": stranger}),
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 9}),
        "VisibilityTimeout": "77",
    }
    url = cloud.sqs.create_queue(QueueName="orders", Attributes=attributes)["QueueUrl"]
    assert cloud.actions() == {"dead-letter queue": "unchanged", "queue": "change", "announcement": "create"}
    assert set(cloud.actions().values()) == {"unchanged"}
    found = cloud.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert [one["Sid"][:6] for one in json.loads(found["Policy"])["Statement"]] == ["Old", "Volley"]
    assert (found["RedrivePolicy"], found["VisibilityTimeout"]) == (attributes["RedrivePolicy"], "77")
    assert cloud.actions("--teardown", "--yes")["queue"] == "keep"
    found = cloud.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert json.loads(found["Policy"])["Statement"] == [stranger]
    assert found["RedrivePolicy"] == attributes["RedrivePolicy"]


@pytest.mark.parametrize("theirs", [True, False])
def test_of_an_existing_queue_goes_only_what_was_added(cloud: Cloud, theirs: bool) -> None:
    redrive = {}
    if theirs:
        # Of the very name that the setup would choose.
        dead = queue_arn(cloud.sqs, cloud.sqs.create_queue(QueueName="orders-dlq")["QueueUrl"])
        redrive = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 9})}
    cloud.sqs.create_queue(QueueName="orders", Attributes=redrive)
    before = cloud.everything()
    cloud.run()
    assert set(cloud.actions().values()) == {"unchanged"}
    found = cloud.sqs.get_queue_attributes(QueueUrl=cloud.url(), AttributeNames=["All"])["Attributes"]
    assert json.loads(found["RedrivePolicy"])["maxReceiveCount"] == (9 if theirs else 5)
    cloud.announced()
    cloud.run("--teardown", "--yes")
    queues, *rest = cloud.everything()
    assert queues.keys() == before[0].keys()
    found = cloud.sqs.get_queue_attributes(QueueUrl=cloud.url(), AttributeNames=["All"])["Attributes"]
    assert found.get("RedrivePolicy", "") == redrive.get("RedrivePolicy", "")
    assert found.get("Policy", "") == ""
    assert rest == list(before[1:])


@pytest.mark.parametrize("via", WAYS)
def test_teardown_leaves_nothing_but_the_bucket(cloud: Cloud, via: str) -> None:
    cloud.put("before.json")
    cloud.run("--via", via)
    cloud.announced()
    cloud.run("--teardown", "--yes")
    queues, topics, _, subscriptions, rules, notifications = cloud.everything()
    assert (queues, topics, subscriptions, rules, notifications) == ({}, [], [], [], {})
    assert cloud.s3.list_objects_v2(Bucket="landing")["KeyCount"] == 1
    again = json.loads(cloud.run("--teardown", "--yes", "--json").out)["steps"]
    assert {step["action"] for step in again} == {"absent"}
    cloud.run("--via", via)


def test_teardown_asks_first(cloud: Cloud) -> None:
    cloud.run()
    cloud.announced()
    before = cloud.everything()
    refused = cloud.run("--teardown", answer="n\n", code=1)
    assert "would remove" in refused.out
    assert "Remove these?" in refused.out
    assert "--yes" in cloud.run("--teardown", "--json", code=2).err
    assert cloud.everything() == before
    assert "removed" in cloud.run("--teardown", answer="y\n").out
    assert cloud.everything()[0] == {}


@pytest.mark.parametrize("name", ["orders", "orders-dlq"])
def test_teardown_refuses_a_queue_with_messages(cloud: Cloud, name: str) -> None:
    cloud.run()
    cloud.announced()
    cloud.sqs.send_message(QueueUrl=cloud.url(name), MessageBody="{}")
    before = cloud.everything()
    assert f"{name!r} still holds about 1 message," in cloud.run("--teardown", "--yes", code=2).err
    assert cloud.everything() == before
    cloud.run("--teardown", "--yes", "--force")
    assert cloud.everything()[0] == {}


def test_a_queue_of_two_buckets_goes_with_the_second(cloud: Cloud) -> None:
    cloud.s3.create_bucket(Bucket="other")
    cloud.run()
    assert cloud.actions("--bucket", "other")["queue"] == "change"
    assert set(cloud.actions().values()) == {"unchanged"}
    cloud.announced()
    steps = cloud.actions("--teardown", "--yes")
    assert steps == {"announcement": "remove", "queue": "keep", "dead-letter queue": "keep"}
    assert cloud.actions("--bucket", "other")["queue"] == "unchanged"
    cloud.announced()
    assert set(cloud.actions("--teardown", "--yes", "--bucket", "other").values()) == {"remove"}


def test_another_way_on_top_is_refused(cloud: Cloud) -> None:
    cloud.run()
    assert "is set up for bucket 'landing' via direct" in cloud.run("--via", "sns", code=2).err


def test_the_printed_source_reads_what_is_announced(cloud: Cloud, tmp_path: Path) -> None:
    cloud.put("in/early.json", "in/early.csv")
    out = cloud.run("--prefix", "in/", "--suffix", ".json", "--state-location", str(tmp_path)).out
    options = yaml.safe_load(out[out.index("source:") : out.index("\nThe IAM policy")])["source"]
    assert options.pop("connector") == "s3"
    assert options["queue_url"] == cloud.url()
    cloud.put("in/late.json", "in/late.csv", "elsewhere/late.json")
    source = S3Source(S3SourceConfig.from_options(options))
    end = source.latest_offset(source.initial_offset(), ReadLimit())
    later = source.latest_offset(end, ReadLimit())
    assert source.latest_offset(later, ReadLimit()) == later
    splits = source.splits(source.initial_offset(), later)
    assert sum(record.num_rows for split in splits for record in source.read(split)) == 2
    source.close()
    assert depth(cloud.sqs, cloud.url()) == 0


def test_the_readers_policy_is_the_least_that_it_needs(cloud: Cloud) -> None:
    cloud.s3.put_bucket_versioning(Bucket="landing", VersioningConfiguration={"Status": "Enabled"})
    arguments = ["--prefix", "in/", "--state-location", "s3://state/orders/", "--principal", "arn:aws:iam::1:role/r"]
    shown = cloud.run("--dry-run", *arguments).out
    assert "aws iam put-role-policy --role-name r --policy-name volley-orders" in shown
    policy = json.loads(cloud.run("--dry-run", "--json", *arguments).out)["reader_policy"]
    assert '"Sid": "KeepState"' in shown
    assert {(action, one["Resource"]) for one in policy["Statement"] for action in one["Action"]} == {
        ("sqs:ReceiveMessage", "arn:aws:sqs:us-east-1:123456789012:orders"),
        ("sqs:DeleteMessage", "arn:aws:sqs:us-east-1:123456789012:orders"),
        ("sqs:ChangeMessageVisibility", "arn:aws:sqs:us-east-1:123456789012:orders"),
        ("s3:GetObject", "arn:aws:s3:::landing/in/*"),
        ("s3:GetObjectVersion", "arn:aws:s3:::landing/in/*"),
        ("s3:ListBucket", "arn:aws:s3:::landing"),
        ("s3:GetBucketVersioning", "arn:aws:s3:::landing"),
        ("s3:ListBucketVersions", "arn:aws:s3:::landing"),
        ("s3:GetObject", "arn:aws:s3:::state/orders/*"),
        ("s3:PutObject", "arn:aws:s3:::state/orders/*"),
        ("s3:DeleteObject", "arn:aws:s3:::state/orders/*"),
        ("s3:ListBucket", "arn:aws:s3:::state"),
    }


def test_the_readme_names_every_permission_that_the_setup_needs(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    section = README.read_text().split("The setup itself needs")[1].split("<!--")[0]
    named = set(re.findall(r"`((?:s3|sqs|sns|events|sts):\w+)`", section))
    asked: set[str] = set()
    send = BaseClient._make_api_call

    def note(client: Any, operation: str, parameters: Any) -> Any:
        action = _ACTIONS.get(operation, f"{client.meta.service_model.service_name}:{operation}")
        asked.update(re.findall(r"\w+:\w+", action))
        return send(client, operation, parameters)

    with monkeypatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", note)
        cloud.run("--dry-run")
        for via in ("sns", "eventbridge"):
            for arguments in ([], ["--principal", "arn:aws:iam::123456789012:role/reader"], ["--teardown", "--yes"]):
                cloud.run("--via", via, "--force", *arguments)
    assert named == asked | {"sns:SetTopicAttributes"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--queue", "orders.fifo"], "standard queues only"),
        (["--queue", "no/name"], "is no queue's name"),
        (["--dead-letter-queue", "orders"], "cannot be its own dead-letter queue"),
        (["--bucket", "landing/in"], "the rest as --prefix"),
        (["--bucket", "nowhere"], "There is no bucket 'nowhere'"),
        (["--region", "eu-west-1"], "is in us-east-1, not in eu-west-1"),
        (["--principal", "reader"], "give the ARN of a role or user"),
    ],
)
def test_what_cannot_be_is_refused(cloud: Cloud, arguments: list[str], message: str) -> None:
    before = cloud.everything()
    assert message in " ".join(cloud.run(*arguments, code=2).err.split())
    assert cloud.everything() == before
