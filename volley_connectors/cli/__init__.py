"""The command line `volley`. Modules here import what is heavy inside the command that needs it."""

from __future__ import annotations


def main() -> None:
    from volley_connectors.cli.app import app

    app()
