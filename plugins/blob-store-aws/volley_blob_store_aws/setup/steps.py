"""What is there already, and the steps from there to what is wanted. Planning changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from volley_blob_store_aws.setup import announcements, policies
from volley_blob_store_aws.setup.account import Account, Call
from volley_blob_store_aws.setup.wanted import Via, Wanted
from volley_core import ConfigError

OWN_TAG = "volley-setup"
"""Marks what was made here, which alone is ever removed."""
_RETENTION_SECONDS = 14 * 24 * 3600


class Action(StrEnum):
    """What a step does."""

    CREATE = "create"
    CHANGE = "change"
    NONE = "unchanged"
    REMOVE = "remove"
    KEEP = "keep"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is wanted, or is to go."""

    thing: str
    name: str
    action: Action
    calls: tuple[Call, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that is there."""

    url: str
    attributes: dict[str, str]
    is_ours: bool

    @property
    def policy(self) -> str:
        return self.attributes.get("Policy", "")

    @property
    def redrive_target(self) -> str:
        """The name of its dead-letter queue."""
        found = json.loads(self.attributes.get("RedrivePolicy") or "{}")
        return str(found.get("deadLetterTargetArn", "")).rpartition(":")[2]


def find_queue(account: Account, name: str) -> Queue | None:
    found = account.find("sqs", "get_queue_url", QueueName=name)
    if found is None:
        return None
    url = found["QueueUrl"]
    attributes = account.ask("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    tags = account.ask("sqs", "list_queue_tags", QueueUrl=url).get("Tags", {})
    return Queue(url, attributes, OWN_TAG in tags)


def plan(account: Account, wanted: Wanted) -> list[Step]:
    """The steps, in an order in which each finds what it needs."""
    queue = find_queue(account, wanted.queue)
    if queue is not None:
        _refuse_another_way(queue, wanted)
    return [
        *_dead_letters(account, wanted, queue),
        _queue(account, wanted, queue),
        *_relay(account, wanted),
        _announcement(account, wanted),
    ]


def source_arn(account: Account, wanted: Wanted, via: Via) -> str:
    """Who sends to the queue."""
    if via is Via.DIRECT:
        return account.bucket_arn
    return account.arn("sns", wanted.relay) if via is Via.SNS else account.arn("events", f"rule/{wanted.relay}")


def _refuse_another_way(queue: Queue, wanted: Wanted) -> None:
    for via in policies.ways(queue.policy, wanted) - {wanted.via}:
        raise ConfigError(
            f"Queue {wanted.queue!r} is set up for bucket {wanted.bucket!r} via {via}; via {wanted.via} on top would "
            f"announce every object twice. Run the same command with --teardown first, or with --via {via}."
        )


def _dead_letters(account: Account, wanted: Wanted, queue: Queue | None) -> Iterator[Step]:
    if queue is not None and not queue.is_ours and queue.redrive_target:
        yield Step("dead-letter queue", queue.redrive_target, Action.NONE, note="the queue had it already")
        return
    if find_queue(account, wanted.dead_letters) is not None:
        yield Step("dead-letter queue", wanted.dead_letters, Action.NONE)
        return
    attributes = {"MessageRetentionPeriod": str(_RETENTION_SECONDS)}
    yield Step(
        "dead-letter queue",
        wanted.dead_letters,
        Action.CREATE,
        (_create_queue(wanted.dead_letters, attributes),),
        "keeps for 14 days what nobody could read",
    )


def _queue(account: Account, wanted: Wanted, queue: Queue | None) -> Step:
    arn = account.arn("sqs", wanted.queue)
    statements = [policies.sender(wanted, wanted.via, arn, source_arn(account, wanted, wanted.via), account.number)]
    if wanted.principal is not None:
        statements.append(policies.receiver(wanted, arn))
    attributes = {"Policy": policies.merged(queue.policy if queue else "", wanted, statements)}
    if queue is None or queue.is_ours or not queue.redrive_target:
        target = {"deadLetterTargetArn": account.arn("sqs", wanted.dead_letters)}
        attributes["RedrivePolicy"] = json.dumps(target | {"maxReceiveCount": wanted.max_receive_count})
    if queue is None or queue.is_ours:
        attributes["VisibilityTimeout"] = str(wanted.visibility_seconds)
        attributes["MessageRetentionPeriod"] = str(_RETENTION_SECONDS)
    if queue is None:
        note = f"after {wanted.max_receive_count} receives to {wanted.dead_letters}"
        return Step("queue", wanted.queue, Action.CREATE, (_create_queue(wanted.queue, attributes),), note)
    changes = {name: value for name, value in attributes.items() if not _equal(queue.attributes.get(name, ""), value)}
    if not changes:
        return Step("queue", wanted.queue, Action.NONE)
    call = Call("sqs", "set_queue_attributes", {"QueueUrl": queue.url, "Attributes": changes})
    return Step("queue", wanted.queue, Action.CHANGE, (call,), f"its {', '.join(changes)}")


def _create_queue(name: str, attributes: dict[str, str]) -> Call:
    return Call("sqs", "create_queue", {"QueueName": name, "Attributes": attributes, "tags": {OWN_TAG: name}})


def _equal(found: str, wanted: str) -> bool:
    if not wanted.startswith("{") or not found:
        return found == wanted
    one, other = json.loads(found), json.loads(wanted)
    # Here a number, there a text.
    return all(str(one.get(key)) == str(other.get(key)) for key in {*one, *other})


def _relay(account: Account, wanted: Wanted) -> list[Step]:
    """What stands between bucket and queue."""
    if wanted.via is Via.SNS:
        return [_topic(account, wanted), _subscription(account, wanted)]
    return [_rule(account, wanted)] if wanted.via is Via.EVENTBRIDGE else []


def _topic(account: Account, wanted: Wanted) -> Step:
    arn = account.arn("sns", wanted.relay)
    found = account.find("sns", "get_topic_attributes", TopicArn=arn)
    now = found["Attributes"].get("Policy", "") if found else ""
    statement = policies.publisher(wanted, arn, account.bucket_arn, account.number)
    policy = policies.merged(now, wanted, [statement])
    if found is None:
        tags = [{"Key": OWN_TAG, "Value": wanted.queue}]
        call = Call("sns", "create_topic", {"Name": wanted.relay, "Attributes": {"Policy": policy}, "Tags": tags})
        return Step("topic", wanted.relay, Action.CREATE, (call,))
    if policies.equal(now, policy):
        return Step("topic", wanted.relay, Action.NONE)
    parameters = {"TopicArn": arn, "AttributeName": "Policy", "AttributeValue": policy}
    return Step("topic", wanted.relay, Action.CHANGE, (Call("sns", "set_topic_attributes", parameters),), "its Policy")


def _subscription(account: Account, wanted: Wanted) -> Step:
    topic, queue = account.arn("sns", wanted.relay), account.arn("sqs", wanted.queue)
    found = account.find("sns", "list_subscriptions_by_topic", TopicArn=topic) or {}
    # The topic is ours alone: one page holds what it has.
    if any(one["Endpoint"] == queue for one in found.get("Subscriptions", [])):
        return Step("subscription", wanted.queue, Action.NONE)
    parameters = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue, "Attributes": {"RawMessageDelivery": "true"}}
    return Step("subscription", wanted.queue, Action.CREATE, (Call("sns", "subscribe", parameters),))


def _rule(account: Account, wanted: Wanted) -> Step:
    found = account.find("events", "describe_rule", Name=wanted.relay)
    pattern = announcements.pattern(wanted)
    rule = {"Name": wanted.relay, "EventPattern": pattern, "State": "ENABLED"}
    target = {"Id": wanted.relay, "Arn": account.arn("sqs", wanted.queue)}
    put_target = Call("events", "put_targets", {"Rule": wanted.relay, "Targets": [target]})
    if found is None:
        tagged = rule | {"Tags": [{"Key": OWN_TAG, "Value": wanted.queue}]}
        return Step("rule", wanted.relay, Action.CREATE, (Call("events", "put_rule", tagged), put_target))
    calls = []
    if not policies.equal(found.get("EventPattern", ""), pattern) or found.get("State") != "ENABLED":
        calls.append(Call("events", "put_rule", rule))
    targets = account.ask("events", "list_targets_by_rule", Rule=wanted.relay)["Targets"]
    if not any(one["Id"] == target["Id"] and one["Arn"] == target["Arn"] for one in targets):
        calls.append(put_target)
    return Step("rule", wanted.relay, Action.CHANGE if calls else Action.NONE, tuple(calls))


def _announcement(account: Account, wanted: Wanted) -> Step:
    now = account.ask("s3", "get_bucket_notification_configuration", Bucket=wanted.bucket)
    # With a topic in between, the bucket announces to that.
    target = account.arn("sqs", wanted.queue) if wanted.via is Via.DIRECT else source_arn(account, wanted, wanted.via)
    then = announcements.with_ours(now, wanted, target)
    if announcements.equal(now, then):
        return Step("announcement", wanted.place, Action.NONE)
    had_ours = not announcements.equal(now, announcements.without_ours(now, wanted))
    action = Action.CHANGE if had_ours else Action.CREATE
    parameters = {"Bucket": wanted.bucket, "NotificationConfiguration": then}
    return Step(
        "announcement", wanted.place, action, (Call("s3", "put_bucket_notification_configuration", parameters),)
    )
