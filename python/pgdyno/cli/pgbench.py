"""`pgdyno pgbench`: the drop-in for pgbench, which the engine is by itself."""

from __future__ import annotations

import click

from pgdyno.engine.executable import engine_path
from pgdyno.process.child import become


@click.command(
    "pgbench",
    short_help="The drop-in for pgbench.",
    context_settings={"ignore_unknown_options": True},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Do what pgbench 18 does, with the same options, output and exit codes.

    ARGUMENTS are pgbench's own; docs/pgbench.md lists each with its state. --percentiles adds lines
    at the end.
    """
    become([engine_path(), "pgbench", *arguments])
