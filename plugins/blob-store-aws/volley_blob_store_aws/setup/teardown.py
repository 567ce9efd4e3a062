"""The steps that remove what setup made, and nothing else: what carries its tag, its statements, its announcement."""

from __future__ import annotations

from volley_blob_store_aws.setup import announcements, policies
from volley_blob_store_aws.setup.account import Account, Call
from volley_blob_store_aws.setup.steps import OWN_TAG, Action, Queue, Step, find_queue
from volley_blob_store_aws.setup.wanted import Via, Wanted
from volley_core import ConfigError

_DEPTHS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


def plan_teardown(account: Account, wanted: Wanted, force: bool) -> list[Step]:
    """The steps, announcements first, so that nothing is sent to what is gone."""
    queue = find_queue(account, wanted.queue)
    dead = queue.redrive_target if queue and queue.redrive_target else wanted.dead_letters
    dead_letters = find_queue(account, dead)
    ways = policies.ways(queue.policy, wanted) if queue else {wanted.via}
    relays = {Via.SNS: _topic, Via.EVENTBRIDGE: _rule}
    return [
        _announcement(account, wanted),
        *(relay(account, wanted) for via, relay in relays.items() if via in ways),
        _queue(wanted, queue, force, redrives_to_ours=dead_letters is not None and dead_letters.is_ours),
        _dead_letters(account, wanted, queue, dead, dead_letters, force),
    ]


def _announcement(account: Account, wanted: Wanted) -> Step:
    now = account.find("s3", "get_bucket_notification_configuration", Bucket=wanted.bucket) or {}
    then = announcements.without_ours(now, wanted)
    if announcements.equal(now, then):
        return Step("announcement", wanted.place, Action.ABSENT)
    parameters = {"Bucket": wanted.bucket, "NotificationConfiguration": then}
    call = Call("s3", "put_bucket_notification_configuration", parameters)
    return Step("announcement", wanted.place, Action.REMOVE, (call,))


def _topic(account: Account, wanted: Wanted) -> Step:
    arn = account.arn("sns", wanted.relay)
    if account.find("sns", "get_topic_attributes", TopicArn=arn) is None:
        return Step("topic", wanted.relay, Action.ABSENT)
    # Its subscriptions go with it.
    return Step("topic", wanted.relay, Action.REMOVE, (Call("sns", "delete_topic", {"TopicArn": arn}),))


def _rule(account: Account, wanted: Wanted) -> Step:
    if account.find("events", "describe_rule", Name=wanted.relay) is None:
        return Step("rule", wanted.relay, Action.ABSENT)
    targets = account.ask("events", "list_targets_by_rule", Rule=wanted.relay)["Targets"]
    calls = [Call("events", "delete_rule", {"Name": wanted.relay})]
    if targets:
        ids = [target["Id"] for target in targets]
        calls.insert(0, Call("events", "remove_targets", {"Rule": wanted.relay, "Ids": ids}))
    note = "the bucket goes on telling EventBridge, where others may listen; that costs nothing"
    return Step("rule", wanted.relay, Action.REMOVE, tuple(calls), note)


def _queue(wanted: Wanted, queue: Queue | None, force: bool, redrives_to_ours: bool) -> Step:
    if queue is None:
        return Step("queue", wanted.queue, Action.ABSENT)
    if queue.is_ours and not policies.has_others(queue.policy, wanted):
        return _delete(wanted.queue, queue, "queue", force)
    note = "others send to it" if queue.is_ours else f"it was not made here: it has no tag {OWN_TAG!r}"
    changes = {}
    policy = policies.merged(queue.policy, wanted, [])
    if not policies.equal(queue.policy, policy):
        changes["Policy"] = policy
    if not queue.is_ours and queue.redrive_target and redrives_to_ours:
        changes["RedrivePolicy"] = ""
    if changes:
        note += f"; without the {' and '.join(changes)} that was added"
    calls = (Call("sqs", "set_queue_attributes", {"QueueUrl": queue.url, "Attributes": changes}),) if changes else ()
    return Step("queue", wanted.queue, Action.KEEP, calls, note)


def _dead_letters(
    account: Account, wanted: Wanted, source: Queue | None, name: str, queue: Queue | None, force: bool
) -> Step:
    thing = "dead-letter queue"
    if queue is None:
        return Step(thing, name, Action.ABSENT)
    if not queue.is_ours:
        return Step(thing, name, Action.KEEP, note=f"it was not made here: it has no tag {OWN_TAG!r}")
    stays = source is not None and source.is_ours and policies.has_others(source.policy, wanted)
    urls = account.ask("sqs", "list_dead_letter_source_queues", QueueUrl=queue.url).get("queueUrls", [])
    users = [url.rpartition("/")[2] for url in urls]
    others = [user for user in users if user != wanted.queue or stays]
    if others:
        return Step(thing, name, Action.KEEP, note=f"it serves {', '.join(others)}")
    return _delete(name, queue, thing, force)


def _delete(name: str, queue: Queue, thing: str, force: bool) -> Step:
    held = sum(int(queue.attributes.get(depth, 0)) for depth in _DEPTHS)
    if held and not force:
        raise ConfigError(
            f"The {thing} {name!r} still holds about {held} message{'s' * (held != 1)}, which would be lost. Let the "
            "source read them, or look at them, and run this again; or give --force. Nothing was removed."
        )
    note = f"with {held} messages" if held else ""
    return Step(thing, name, Action.REMOVE, (Call("sqs", "delete_queue", {"QueueUrl": queue.url}),), note)
