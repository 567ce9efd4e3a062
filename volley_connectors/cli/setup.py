"""`volley setup NAME`: makes in a cloud what a connector needs there. What NAME does, its plugin says.

A plugin registers a function under `volley.setups`; its parameters are the command's options. The list is read from
package metadata, and a plugin is imported only when its own command runs.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from volley_connectors.cli.quick import QuickGroup
from volley_connectors.known import KNOWN, find_known
from volley_connectors.registry import find, installed

KIND = "setups"


class SetupGroup(QuickGroup):
    """One command for each setup that is installed, or could be."""

    def list_commands(self, ctx: Any) -> list[str]:
        here = {row.name for row in installed(KIND)}
        return sorted(here | {known.name for known in KNOWN if known.kind == KIND and known.released})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What the list shows of a command. The one to run is made below."""
        known = find_known(KIND, cmd_name)
        here = any(row.name == cmd_name for row in installed(KIND))
        summary = known.summary if known else ""
        if known is not None and not here:
            summary += f"; not installed: {known.install}"
        # The help takes square brackets for markup.
        return TyperCommand(cmd_name, help=summary.replace("[", r"\["))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        row = find(KIND, args[0])
        app = typer.Typer(add_completion=False)
        app.command(row.name)(row.load())
        return row.name, typer.main.get_command(app), args[1:]


setup = typer.Typer(cls=SetupGroup, no_args_is_help=True, help="Make in a cloud what a connector needs there.")


@setup.callback()
def _setup() -> None:
    """Make in a cloud what a connector needs there: queues, permissions, notifications."""
