"""`pgdyno init [KIND]`: loads a dataset; without a kind, the pgbench tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import click

from pgdyno.cli import options, output, wanted
from pgdyno.cli.headings import Verb
from pgdyno.cli.init_kind import INIT_KINDS, ComparedCopy
from pgdyno.cli.kind_help import kind_help
from pgdyno.cli.load_options import HOSTS_HELP
from pgdyno.cli.option_table import table
from pgdyno.cli.unused_options import refuse_without_effect
from pgdyno.clock import monotonic_ns, read_pair
from pgdyno.errors import RefusedError, SpecError
from pgdyno.quantities import duration_text, format_bytes
from pgdyno.server.dataset.kinds import KINDS, kind_of, needed_bytes

if wanted.body(__name__):
    from psycopg import sql

    from pgdyno.cli.dataset_options import read_options
    from pgdyno.cli.from_options import server_named
    from pgdyno.cli.init_plan import refuse_unsafe, show_plan
    from pgdyno.cli.live import Live
    from pgdyno.measure.consistency import require_consistent
    from pgdyno.measure.fleet import asked_hosts, opened_fleet
    from pgdyno.measure.load_plan import why_not_spread
    from pgdyno.measure.loading import Loading, load_dataset, refuse_other_options, statements
    from pgdyno.measure.servers import HostFleet
    from pgdyno.measure.under_test import LOAD_DATABASE
    from pgdyno.server import new_database, server_facts, space
    from pgdyno.server.connect import connect, pinned
    from pgdyno.server.conninfo import Resolved
    from pgdyno.server.dataset import inspection as datasets
    from pgdyno.server.dataset.kind import DatasetKind
    from pgdyno.server.find import find
    from pgdyno.server.scratch.cluster import ScratchCluster, ScratchRequest
    from pgdyno.server.target import Target, refuse_what_the_engine_lacks
    from pgdyno.spec.dataset import Dataset
    from pgdyno.store.experiment import Store

DEFAULT = "pgbench"
"""The kind of dataset that `init` loads if the command names none."""


_no_check = table("""
    Loading
    --no-check  Do not check the loaded data.
""")


def command_for(name: str) -> Verb:
    """Return the command that loads one kind of dataset, with the options of the kind."""

    kind = kind_help(name)

    def load(**given: Any) -> int:
        return _run(KINDS[name], given)

    load.__doc__ = (
        INIT_KINDS[name].help
        if name in INIT_KINDS
        else f"""Load the {name} tables into your own server, and mark them as made by pgdyno.

    Tables with the mark are replaced, other tables are never touched. After an interruption, the
    same command continues where the load stopped.
    {_others(name)}"""
    )
    decorators = (
        *(INIT_KINDS[name].options() if name in INIT_KINDS else ()),
        options.connection,
        table(kind.options),
        table(f"""
            Loading
            -j --load-jobs N:1..64 *  Number of connections that load {kind.jobs}
            --hosts HOSTS  {HOSTS_HELP}
        """),
        table(kind.loading),
        table("""
            Loading
            --restart *  Discard an interrupted load and start again.
        """),
        *([_no_check] * bool(kind.check)),
        table("""
            Loading
            --skip-space-check  Load even if the disk seems too small.
            Answer
            --print-sql *  Print every statement that init may send, and exit.
            --dry-run *  Print rows and bytes of the load, on each node of a cluster, and exit.
            --probe  With --dry-run: estimate the time from two small loads in a new schema.
        """),
        options.confirm,
        options.json_option,
        options.quiet,
    )
    for decorator in reversed(decorators):
        load = decorator(load)
    named = "init" if name == DEFAULT else name
    return click.command(named, cls=Verb, short_help=f"Load the {name} tables.")(load)


def _others(kind: str) -> str:
    """Return a paragraph of the help about the other kinds of dataset."""
    others = [name for name in KINDS if name != kind]
    if not others:
        return ""
    names = " or ".join(filter(None, (", ".join(others[:-1]), others[-1])))
    return f"\n    For other tables see pgdyno init {names}, with --help.\n    "


class Kinds(click.Group):
    """`init KIND ...`; without a kind, the arguments are for the pgbench tables."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Add the name of the kind if the command line has none."""
        has_kind = bool(args) and args[0] in KINDS
        for name, of_file in () if has_kind else INIT_KINDS.items():
            if path := next((arg for arg in args if of_file.is_file(arg)), None):
                rest = [arg for arg in args if arg != path]
                return super().parse_args(context, [name, path, *rest])
        if not has_kind and len(args) > 1 and not any(arg.startswith("-") for arg in args[:2]):
            raise SpecError(
                f"init {args[0]}: this is not a kind of tables. The server comes after the kind.",
                hint=f"use one of {', '.join(KINDS)}, or none for {DEFAULT}",
            )
        return super().parse_args(context, args if has_kind else [DEFAULT, *args])

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names of the kinds."""
        return list(KINDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Return the command of a kind."""
        return command_for(name) if name in KINDS else None

    def get_help(self, context: click.Context) -> str:
        """Return the help of the default kind, which names the other kinds."""
        return command_for(DEFAULT).get_help(context)


