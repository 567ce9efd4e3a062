"""Commands that leave alone the options that were not given.

To turn an option that was not given into None, typer imports pydantic, which takes longer than all that
`volley connectors` does.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class QuickGroup(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-"):
            self.params, self.add_help_option = [], False
        return super().parse_args(ctx, args)


class QuickCommand(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        flags = [param for param in self.params if getattr(param, "is_flag", False)]
        if set(args) <= {spelling for flag in flags for spelling in flag.opts}:
            self.params, self.add_help_option = list(flags), False
        return super().parse_args(ctx, args)
