"""`pgdyno compare`: is B better than A?"""

from __future__ import annotations

from typing import Any

import click
from pydantic import ValidationError

from pgdyno.cli import options
from pgdyno.cli.asked import experiment_of, refuse
from pgdyno.cli.measure import measure
from pgdyno.spec.designs import METRICS, CompareDesign
from pgdyno.spec.variant_text import variant_from


@click.command("compare", short_help="Is B better than A?")
@options.connection
@click.option(
    "--variant",
    "variants",
    multiple=True,
    required=True,
    metavar="TEXT",
    help='"NAME: KEY=VALUE; ..."; the first is the reference.',
)
@click.option("--metric", type=click.Choice(METRICS), help="Decides: tps, or p99 under a rate.")
@click.option("--precision", metavar="SHARE", help="Until the interval is +- this, such as 3%.")
@click.option("--margin", default="2%", metavar="SHARE", help="A difference that is none.")
@click.option("--budget", default="30min", metavar="TIME", help="At most this long.")
@click.option("-c", "--clients", "--client", type=click.IntRange(1, 100_000), help="Clients.")
@click.option("-T", "--duration", "--time", metavar="TIME", help="Of each run (5s).")
@options.rate
@click.option("-P", "--progress", type=click.FloatRange(min=0.1), help="Seconds between lines.")
@options.workload
@options.connections
@options.dataset
@options.scratch
@options.changing
@options.watching
@options.gates
@options.output
def command(**given: Any) -> int:
    """Compare variants in interleaved pairs of runs until the answer is sure, and say why.

    KEY is a server setting, @FILE (a postgresql.conf), or one of bin, version, data-dir, wal-dir,
    wal-segment, checksums, path, scale, fillfactor, unlogged, partitions, sql, script, clients,
    protocol. Settings that only a restart changes are restarted for, before every run.
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
