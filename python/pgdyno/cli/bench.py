"""`pgdyno bench`: one measured run."""

from __future__ import annotations

from typing import Any

import click

from pgdyno.cli import load_options, options
from pgdyno.cli.from_options import experiment_of
from pgdyno.cli.headings import LOAD, Verb, under
from pgdyno.cli.measure import measure
from pgdyno.errors import SpecError
from pgdyno.spec.experiment import BenchDesign

_option = under(LOAD)


@click.command("bench", cls=Verb, short_help="One measured run.")
@options.connection
@_option("-c", "--clients", "--client", type=click.IntRange(1, 100_000), help="Clients (1).")
@_option("-T", "--duration", "--time", metavar="TIME", help="Length, such as 3min (60s).")
@_option("-t", "--transactions", type=click.IntRange(min=1), help="Of each client, instead of -T.")
@load_options.rate
@_option(
    "-L",
    "--latency-limit",
    metavar="TIME",
    help="Transactions slower than this are counted as late: 50 (ms), 2s.",
)
@load_options.workload
@load_options.connections
@options.dataset
@options.scratch
@options.watching
@options.gates
@options.progress
@options.results
def command(**given: Any) -> int:
    """Measure one run: throughput, latency percentiles, where the time goes.

    Without a server it makes one of its own, loads the pgbench tables, and removes it afterwards.
    """
    if given["duration"] and given["transactions"]:
        raise SpecError(
            f"-T {given['duration']} and -t {given['transactions']} both say when to end.",
            hint="give one of the two",
        )
    return measure("bench", experiment_of("bench", given, BenchDesign()), given)
