"""`pgdyno compare`: is B better than A?"""

from __future__ import annotations

from typing import Any

import click

from pgdyno.cli import load_options, options, wanted
from pgdyno.cli.headings import COMPARED
from pgdyno.cli.load_options import LoadVerb
from pgdyno.cli.option_table import table
from pgdyno.cli.program_help import own_defaults
from pgdyno.cli.unused_options import refuse_without_effect
from pgdyno.errors import SpecError
from pgdyno.programs.registry import metric_names

if wanted.body(__name__):
    from pydantic import ValidationError

    from pgdyno.cli.from_options import experiment_of, refuse
    from pgdyno.cli.measure import measure
    from pgdyno.spec.designs import CompareDesign
    from pgdyno.spec.variant import Variant
    from pgdyno.spec.variant_text import variant_from


@click.command("compare", cls=LoadVerb, short_help="Compare variants: is B better than A?")
@options.connection
@table(
    f"""
    Comparison
    --variant (variants) VARIANT ... *
        Variant as "NAME: KEY=VALUE; ...". The first variant is the reference.
    --aa  Allow equal variants (A/A test: shows the noise).
    --metric {"|".join(metric_names())} *
        Metric that decides (default tps; {own_defaults()}; p99 with --rate).
    --precision SHARE *  Stop when the interval is at most +- this share, such as 3%.
    --margin SHARE =2%  Differences smaller than this count as "no difference" (default 2%).
    --budget TIME *  Time from the command to the answer, with creating and loading (default 30min).
    --rounds N:3..1000  Number of rounds, without an early end and without a budget.
    """,
    variants={"required": True},
)
@options.price_of_loss(COMPARED)
@load_options.clients
@table("""
    Load
    -T --duration --time TIME *  Duration of each run (default 5s).
""")
@load_options.rate
@load_options.variants
def command(**given: Any) -> int:
    """Compare variants in interleaved pairs of runs until the answer is certain, and explain it.

    The number of rounds is planned before the first of them. The comparison ends early if the
    difference is clear, and after the last round it always has an interval. If the interval does
    not decide, the exit code is 5.

    KEY is a server setting, @FILE (a postgresql.conf), or one of bin, version, data-dir, wal-dir,
    wal-segment, checksums, path, scale, fillfactor, unlogged, partitions, sql, script, clients,
    idle, active, protocol, pooler, standby, dsn, admin, price. If a setting needs a restart, the
    server is restarted before every run. With price=312 EUR/month the result has the cost of 1,000
    tps.
    """
    variants = tuple(variant_from(text) for text in given["variants"])
    if given["rounds"] is not None:
        because = "--rounds gives the number of rounds"
        refuse_without_effect(given, ["budget", "precision"], because, "use one of the two")
    if not given["aa"]:
        _refuse_the_same(variants)
    elif all(variant.changes() != variants[0].changes() for variant in variants[1:]):
        raise SpecError(
            "--aa has no effect here: no variant is the same as the reference.",
            hint="leave --aa out, or give equal variants",
        )
    asked = experiment_of("compare", given, _design(given), variants)
    return measure("compare", asked, given)


def _refuse_the_same(variants: tuple[Variant, ...]) -> None:
    """Raise SpecError if a variant has the same settings as the reference."""
    for variant in variants[1:]:
        if variant.changes() == variants[0].changes():
            both = "both change nothing" if not variant.changes() else "both change the same"
            raise SpecError(
                f"Variant {variant.name!r} is the same as {variants[0].name!r}: {both}.",
                hint='give what it changes, as "NAME: KEY=VALUE"; add --aa to compare the server'
                " with itself, which shows its noise",
            )


def _design(given: dict[str, Any]) -> CompareDesign:
    try:
        return CompareDesign(
            metric=given["metric"],
            precision=given["precision"],
            margin=given["margin"],
            budget=given["budget"] or "30min",
            rounds=given["rounds"],
        )
    except ValidationError as error:
        refuse(error)
