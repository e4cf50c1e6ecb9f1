"""`pgdyno compare`: is B better than A?"""

from __future__ import annotations

from typing import Any

import click
from pydantic import ValidationError

from pgdyno.cli import load_options, options
from pgdyno.cli.from_options import experiment_of, refuse
from pgdyno.cli.headings import COMPARED, LOAD, Verb, under
from pgdyno.cli.measure import measure
from pgdyno.spec.designs import METRICS, CompareDesign
from pgdyno.spec.variant_text import variant_from

_compared, _option = under(COMPARED), under(LOAD)


@click.command("compare", cls=Verb, short_help="Is B better than A?")
@options.connection
@_compared(
    "--variant",
    "variants",
    multiple=True,
    required=True,
    metavar="TEXT",
    help='"NAME: KEY=VALUE; ..."; the first is the reference.',
)
@_compared(
    "--metric", type=click.Choice(METRICS), help="Decides (tps, or p99 where a rate is offered)."
)
@_compared("--precision", metavar="SHARE", help="Until the interval is +- this, such as 3%.")
@_compared("--margin", default="2%", metavar="SHARE", help="A difference so small is none (2%).")
@_compared("--budget", default="30min", metavar="TIME", help="At most this long (30min).")
@_option("-c", "--clients", "--client", type=click.IntRange(1, 100_000), help="Clients (1).")
@_option("-T", "--duration", "--time", metavar="TIME", help="Of each run (5s).")
@load_options.rate
@load_options.workload
@load_options.connections
@options.dataset
@options.scratch
@options.changing
@options.watching
@options.gates
@options.progress
@options.results
def command(**given: Any) -> int:
    """Compare variants in interleaved pairs of runs until the answer is sure, and say why.

    KEY is a server setting, @FILE (a postgresql.conf), or one of bin, version, data-dir, wal-dir,
    wal-segment, checksums, path, scale, fillfactor, unlogged, partitions, sql, script, clients,
    idle, active, protocol, pooler, dsn, admin. Settings that only a restart changes are restarted
    for, before every run. price=312 EUR/month has the cost of 1,000 tps shown.
    """
    variants = tuple(variant_from(text) for text in given["variants"])
    asked = experiment_of("compare", given, _design(given), variants)
    return measure("compare", asked, given)


def _design(given: dict[str, Any]) -> CompareDesign:
    try:
        return CompareDesign(
            metric=given["metric"],
            precision=given["precision"],
            margin=given["margin"],
            budget=given["budget"],
        )
    except ValidationError as error:
        refuse(error)
