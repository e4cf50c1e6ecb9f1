"""`pgdyno bench`: one measured run."""

from __future__ import annotations

from typing import Any

import click

from pgdyno.cli import load_options, options, output, wanted
from pgdyno.cli.load_options import LoadVerb
from pgdyno.cli.option_table import table
from pgdyno.errors import SpecError

if wanted.body(__name__):
    from pgdyno.cli.from_options import experiment_of
    from pgdyno.cli.measure import measure
    from pgdyno.spec.experiment import BenchDesign


@click.command("bench", cls=LoadVerb, short_help="Measure one run.")
@options.connection
@load_options.clients
@table("""
    Load
    -T --duration --time TIME *  Duration of the run (default 60s).
    -t --transactions N:1..  Number of transactions of each client, instead of -T.
    --quick  First look: one run of 10 s with 1 s of warm-up, without resetting the data.
""")
@load_options.rate
@table("""
    Load
    -L --latency-limit TIME
        Latency above which a transaction counts as late: a number in ms, or a time such as 2s.
""")
@load_options.one_server
def command(**given: Any) -> int:
    """Measure one run: throughput, latency percentiles, where the time goes.

    If you name no server, bench creates a scratch server, loads the pgbench tables, and removes the
    server afterwards.
    """
    if given["duration"] and given["transactions"]:
        raise SpecError(
            f"-T {given['duration']} and -t {given['transactions']} both set the end of the run.",
            hint="use one of the two",
        )
    if given["quick"]:
        given = _quick(given)
    return measure("bench", experiment_of("bench", given, BenchDesign()), given)


def _quick(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a first look; what the user gave stays."""
    usual = {"warmup": "auto", "reset": "vacuum"}
    quick = {"warmup": "1s", "reset": "none"}
    changed = {name: quick[name] for name, value in usual.items() if given[name] == value}
    if not given["duration"] and not given["transactions"] and not given["rate"]:
        changed["duration"] = "10s"
    output.note("quick       a first look: one short run, and the data are not reset before it")
    return {**given, **changed}
