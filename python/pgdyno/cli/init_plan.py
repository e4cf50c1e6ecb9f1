"""`pgdyno init --dry-run`: prints what a load would do."""

from __future__ import annotations

import json
from typing import Any

from pgdyno.cli import options, output
from pgdyno.cli.live import Live
from pgdyno.cli.unused_options import refuse_without_effect
from pgdyno.errors import RefusedError
from pgdyno.measure.load_plan import LoadPlan, planned, timed
from pgdyno.measure.loading import Loading
from pgdyno.quantities import duration_text, format_bytes
from pgdyno.server import new_database, safety, server_facts
from pgdyno.server.connect import Connection, connect, pinned
from pgdyno.server.conninfo import Resolved
from pgdyno.server.dataset import inspection as datasets
from pgdyno.server.dataset.kinds import kind_of
from pgdyno.server.target import refuse_what_the_engine_lacks
from pgdyno.spec.dataset import Dataset


def show_plan(
    dataset: Dataset, how: Loading, resolved: Resolved | None, given: dict[str, Any]
) -> int:
    """Print the plan of a load; a server is only read, except by --probe."""
    because = "--dry-run loads nothing"
    names = ("restart", "no_check", "skip_space_check")
    refuse_without_effect(given, names, because, "leave it out")
    if resolved is None:
        no_server = "--probe loads on a server, but the command names none"
        refuse_without_effect(given, ("probe",), no_server, "name the server with -h or -d")
        plan = planned(dataset, how, None)
    elif new_database.is_missing(resolved.target, verb="init"):
        missing = f"--probe loads in the database {resolved.target.database}, which does not exist"
        refuse_without_effect(given, ("probe",), missing, "leave it out, or create the database")
        output.note(f"the database {resolved.target.database} does not exist: init creates it")
        plan = planned(dataset, how, None)
    else:
        refuse_what_the_engine_lacks(resolved.target)
        with connect(resolved.target, verb="init") as connection:
            target = pinned(resolved.target, connection)
            facts = server_facts.collect(connection, target)
            output.note(f"target  {server_facts.target_line(facts)}")
            present = datasets.inspect(connection, kind_of(dataset))
            try:
                refuse_unsafe(connection, facts, present, given["confirm"])
            except RefusedError as error:
                if given["probe"]:
                    raise
                output.warning(f"The load would be refused. {error.message}", error.hint)
            plan = planned(dataset, how, connection)
        if given["probe"]:
            plan = timed(plan, dataset, target, how, Live())
    document = json.dumps(plan.as_document(), indent=2)
    options.write("\n".join(_lines(plan)), document, given["json_to"])
    return 0


def refuse_unsafe(
    connection: Connection,
    facts: server_facts.ServerFacts,
    present: datasets.Dataset,
    confirmed: tuple[str, ...],
) -> None:
    """Raise RefusedError if a load would write into tables or rights of somebody else.

    Args: present, the tables that exist; confirmed, what --confirm names.
    """
    safety.refuse_unsafe_init(
        safety.Intent(
            is_scratch=False,
            database=facts.database,
            host=facts.host,
            is_marked=present.is_marked,
            others=facts.others,
            landlords=datasets.landlords(connection),
            confirmed=confirmed,
        ),
        tables=present.tables,
    )


def _lines(plan: LoadPlan) -> list[str]:
    lines = [f"load   {plan.size_words}: about {format_bytes(plan.size_bytes)} with indexes"]
    lines += [f"rows   {count:>15,}  {table}" for table, count in plan.rows.items()]
    lines += [f"node   {name}  about {format_bytes(size)}" for name, size in plan.nodes.items()]
    if plan.seconds is None:
        return [*lines, "time   not known: --probe measures it with two small loads"]
    small = " and ".join(
        f"{size} in {seconds:.1f} s" for size, seconds in plan.probe_seconds.items()
    )
    return [
        *lines,
        f"time   about {duration_text(round(plan.seconds * 1e9))}, from small loads on this"
        f" server: size {small}",
        "       no interval: n = 1 each; longer if the tables exceed the memory of the server",
    ]
