"""`pgdyno bench`: one measured run."""

from __future__ import annotations

from typing import Any

import click

from pgdyno.cli import options
from pgdyno.cli.asked import experiment_of
from pgdyno.cli.measure import measure
from pgdyno.errors import SpecError
from pgdyno.spec.experiment import BenchDesign


@click.command("bench", short_help="One measured run.")
@options.connection
@click.option("-c", "--clients", "--client", type=click.IntRange(1, 100_000), help="Clients.")
@click.option("-T", "--duration", "--time", metavar="TIME", help="Length, such as 60s or 3min.")
@click.option("-t", "--transactions", type=click.IntRange(min=1), help="Of each client, not -T.")
@options.rate
@click.option("-L", "--latency-limit", metavar="TIME", help="What is slower is late, as 50 or 2s.")
@click.option("-P", "--progress", type=click.FloatRange(min=0.1), help="Seconds between lines.")
@options.workload
@options.connections
@options.dataset
@options.scratch
@options.watching
@options.gates
@options.output
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
