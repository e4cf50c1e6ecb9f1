"""`pgdyno pgbench`: the drop-in for pgbench, which is part of the engine."""

from __future__ import annotations

import click

from pgdyno.engine.executable import engine_path
from pgdyno.process.child import become


@click.command(
    "pgbench",
    short_help="Do what pgbench does (drop-in).",
    context_settings={"ignore_unknown_options": True},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Do what pgbench 18 does, with the same options, output and exit codes.

    ARGUMENTS are those of pgbench; docs/pgbench.md lists all of them. --percentiles prints latency
    percentiles at the end.
    """
    become([engine_path(), "pgbench", *arguments])