command = Kinds("init", short_help="Load a dataset.", add_help_option=False)


def _run(kind: DatasetKind, given: dict[str, Any]) -> int:
    if given["quiet"]:
        output.be_quiet()
    named = {"file": given["file"]} if kind.name in INIT_KINDS else {}
    tables = kind_help(kind.name)
    dataset = cast(Dataset, read_options(kind.options, tables.options, given, **named))
    kind = kind_of(dataset)
    loading = read_options(kind.loading, tables.loading, given)
    how = Loading(jobs=given["load_jobs"] or 0, loading=loading, keep_unfinished=True)
    if given["print_sql"]:
        because = "--print-sql prints statements and ends"
        names = (
            "restart",
            "no_check",
            "skip_space_check",
            "confirm",
            "json_to",
            "dry_run",
            "probe",
        )
        refuse_without_effect(given, names, because, "use one of the two")
        how = _as_if_spread(how, given["hosts"])
        creating = new_database.CREATE_SQL.format(_nowhere().database)
        output.data(f"-- only if the database does not exist\n{creating};\n")
        output.data(f"-- only then, and if the library is loaded\n{new_database.EXTENSION_SQL};\n")
        output.data(statements(dataset, _nowhere(), clock=read_pair(), how=how))
        return 0
    if not given["dry_run"]:
        only = "it changes --dry-run, which is not given"
        refuse_without_effect(given, ("probe",), only, "add --dry-run, or leave it out")
    resolved = server_named(given)
    if given["dry_run"]:
        if given["hosts"]:
            only = "--probe loads from this host alone"
            refuse_without_effect(given, ("probe",), only, "leave out --probe or --hosts")
        return show_plan(dataset, _as_if_spread(how, given["hosts"]), resolved, given)
    if resolved is None and given.get("scratch"):
        only = "a scratch server is loaded from its own host"
        refuse_without_effect(given, ("hosts",), only, "leave it out")
        with _scratch_database(dataset, given) as target:
            return _filled(dataset, target, how, given)
    if resolved is None:
        raise SpecError(
            "init needs a server, but the command names none.",
            hint=(
                "name the server with -h, -d or a conninfo; bench and sweep load scratch "
                "servers themselves"
            ),
        )
    with opened_fleet(given["hosts"], Live()) as fleet:
        if fleet is not None:
            how = _spread(how, len(fleet.hosts))
        if new_database.is_missing(resolved.target, verb="init"):
            counts = new_database.create(resolved.target, verb="init")
            words = ", with pg_stat_statements" if counts else ""
            output.note(f"created the database {resolved.target.database}{words}")
        target, present = _examined(resolved, given, dataset, how)
        how = _continued(how, present, dataset, is_restart=given["restart"])
        return _filled(dataset, target, how, given, fleet)


@contextmanager
def _scratch_database(dataset: Dataset, given: dict[str, Any]) -> Iterator[Target]:
    """Yield an empty database of a scratch server, which is then removed, or kept with --keep."""
    request = ScratchRequest(
        find(version=given["pg_version"]),
        store_dir=Store.default().root,
        keep=given["keep"],
        needed=needed_bytes(dataset),
    )
    with ScratchCluster.create(request) as cluster:
        for note in cluster.notes:
            output.note(note)
        with cluster.connect() as connection:
            name = sql.Identifier(LOAD_DATABASE)
            connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        output.note(f"target  scratch PostgreSQL {cluster.binaries.version}")
        yield cluster.target.with_database(LOAD_DATABASE)
        if given["keep"]:
            output.note(f"The cluster is kept for the next command: {cluster.path}")


def _spread(how: Loading, host_count: int) -> Loading:
    """Return how to load from several load hosts. Raises: SpecError if some have no connection."""
    if 0 < how.jobs < host_count:
        raise SpecError(
            f"--load-jobs must be at least 1 for each load host, got {how.jobs} for {host_count}.",
            hint="use more connections, or fewer load hosts",
        )
    return replace(how, hosts=host_count)


