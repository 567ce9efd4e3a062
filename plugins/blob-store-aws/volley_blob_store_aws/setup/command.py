"""The command `volley setup aws`. Imports the SDK only once it talks to AWS."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volley_blob_store_aws.setup.wanted import VISIBILITY_SECONDS, Via, Wanted
from volley_connectors.cli.output import Json, Verbose, console, print_json
from volley_core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from volley_blob_store_aws.setup.steps import Step

Option = typer.Option


def aws(
    bucket: Annotated[str, Option(help="The bucket whose new objects are announced.")],
    queue: Annotated[str, Option(help="The SQS queue's name; made if it is not there.")],
    prefix: Annotated[str, Option(help="Only objects whose key begins so: in/.")] = "",
    suffix: Annotated[str, Option(help="Only objects whose key ends so: .json.")] = "",
    via: Annotated[Via, Option(help="How events go from S3 to the queue.")] = Via.DIRECT,
    dead_letter_queue: Annotated[
        str, Option(metavar="NAME", help="Where messages go that nobody could read. Default: QUEUE-dlq.")
    ] = "",
    max_receive_count: Annotated[int, Option(min=1, max=1000, help="After how many receives they go there.")] = 5,
    visibility_seconds: Annotated[
        int, Option(min=1, max=43200, help="How long the queue hides a message that was taken.")
    ] = VISIBILITY_SECONDS,
    principal: Annotated[
        str | None, Option(metavar="ARN", help="The role or user that reads: the queue lets it in.")
    ] = None,
    state_location: Annotated[
        str | None, Option(help="The source's state_location, for its IAM policy and the YAML.")
    ] = None,
    profile: Annotated[str | None, Option(help="A profile of the AWS configuration files.")] = None,
    region: Annotated[str | None, Option(help="The region. Default: the bucket's, where the queue must be.")] = None,
    role_arn: Annotated[str | None, Option(metavar="ARN", help="A role to assume for the setup itself.")] = None,
    external_id: Annotated[str | None, Option(help="The external id that the role asks for.")] = None,
    endpoint_url: Annotated[str | None, Option(help="Where the services are, if not at AWS.")] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Change nothing: print the calls, and the IAM policy that the reader needs.")
    ] = False,
    teardown: Annotated[bool, Option("--teardown", help="Remove what was made by this command.")] = False,
    force: Annotated[bool, Option("--force", help="Remove queues that still hold messages too.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask before removing.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Let an S3 bucket announce its objects to an SQS queue: makes queue, dead-letter queue, policies, notification.

    Run it as often as you like: what is there already stays, and so does what others configured.
    """
    from volley_blob_store_aws.credentials import AwsConfig
    from volley_blob_store_aws.setup import outcome
    from volley_blob_store_aws.setup.account import Account
    from volley_blob_store_aws.setup.steps import plan
    from volley_blob_store_aws.setup.teardown import plan_teardown

    limits = (max_receive_count, visibility_seconds)
    wanted = Wanted(bucket, queue, prefix, suffix, dead_letter_queue, *limits, via, principal, state_location)
    # A stand-in for AWS has no host name for each bucket.
    where: dict[str, Any] = {"endpoint_url": endpoint_url, "path_style": True} if endpoint_url else {}
    config = AwsConfig(profile=profile, region=region, role_arn=role_arn, external_id=external_id, **where)
    screen = console(stderr=as_json)
    with closing(Account(config, bucket)) as account:
        steps = plan_teardown(account, wanted, force) if teardown else plan(account, wanted)
        outcome.print_heading(screen, account, wanted)
        if teardown and not dry_run and not yes:
            _confirm(screen, steps, as_json)
        for step in steps:
            for call in () if dry_run else step.calls:
                account.make(call)
            outcome.print_step(screen, step, would=dry_run)
        source = None if teardown else outcome.source_block(account, wanted, where)
        if as_json:
            print_json(outcome.facts(account, wanted, steps, source))
            return
        if dry_run:
            outcome.print_calls(screen, account, steps)
        if source is not None:
            if dry_run:
                outcome.print_policy(screen, outcome.reader_policy(account, wanted), wanted)
            outcome.print_source(screen, source)
            if not dry_run:
                screen.print("\nThe IAM policy that the reader needs: the same command with --dry-run", style="dim")


def _confirm(screen: Console, steps: list[Step], as_json: bool) -> None:
    from volley_blob_store_aws.setup.outcome import print_step

    if not any(step.calls for step in steps):
        return
    if as_json:
        raise ConfigError("--teardown --json cannot ask whether you are sure: add --yes, or --dry-run to look first.")
    for step in steps:
        print_step(screen, step, would=True)
    typer.confirm("\nRemove these?", abort=True)
    screen.print()
