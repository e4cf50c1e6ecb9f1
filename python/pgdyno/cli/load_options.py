"""Options of the load: what the clients do, how they connect, what is done before each run."""

from __future__ import annotations

import click

from pgdyno.cli.headings import BEFORE, LOAD, under
from pgdyno.cli.options import Command, allow_write, apply, confirm


def connections(command: Command) -> Command:
    """Add how the load connects."""
    option = under(LOAD)
    return apply(
        command,
        option(
            "--idle",
            type=click.IntRange(0, 1_000_000),
            help="Idle connections beside the clients'.",
        ),
        option(
            "--active",
            type=click.IntRange(min=1),
            help="So many connections, which the clients share.",
        ),
        option(
            "--connect-rate",
            type=float,
            metavar="N",
            help="At most so many new connections a second.",
        ),
        option("-C", "--connect", is_flag=True, help="A new connection for each transaction."),
    )


def workload(command: Command) -> Command:
    """Add what the clients do, but not how many they are."""
    option, before = under(LOAD), under(BEFORE)
    return apply(
        command,
        option(
            "-b",
            "--builtin",
            multiple=True,
            metavar="NAME[@W]",
            help="Built-in script, and its weight: tpcb-like, simple-update, select-only.",
        ),
        option(
            "-f", "--file", multiple=True, metavar="FILE[@W]", help="Script file, and its weight."
        ),
        option("-S", "--select-only", is_flag=True, help="As -b select-only."),
        option("-N", "--skip-some-updates", is_flag=True, help="As -b simple-update."),
        option(
            "-M",
            "--protocol",
            type=click.Choice(["simple", "extended", "prepared"]),
            default="simple",
            help="Query protocol (simple).",
        ),
        option("-j", "--threads", "--jobs", type=click.IntRange(1, 1024), help="Threads."),
        option("-D", "--define", multiple=True, metavar="VAR=VALUE", help="Script variable."),
        before(
            "--warmup",
            default="auto",
            metavar="TIME",
            help="Load before measuring: a time, or auto (default).",
        ),
        before(
            "--reset",
            type=click.Choice(["none", "vacuum", "restore"]),
            default="vacuum",
            help="What is done to the data: vacuum (default), or restore: copied anew.",
        ),
        before(
            "--cache",
            type=click.Choice(["warm", "prewarm", "cold"]),
            default="warm",
            help="After the reset; cold: a scratch server starts with nothing in memory.",
        ),
        option("--seed", type=click.IntRange(min=0), default=1, help="Of all randomness (1)."),
        option("--allow-shell", is_flag=True, help="The scripts may run \\shell commands."),
        allow_write,
        confirm,
    )


def rate(command: Command) -> Command:
    """Add the rate of an open loop."""
    return apply(
        command,
        under(LOAD)(
            "-R",
            "--rate",
            metavar="RATE",
            help="Offer so many a second (open loop), or phases: 500:30s,500-4000:60s,200.",
        ),
    )
