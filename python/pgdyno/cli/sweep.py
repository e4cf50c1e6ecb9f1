"""`pgdyno sweep`: the load curve, its peak and its knee."""

from __future__ import annotations

import os
from typing import Any

import click
from pydantic import ValidationError

from pgdyno.cli import load_options, options
from pgdyno.cli.from_options import experiment_of, refuse
from pgdyno.cli.headings import LOAD, Verb, under
from pgdyno.cli.measure import measure
from pgdyno.errors import SpecError
from pgdyno.spec.experiment import SweepDesign
from pgdyno.spec.variant_text import variant_from

# Where `auto` stops doubling: far enough past the cores to see throughput fall.
_CLIENTS_A_CORE = 32

_option = under(LOAD)


@click.command("sweep", cls=Verb, short_help="The load curve: peak and knee.")
@options.connection
@_option(
    "-c",
    "--clients",
    "--client",
    "levels",
    default="auto",
    metavar="LEVELS",
    help="Such as 1,2,4; auto (default) doubles until throughput falls.",
)
@_option("-T", "--duration", "--time", default="5s", metavar="TIME", help="Of each run (5s).")
@_option("--rounds", type=click.IntRange(1, 100), default=3, help="Visits of each level (3).")
@_option(
    "--knee-duration", default="30s", metavar="TIME", help="Length of the run at the knee (30s)."
)
@_option("--slo", metavar="NAME=TIME", help="Find the load held under it, such as p99=20ms.")
@_option(
    "--variant",
    "variants",
    multiple=True,
    metavar="TEXT",
    help='A curve of its own for each: "NAME: KEY=VALUE; ...".',
)
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
