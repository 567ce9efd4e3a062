"""What a bucket announces, to whom: its notification configuration and EventBridge's pattern. Nothing talks to AWS.

A bucket has one configuration, which is only ever replaced as a whole. Ours is one entry among those of others.
"""

from __future__ import annotations

import json
from typing import Any

from volley_blob_store_aws.setup.wanted import Via, Wanted
from volley_core import ConfigError

Configuration = dict[str, Any]

EVENT = "s3:ObjectCreated:*"
_TARGETS = {
    "QueueConfigurations": "QueueArn",
    "TopicConfigurations": "TopicArn",
    "LambdaFunctionConfigurations": "LambdaFunctionArn",
}
_LISTS = {Via.DIRECT: "QueueConfigurations", Via.SNS: "TopicConfigurations"}


def with_ours(current: Configuration, wanted: Wanted, target_arn: str) -> Configuration:
    """The bucket's configuration with our entry as wanted. Raises ConfigError if S3 would refuse it."""
    if wanted.via is Via.EVENTBRIDGE:
        return {**without_ours(current, wanted), "EventBridgeConfiguration": {}}
    others = without_ours(current, wanted)
    _refuse_overlap(others, wanted)
    rules = [{"Name": name, "Value": value} for name, value in _wanted_rules(wanted).items()]
    entry: dict[str, Any] = {"Id": wanted.notification_id, _TARGETS[_LISTS[wanted.via]]: target_arn, "Events": [EVENT]}
    if rules:
        entry["Filter"] = {"Key": {"FilterRules": rules}}
    name = _LISTS[wanted.via]
    return {**others, name: [*others.get(name, []), entry]}


def without_ours(current: Configuration, wanted: Wanted) -> Configuration:
    """The bucket's configuration as it was before us."""
    found = {name: value for name, value in current.items() if name != "ResponseMetadata"}
    for name in _TARGETS:
        entries = [entry for entry in found.pop(name, []) if entry.get("Id") != wanted.notification_id]
        if entries:
            found[name] = entries
    return found


def equal(one: Configuration, other: Configuration) -> bool:
    """Whether two configurations announce the same, however they are written."""
    return bool(_plain(one) == _plain(other))


def pattern(wanted: Wanted) -> str:
    """The events that EventBridge's rule picks."""
    detail: dict[str, Any] = {"bucket": {"name": [wanted.bucket]}}
    if wanted.prefix and wanted.suffix:
        # Two conditions in one list would be alternatives.
        escaped = [part.replace("\\", "\\\\").replace("*", "\\*") for part in (wanted.prefix, wanted.suffix)]
        detail["object"] = {"key": [{"wildcard": "*".join(escaped)}]}
    elif rules := _wanted_rules(wanted):
        detail["object"] = {"key": [rules]}
    return json.dumps({"source": ["aws.s3"], "detail-type": ["Object Created"], "detail": detail})


def _wanted_rules(wanted: Wanted) -> dict[str, str]:
    return {name: value for name, value in (("prefix", wanted.prefix), ("suffix", wanted.suffix)) if value}


def _refuse_overlap(others: Configuration, wanted: Wanted) -> None:
    for name, target in _TARGETS.items():
        for entry in others.get(name, []):
            rules = _rules(entry)
            if any(event.startswith(EVENT.rstrip("*")) for event in entry["Events"]) and _overlap(rules, wanted):
                which = "".join(f", {key} {value!r}" for key, value in rules.items()) or ", the whole bucket"
                raise ConfigError(
                    f"{wanted.place} is announced already: configuration {entry.get('Id')!r} of bucket "
                    f"{wanted.bucket!r} sends {', '.join(entry['Events'])}{which} to {entry[target]}, and S3 takes one "
                    "announcement of an object only. Use --via eventbridge, which goes beside it; or give a --prefix "
                    "or --suffix that the other does not share; or remove it."
                )


def _overlap(rules: dict[str, str], wanted: Wanted) -> bool:
    prefix, suffix = rules.get("prefix", ""), rules.get("suffix", "")
    meets = prefix.startswith(wanted.prefix) or wanted.prefix.startswith(prefix)
    return meets and (suffix.endswith(wanted.suffix) or wanted.suffix.endswith(suffix))


def _rules(entry: dict[str, Any]) -> dict[str, str]:
    # S3 gives the names back in whatever case it likes.
    found = entry.get("Filter", {}).get("Key", {}).get("FilterRules", [])
    return {rule["Name"].lower(): rule["Value"] for rule in found if rule["Value"]}


def _plain(configuration: Configuration) -> Any:
    entries = sorted(
        (name, entry.get("Id", ""), entry[target], sorted(entry["Events"]), sorted(_rules(entry).items()))
        for name, target in _TARGETS.items()
        for entry in configuration.get(name, [])
    )
    return entries, "EventBridgeConfiguration" in configuration