def _as_if_spread(how: Loading, text: str | None) -> Loading:
    """Return how to load from the load hosts of --hosts; none of them is connected."""
    if text is None:
        return how
    asked = asked_hosts(text)
    count = asked.local_count or len(asked.names)
    if not count:
        raise SpecError(
            f"--hosts {text}: only the scheduler knows how many workers it has, and --dry-run and "
            "--print-sql connect to no load host.",
            hint="name the same number of load hosts as local:N",
        )
    return _spread(how, count)


def _filled(
    dataset: Dataset,
    target: Target,
    how: Loading,
    given: dict[str, Any],
    fleet: HostFleet | None = None,
) -> int:
    """Load the dataset, and print what was loaded."""
    kind = kind_of(dataset)
    of_file = INIT_KINDS.get(dataset.kind)
    if of_file is not None:
        of_file.refuse_unfit(target, dataset, how)
    began_ns = monotonic_ns()
    clock = read_pair()
    load_dataset(dataset, target, clock=clock, verb="init", progress=Live(), how=how, fleet=fleet)
    spent_ns = monotonic_ns() - began_ns
    if not given.get("no_check"):
        require_consistent(dataset, target, verb="init", progress=Live())
    with connect(target, verb="init") as connection:
        loaded = datasets.inspect(connection, kind)
        alike = None if of_file is None else of_file.finished(connection, dataset, how)
    text = "" if of_file is None or alike is None else of_file.text(alike)
    _say(loaded, spent_ns, given["json_to"], is_resumed=how.resume, alike=alike, text_of=text)
    return 0


def _examined(
    resolved: Resolved, given: dict[str, Any], dataset: Dataset, how: Loading
) -> tuple[Target, datasets.Dataset]:
    """Return the target and its existing tables, after checks of safety and space.

    Raises: RefusedError, ServerError.
    """
    kind = kind_of(dataset)
    for warning in resolved.notes:
        output.warning(warning.message, warning.hint)
    refuse_what_the_engine_lacks(resolved.target)
    with connect(resolved.target, verb="init") as connection:
        target = pinned(resolved.target, connection)
        facts = server_facts.collect(connection, target)
        present = datasets.inspect(connection, kind)
        refuse_unsafe(connection, facts, present, given["confirm"])
        output.note(f"target  {server_facts.target_line(facts)}")
        if alone := why_not_spread(how, connection):
            output.warning(alone, "add workers first: SELECT citus_add_node('host', 5432)")
        space.refuse_too_few_locks(connection, dataset)
        if not given["skip_space_check"] and kind.has_step(how.loading, "gG"):
            why_not = space.check_own_server(
                connection, facts, dataset, replaced_bytes=present.size_bytes
            )
            if why_not:
                output.note(f"free space was not checked: {why_not}")
    return target, present


def _continued(
    how: Loading, present: datasets.Dataset, dataset: Dataset, *, is_restart: bool
) -> Loading:
    """Return how to continue or replace existing data.

    Raises: RefusedError if options contradict it.
    """
    interrupted = present.interrupted
    kind = kind_of(dataset)
    if interrupted is not None and not is_restart:
        options_now = how.engine_options(dataset)
        if how.hosts > 1 and "range_rows" in options_now and "range_rows" not in interrupted:
            raise RefusedError(
                "A load of one connection was interrupted here. It has no ranges of accounts, so "
                "several load hosts cannot continue it.",
                hint="leave out --hosts to continue, or add --restart to start again with them",
            )
        how = replace(how, resumed_with=kind.kept_from(options_now, interrupted))
        refuse_other_options(how.options_of(dataset), dict(interrupted))
        return replace(how, resume=True)
    if not kind.has_step(how.loading, "t") and present.options:
        # The tables keep their options, so the given options must be the same.
        refuse_other_options(how.mark_of(dataset), dict(present.options))
    is_whole = kind.steps_of(how.loading) is None
    return replace(how, drop_existing=is_whole and present.state != "none")


def _nowhere() -> Target:
    return Target(host="localhost", ports="5432", user="nobody", database="nothing")


def _say(
    loaded: datasets.Dataset,
    spent_ns: int,
    json_to: str | None,
    *,
    is_resumed: bool,
    alike: ComparedCopy | None,
    text_of: str,
) -> None:
    size = format_bytes(loaded.size_bytes)
    how = ", continued with" if is_resumed else ""
    text = f"loaded {loaded}: {size} in {duration_text(spent_ns)}{how}"
    document: dict[str, Any] = {
        "format": "pgdyno.init/1",
        "scale": loaded.scale,
        "state": loaded.state,
        "size_bytes": loaded.size_bytes,
        "seconds": spent_ns / 1e9,
        "is_resumed": is_resumed,
    }
    if alike is not None:
        text += f"\n{text_of}"
        document["likeness"] = alike.as_document()
    options.write(text, json.dumps(document, indent=2), json_to)
