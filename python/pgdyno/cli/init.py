"""`pgdyno init`: load the pgbench tables, with the same contents as `pgbench -i`."""

from __future__ import annotations

import json
from typing import Any

import click

from pgdyno.cli import options, speak
from pgdyno.cli.asked import dataset_of, server_named
from pgdyno.cli.live import Live
from pgdyno.clock import monotonic_ns, read_pair
from pgdyno.errors import SpecError
from pgdyno.measure.under_test import load_dataset
from pgdyno.server import dataset as datasets
from pgdyno.server import facts as server_facts
from pgdyno.server import safety
from pgdyno.server.connect import connect, pinned
from pgdyno.server.target import refuse_what_the_engine_lacks
from pgdyno.spec.units import duration_text


@click.command("init", short_help="Load a dataset.")
@options.connection
@options.dataset
@click.option("-j", "--load-jobs", type=click.IntRange(1, 64), default=2, help="Connections.")
@click.option("--confirm", metavar="DB@HOST", help="Yes, other sessions work there.")
@options.json_option
@click.option("-q", "--quiet", is_flag=True, help="Nothing on standard error.")
def command(**given: Any) -> int:
    """Load the pgbench tables into a server of your own; they carry pgdyno's mark.

    Tables that pgdyno made before are replaced; tables of somebody else are not touched.
    """
    if given["quiet"]:
        speak.be_quiet()
    resolved = server_named(given)
    if resolved is None:
        raise SpecError(
            "init loads into a server of your own, and none was named.",
            hint="name it with -h, -d or a conninfo; bench and sweep load scratch servers by"
            " themselves",
        )
    for warning in resolved.notes:
        speak.note(f"warning: {warning.message} {warning.hint}")
    refuse_what_the_engine_lacks(resolved.target)
    dataset = dataset_of(given, default_scale=1)
    with connect(resolved.target, verb="init") as connection:
        target = pinned(resolved.target, connection)
        facts = server_facts.collect(connection, target)
    safety.refuse_unsafe_init(
        safety.Intent(
            is_scratch=False,
            database=facts.database,
            host=facts.host,
            is_marked=facts.dataset.is_marked,
            others=facts.others,
            confirmed=given["confirm"],
        ),
        tables=facts.dataset.tables,
    )
    speak.note(f"target  {server_facts.target_line(facts)}")
    began_ns = monotonic_ns()
    load_dataset(
        dataset,
        target,
        clock=read_pair(),
        verb="init",
        progress=Live(),
        jobs=given["load_jobs"],
        drop_existing=facts.dataset.state != "none",
    )
    spent_ns = monotonic_ns() - began_ns
    with connect(target, verb="init") as connection:
        loaded = datasets.inspect(connection)
    _say(loaded, spent_ns, given["json_to"])
    return 0


def _say(loaded: datasets.Dataset, spent_ns: int, json_to: str | None) -> None:
    size = server_facts.format_bytes(loaded.size_bytes)
    text = f"loaded {loaded}: {size} in {duration_text(spent_ns)}"
    document = {
        "format": "pgdyno.init/1",
        "scale": loaded.scale,
        "size_bytes": loaded.size_bytes,
        "seconds": spent_ns / 1e9,
    }
    options.write(text, json.dumps(document, indent=2), json_to)
