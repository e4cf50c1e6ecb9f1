"""`pgdyno init`: load the pgbench tables, with the same contents as `pgbench -i`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from pgdyno.cli import options, output
from pgdyno.cli.from_options import dataset_of, server_named
from pgdyno.cli.headings import ANSWER, LOADING, Verb, under
from pgdyno.cli.output import Live
from pgdyno.clock import monotonic_ns, read_pair
from pgdyno.engine.job import Distribute
from pgdyno.errors import SpecError
from pgdyno.measure.loading import (
    Loading,
    load_dataset,
    range_rows_for,
    refuse_other_options,
    statements,
)
from pgdyno.server import dataset as datasets
from pgdyno.server import facts as server_facts
from pgdyno.server import safety, space
from pgdyno.server.connect import connect, pinned
from pgdyno.server.conninfo import Resolved
from pgdyno.server.facts import ServerFacts
from pgdyno.server.target import Target, refuse_what_the_engine_lacks
from pgdyno.spec.experiment import Dataset
from pgdyno.spec.units import duration_text

_STEPS = "dtgGvpf"


def _init_steps(_context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    steps = None if given is None else given.replace(" ", "")
    if steps is not None and (not steps or set(steps) - set(_STEPS)):
        raise click.BadParameter(
            f"{given!r} must consist of the letters {_STEPS!r}, such as dtgvp."
        )
    return steps


def _distribute(
    _context: click.Context, _option: click.Parameter, given: str | None
) -> Distribute | None:
    if given is None:
        return None
    server, _, column = given.partition(":")
    if server not in ("citus", "greenplum") or column not in ("", "aid", "bid"):
        raise click.BadParameter(
            f"{given!r} must be citus or greenplum, optionally with :aid or :bid."
        )
    return Distribute.model_validate({"server": server, "column": column or "aid"})


_loading = under(LOADING)


@click.command("init", cls=Verb, short_help="Load a dataset.")
@options.connection
@options.dataset
@_loading(
    "-j",
    "--load-jobs",
    type=click.IntRange(1, 64),
    help=(
        "Number of connections that load (default 1; 2 for partitions). From 2 on, ranges of "
        "accounts are loaded in parallel and VACUUM freezes them afterwards, which is more work "
        "for the server."
    ),
)
@_loading(
    "-I",
    "--init-steps",
    metavar="STEPS",
    callback=_init_steps,
    help=(
        "Run only these steps, in this order: d(rop) t(ables) g(enerate) G(enerate on the "
        "server) v(acuum) p(rimary keys) f(oreign keys), as in pgbench."
    ),
)
@_loading(
    "--distribute",
    metavar="SERVER[:COLUMN]",
    callback=_distribute,
    help="Distribute the tables: citus or greenplum, by account (:aid, default) or branch (:bid).",
)
@_loading("--restart", is_flag=True, help="Discard an interrupted load and start again.")
@_loading("--skip-space-check", is_flag=True, help="Load even if the disk seems too small.")
@under(ANSWER)(
    "--print-sql", is_flag=True, help="Print every statement that init may send, and exit."
)
@options.confirm
@options.json_option
@options.quiet
def command(**given: Any) -> int:
    """Load the pgbench tables into your own server; the tables get pgdyno's mark.

    Tables with the mark are replaced, other tables are never touched. After an interruption, the
    same command continues where the load stopped.
    """
    if given["quiet"]:
        output.be_quiet()
    dataset = dataset_of(given, default_scale=1)
    how = _how(given, dataset)
    if given["print_sql"]:
        output.data(statements(dataset, _nowhere(), clock=read_pair(), how=how))
        return 0
    resolved = server_named(given)
    if resolved is None:
        raise SpecError(
            "init needs a server, but the command names none.",
            hint=(
                "name the server with -h, -d or a conninfo; bench and sweep load scratch "
                "servers themselves"
            ),
        )
    target, facts = _examined(resolved, given, dataset)
    how = _continued(how, facts.dataset, dataset, is_restart=given["restart"])
    began_ns = monotonic_ns()
    load_dataset(dataset, target, clock=read_pair(), verb="init", progress=Live(), how=how)
    spent_ns = monotonic_ns() - began_ns
    with connect(target, verb="init") as connection:
        loaded = datasets.inspect(connection)
    _say(loaded, spent_ns, given["json_to"], is_resumed=how.resume)
    return 0


def _how(given: dict[str, Any], dataset: Dataset) -> Loading:
    jobs: int | None = given["load_jobs"]
    has_ranges = jobs is not None and jobs > 1 and not dataset.partitions
    steps: str | None = given["init_steps"]
    if steps is not None and dataset.foreign_keys and "f" not in steps:
        steps += "f"
    return Loading(
        jobs=jobs or 2,
        range_rows=range_rows_for(dataset.scale, jobs) if has_ranges and jobs else None,
        steps=steps,
        distribute=given["distribute"],
        keep_unfinished=True,
    )


def _examined(
    resolved: Resolved, given: dict[str, Any], dataset: Dataset
) -> tuple[Target, ServerFacts]:
    """Return where to load, judged safe and large enough. Raises: RefusedError, ServerError."""
    for warning in resolved.notes:
        output.note(f"warning: {warning.message} {warning.hint}")
    refuse_what_the_engine_lacks(resolved.target)
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
        output.note(f"target  {server_facts.target_line(facts)}")
        steps = given["init_steps"]
        if not given["skip_space_check"] and (steps is None or set(steps) & {"g", "G"}):
            fillfactor = dataset.fillfactor or 100
            why_not = space.check_own_server(
                connection, facts, scale=dataset.scale, fillfactor=fillfactor
            )
            if why_not:
                output.note(f"free space was not checked: {why_not}")
    return target, facts


def _continued(
    how: Loading, present: datasets.Dataset, dataset: Dataset, *, is_restart: bool
) -> Loading:
    """Return how to load beside what is there. Raises: RefusedError if options contradict it."""
    interrupted = present.interrupted
    if interrupted is not None and not is_restart:
        begun_with = interrupted.get("range_rows")
        if begun_with is not None and how.range_rows is not None:
            # The number of connections may change, the ranges may not.
            how = replace(how, range_rows=int(begun_with))
        refuse_other_options(how.options_of(dataset), dict(interrupted))
        return replace(how, resume=True)
    if how.steps is not None and "t" not in how.steps and present.options:
        # The tables stay as they were made: what is asked for must be what they are.
        refuse_other_options(how.mark_of(dataset), dict(present.options))
    return replace(how, drop_existing=how.steps is None and present.state != "none")


def _nowhere() -> Target:
    return Target(host="localhost", ports="5432", user="nobody", database="nothing")


def _say(loaded: datasets.Dataset, spent_ns: int, json_to: str | None, *, is_resumed: bool) -> None:
    size = server_facts.format_bytes(loaded.size_bytes)
    how = ", continued with" if is_resumed else ""
    text = f"loaded {loaded}: {size} in {duration_text(spent_ns)}{how}"
    document = {
        "format": "pgdyno.init/1",
        "scale": loaded.scale,
        "state": loaded.state,
        "size_bytes": loaded.size_bytes,
        "seconds": spent_ns / 1e9,
        "is_resumed": is_resumed,
    }
    options.write(text, json.dumps(document, indent=2), json_to)
