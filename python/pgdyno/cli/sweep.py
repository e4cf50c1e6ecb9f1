"""`pgdyno sweep`: the load curve, its peak and its knee."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import click

from pgdyno.cli import load_options, options, wanted
from pgdyno.cli.load_options import LoadVerb
from pgdyno.cli.option_table import table
from pgdyno.cli.program_help import type_targets
from pgdyno.errors import SpecError
from pgdyno.quantities import is_whole

if wanted.body(__name__):
    from pydantic import ValidationError

    from pgdyno.cli.from_options import experiment_of, refuse
    from pgdyno.cli.measure import measure
    from pgdyno.spec.experiment import SweepDesign
    from pgdyno.spec.variant_text import variant_from

# `auto` stops doubling at this number of clients for each core. Throughput falls before it.
_CLIENTS_A_CORE = 32


@click.command("sweep", cls=LoadVerb, short_help="Measure the load curve: peak and knee.")
@options.connection
@table(f"""
    Load
    -c --clients --client --terminals (levels) LEVELS =auto
        Numbers of clients, such as 1,2,4. auto: double the number until throughput falls (default
        auto).
    -T --duration --time TIME =5s *  Duration of each run (default 5s).
    --rounds N:1..100 =3  Number of runs per level (default 3).
    --budget TIME *  Do only as many rounds as fit into this time, such as 10min; at least one.
    --knee-duration TIME =30s  Duration of the detailed run at the knee (default 30s).
    --slo NAME=TIME *
        Find the highest load that keeps this target, such as p99=20ms. A target of one transaction
        type, such as {type_targets()}, finds the highest number of clients.
    --variant (variants) VARIANT ... *  Measure a curve for each variant: "NAME: KEY=VALUE; ...".
""")
@load_options.variants
def command(**given: Any) -> int:
    """Measure the load curve of each script: every level several times, then the knee in detail.

    The knee is the smallest load within 3 % of the peak. You can repeat -b. With --variant (as in
    compare) each variant has a curve and its speed-up against the first variant.
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
            budget=given["budget"],
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
    if not all(is_whole(part) and int(part) > 0 for part in parts):
        raise SpecError(
            f"--clients {text} must be auto, or numbers above 0 separated by commas.",
            hint="--clients 1,2,4,8,16",
        )
    levels = sorted(int(part) for part in parts)
    twice = next((a for a, b in pairwise(levels) if a == b), None)
    if twice is not None:
        raise SpecError(
            f"--clients {text} names {twice} twice; every level is measured --rounds times.",
            hint=f"--clients {','.join(map(str, sorted(set(levels))))}, and --rounds for more runs",
        )
    return tuple(levels)
