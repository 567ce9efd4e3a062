"""What `volley setup aws` decides without a server to ask, and what it says when AWS refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from volley_blob_store_aws import AwsConfig
from volley_blob_store_aws.setup import account as account_module
from volley_blob_store_aws.setup import announcements, policies
from volley_blob_store_aws.setup.account import Account, Call
from volley_blob_store_aws.setup.steps import plan
from volley_blob_store_aws.setup.wanted import Via, Wanted

from volley_core import ConfigError

QUEUE = "arn:aws:sqs:us-east-1:123456789012:orders"
ORDERS = Wanted("landing", "orders", "in/", ".json")


def entry(prefix: str = "", suffix: str = "", event: str = "s3:ObjectCreated:*", **target: str) -> dict[str, Any]:
    # In the spelling that S3 gives back.
    rules = [{"Name": "Prefix", "Value": prefix}, {"Name": "Suffix", "Value": suffix}]
    return {"Id": "theirs", "Events": [event], "Filter": {"Key": {"FilterRules": rules}}} | target


@pytest.mark.parametrize("via", [Via.DIRECT, Via.EVENTBRIDGE])
def test_our_own_entry_is_recognised_as_it_is_given_back(via: Via) -> None:
    wanted = Wanted("landing", "orders", "in/", via=via)
    theirs = {"LambdaFunctionConfigurations": [entry("other/", LambdaFunctionArn="arn:lambda")]}
    once = announcements.with_ours(theirs, wanted, QUEUE)
    given_back = json.loads(json.dumps(once).replace('"prefix"', '"Prefix"')) | {"ResponseMetadata": {}}
    assert not announcements.equal(theirs, once)
    assert announcements.equal(given_back, announcements.with_ours(given_back, wanted, QUEUE))


def test_a_bucket_that_speaks_to_event_bridge_goes_on_doing_so() -> None:
    then = announcements.with_ours({"EventBridgeConfiguration": {}}, ORDERS, QUEUE)
    assert "EventBridgeConfiguration" in then
    assert "EventBridgeConfiguration" in announcements.without_ours(then, ORDERS)


@pytest.mark.parametrize(
    ("prefix", "suffix", "event", "overlaps"),
    [
        ("", "", "s3:ObjectCreated:*", True),
        ("in/", "", "s3:ObjectCreated:Put", True),
        ("in/deep/", ".json", "s3:ObjectCreated:*", True),
        ("", "n", "s3:ObjectCreated:*", True),
        ("", "my.json", "s3:ObjectCreated:*", True),
        ("in/", ".csv", "s3:ObjectCreated:*", False),
        ("out/", "", "s3:ObjectCreated:*", False),
        ("in/", "", "s3:ObjectRemoved:*", False),
    ],
)
@pytest.mark.parametrize(
    ("kind", "target"),
    [("Queue", "QueueArn"), ("Topic", "TopicArn"), ("LambdaFunction", "LambdaFunctionArn")],
)
def test_what_s3_would_refuse_is_refused_here(
    prefix: str, suffix: str, event: str, overlaps: bool, kind: str, target: str
) -> None:
    theirs = {f"{kind}Configurations": [entry(prefix, suffix, event, **{target: "arn:theirs"})]}
    if not overlaps:
        assert announcements.with_ours(theirs, ORDERS, QUEUE)
        return
    with pytest.raises(ConfigError, match="announced already: configuration 'theirs'.*arn:theirs"):
        announcements.with_ours(theirs, ORDERS, QUEUE)


def test_the_rule_takes_prefix_and_suffix_by_the_letter() -> None:
    pattern = json.loads(announcements.pattern(Wanted("landing", "orders", "in*\\/", ".json")))
    assert pattern["detail"]["object"] == {"key": [{"wildcard": "in\\*\\\\/*.json"}]}
    pattern = json.loads(announcements.pattern(Wanted("landing", "orders", suffix=".json")))
    assert pattern["detail"]["object"] == {"key": [{"suffix": ".json"}]}


def test_a_policy_keeps_the_statements_of_others_and_their_order() -> None:
    mine = policies.sender(ORDERS, Via.DIRECT, QUEUE, "arn:aws:s3:::landing", "123456789012")
    policy = json.dumps({"Version": "2012-10-17", "Statement": [mine, {"Sid": "Later"}]})
    assert policies.merged(policy, ORDERS, [mine]) == policy
    assert json.loads(policies.merged(policy, ORDERS, []))["Statement"] == [{"Sid": "Later"}]
    assert policies.merged(json.dumps({"Statement": [mine]}), ORDERS, []) == ""
    assert policies.has_others(policy, ORDERS)


def test_names_stay_within_what_aws_permits() -> None:
    assert len(Wanted("b" * 63, "q" * 80, dead_letter_queue="dead").relay) == 64
    assert Wanted("one", "orders").relay != Wanted("two", "orders").relay
    with pytest.raises(ConfigError, match="is no queue's name"):
        Wanted("b", "q" * 80)


@pytest.fixture
def account(aws: dict[str, Any], s3: Any, bucket: str) -> Iterator[Account]:
    made = Account(AwsConfig(**aws), bucket)
    yield made
    made.close()


def set_up(account: Account) -> None:
    for step in plan(account, Wanted("landing", "orders", via=Via.SNS)):
        for call in step.calls:
            account.make(call)


def refuse(account: Account, service: str, operation: str, code: str, times: int = 100) -> list[str]:
    """Let AWS answer so; gives the calls that it answered."""
    answered: list[str] = []

    def answer(**call: Any) -> Any:
        if len(answered) == times:
            return None
        answered.append(operation)
        said = {"Error": {"Code": code, "Message": "User bob may not."}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        return SimpleNamespace(status_code=400), said

    account.client(service).meta.events.register(f"before-call.{service}.{operation}", answer)
    return answered


@pytest.mark.parametrize(
    ("service", "operation", "action"),
    [
        ("sqs", "GetQueueUrl", "sqs:GetQueueUrl"),
        ("sqs", "CreateQueue", "sqs:CreateQueue and sqs:TagQueue"),
        ("s3", "HeadBucket", "s3:ListBucket"),
        ("s3", "GetBucketNotificationConfiguration", "s3:GetBucketNotification"),
        ("s3", "PutBucketNotificationConfiguration", "s3:PutBucketNotification"),
        ("sns", "CreateTopic", "sns:CreateTopic and sns:TagResource"),
        ("sns", "Subscribe", "sns:Subscribe"),
        ("sts", "GetCallerIdentity", "GetCallerIdentity"),
    ],
)
def test_an_error_names_the_permission_that_is_missing(
    account: Account, service: str, operation: str, action: str
) -> None:
    if operation != "HeadBucket":
        assert account.region == "us-east-1"
    refuse(account, service, operation, "AccessDenied")
    with pytest.raises(ConfigError, match=f"access is denied .*User bob may not.* Allow {action} to this identity"):
        set_up(account)


def put_notification(account: Account) -> None:
    parameters = {"Bucket": "landing", "NotificationConfiguration": {}}
    account.make(Call("s3", "put_bucket_notification_configuration", parameters))


def test_a_destination_is_offered_again_until_its_policy_is_known(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_module, "_PAUSES_SECONDS", (0.0, 0.0, 0.0))
    answered = refuse(account, "s3", "PutBucketNotificationConfiguration", "InvalidArgument", times=2)
    put_notification(account)
    assert len(answered) == 2


def test_a_destination_that_stays_refused_is_an_error(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_module, "_PAUSES_SECONDS", (0.0, 0.0, 0.0))
    answered = refuse(account, "s3", "PutBucketNotificationConfiguration", "InvalidArgument")
    with pytest.raises(ConfigError, match="PutBucketNotificationConfiguration landing"):
        put_notification(account)
    assert len(answered) == 4
