"""`pgdyno sweep`: the load curve, its peak and its knee."""

from __future__ import annotations

import os
from typing import Any

import click
from pydantic import ValidationError

from pgdyno.cli import options
from pgdyno.cli.asked import experiment_of, refuse
from pgdyno.cli.measure import measure
from pgdyno.errors import SpecError
from pgdyno.spec.experiment import SweepDesign
from pgdyno.spec.variant_text import variant_from

# Where `auto` stops doubling: far enough past the cores to see throughput fall.
_CLIENTS_A_CORE = 32


@click.command("sweep", short_help="The load curve: peak and knee.")
@options.connection
@click.option(
    "-c", "--clients", "--client", "levels", default="auto", metavar="LEVELS", help="1,2,4 or auto."
)
@click.option("-T", "--duration", "--time", default="5s", metavar="TIME", help="Of each run.")
@click.option("--rounds", type=click.IntRange(1, 100), default=3, help="Visits of each level.")
@click.option("--knee-duration", default="30s", metavar="TIME", help="Of the run at the knee.")
@click.option("--slo", metavar="NAME=TIME", help="Find the load held under it, as p99=20ms.")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="TEXT",
    help='"NAME: KEY=VALUE; ...": a curve each.',
)
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
    """Measure the load curve of each script: every level several times, then the knee in detail.

    The knee (N_BASE) is the smallest load within 3 % of the peak. -b may be given several times.
    With --variant (as in compare) each variant has a curve, and its speed-up against the first.
    """
    asked = dict(given, clients=None, rate=None, transactions=None, duration="60s")
    variants = tuple(variant_from(text) for text in given["variants"])
    return measure("sweep", experiment_of("sweep", asked, _design(given), variants), given)


def _design(given: dict[str, Any]) -> SweepDesign:
    cores = os.cpu_count() or 1
    try:
        return SweepDesign(
            levels=_levels(given["levels"]),
            rounds=given["rounds"],
            run=given["duration"],
            knee=given["knee_duration"],
            clients_max=_CLIENTS_A_CORE * cores,
            slo=given["slo"],
        )
    except ValidationError as error:
        refuse(error)


def _levels(text: str) -> tuple[int, ...] | str:
    if text == "auto":
        return text
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise SpecError(
            f"--clients {text}: auto, or numbers above 0 with commas between them are needed.",
            hint="--clients 1,2,4,8,16",
        )
    return tuple(sorted({int(part) for part in parts}))
