"""What `volley setup aws` prints: the steps as they are done, and at the end what to paste."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from volley_blob_store_aws.setup import policies
from volley_blob_store_aws.setup.account import Account, Call
from volley_blob_store_aws.setup.steps import Action, Step
from volley_blob_store_aws.setup.wanted import VISIBILITY_SECONDS, Wanted

if TYPE_CHECKING:
    from rich.console import Console

_DONE = {
    Action.CREATE: ("created", "green"),
    Action.CHANGE: ("changed", "yellow"),
    Action.NONE: ("unchanged", "dim"),
    Action.REMOVE: ("removed", "green"),
    Action.KEEP: ("kept", "yellow"),
    Action.ABSENT: ("not there", "dim"),
}
_COMMAND_LINE_NAMES = {"s3": "s3api"}
_FINE = (Action.NONE, Action.KEEP, Action.ABSENT)


def print_heading(screen: Console, account: Account, wanted: Wanted) -> None:
    where = f"account {account.number}, {account.region}"
    screen.print(f"{wanted.place} -> queue {wanted.queue} ({where})\n", markup=False, soft_wrap=True)


def print_step(screen: Console, step: Step, *, would: bool = False) -> None:
    from rich.text import Text

    word, style = _DONE[step.action]
    if would and step.action not in _FINE:
        word = f"would {step.action}"
    note = f"  {step.note}" if step.note else ""
    line = Text.assemble(f"  {step.thing:<18}", (f"{word:<13}", style), step.name, (note, "dim"))
    screen.print(line, soft_wrap=True)


def print_calls(screen: Console, account: Account, steps: Iterable[Step]) -> None:
    """Every change as a command that does the same."""
    calls = [call for step in steps for call in step.calls]
    screen.print("\nNothing was changed. ", end="")
    screen.print("The calls would be:\n" if calls else "There is nothing to change.\n")
    for call in calls:
        screen.print(command_line(call, account.region), markup=False, soft_wrap=True)


def command_line(call: Call, region: str) -> str:
    """The same with Amazon's own command line, for those who may do it where we may not."""
    service = _COMMAND_LINE_NAMES.get(call.service, call.service)
    text = shlex.quote(json.dumps(call.parameters))
    return f"aws --region {region} {service} {call.operation.replace('_', '-')} --cli-input-json {text}"


def print_policy(screen: Console, policy: dict[str, Any], wanted: Wanted) -> None:
    who = wanted.principal or "whoever runs the source"
    screen.print(f"\nThe IAM policy that {who} needs:\n", markup=False, soft_wrap=True)
    screen.print(json.dumps(policy, indent=2), markup=False, soft_wrap=True)
    if wanted.principal is not None and ":role/" in wanted.principal:
        role = wanted.principal.rpartition("/")[2]
        line = ["aws", "iam", "put-role-policy", "--role-name", role, "--policy-name", wanted.notification_id]
        screen.print(f"\n{shlex.join(line)} --policy-document file://policy.json", markup=False, soft_wrap=True)


def print_source(screen: Console, source: dict[str, Any]) -> None:
    import yaml

    text = yaml.safe_dump({"source": source}, sort_keys=False, allow_unicode=True, width=10_000)
    screen.print("\nIn your pipeline, with your own format and schema:\n", markup=False)
    screen.print(text.rstrip(), markup=False, soft_wrap=True)


def source_block(account: Account, wanted: Wanted, where: dict[str, Any]) -> dict[str, Any]:
    """The pipeline's source. Who set it up is not who reads, so that only where the services are is handed on."""
    source: dict[str, Any] = {"connector": "s3", "bucket": wanted.bucket}
    if wanted.prefix:
        source["prefix"] = wanted.prefix
    if wanted.suffix:
        source["regex"] = f"{re.escape(wanted.suffix)}$"
    found = account.find("sqs", "get_queue_url", QueueName=wanted.queue)
    source["queue_url"] = found["QueueUrl"] if found else account.queue_url(wanted.queue)
    source |= {"region": account.region, **where}
    if wanted.visibility_seconds != VISIBILITY_SECONDS:
        source["visibility_seconds"] = wanted.visibility_seconds
    source |= {"format": "json", "schema": "id bigint, name string"}
    if wanted.state_location is not None:
        source["state_location"] = wanted.state_location
    return source


def reader_policy(account: Account, wanted: Wanted) -> dict[str, Any]:
    return policies.reader(wanted, account.arn("sqs", wanted.queue), account.partition, account.is_versioned)


def facts(account: Account, wanted: Wanted, steps: list[Step], source: dict[str, Any] | None) -> dict[str, Any]:
    """Everything at once, for machines. `source`: None after a teardown."""
    done = [
        {
            "thing": step.thing,
            "name": step.name,
            "action": step.action,
            "note": step.note,
            "calls": [{"call": account.name(call), "parameters": call.parameters} for call in step.calls],
        }
        for step in steps
    ]
    if source is None:
        return {"steps": done}
    return {"steps": done, "source": source, "reader_policy": reader_policy(account, wanted)}
