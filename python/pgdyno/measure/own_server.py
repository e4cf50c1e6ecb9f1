"""A server of the user's own: reached, and judged safe to load.

Nothing is loaded or changed here. What is not safe is refused, with the reason.
"""

from __future__ import annotations

from dataclasses import replace

import psycopg

from pgdyno.engine.engine_facts import engine_facts
from pgdyno.engine.records import ScriptShape
from pgdyno.errors import PgdynoError, RefusedError, ServerError, SpecError
from pgdyno.measure.host_access import command_to_host, console_of, way_unused
from pgdyno.measure.pooler_found import pooler_at
from pgdyno.measure.setup import Setup
from pgdyno.measure.under_test import UnderTest
from pgdyno.programs.registry import part_of_files
from pgdyno.server import permission, safety, server_facts
from pgdyno.server.connect import Connection, connect, pinned
from pgdyno.server.conninfo import resolve
from pgdyno.server.dataset import inspection as datasets
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.server.permission import refuse_foreign_tables
from pgdyno.server.reset import has_prewarm
from pgdyno.server.server_facts import ServerFacts
from pgdyno.server.target import Target, refuse_what_the_engine_lacks
from pgdyno.spec.experiment import Experiment

# The dataset of a mirror. Its statements are those of the user, and the engine looks for its
# tables, because they may be a copy of the source.
CAPTURE = "capture"
# Three connections of the observer and one for control, in addition to the load's.
CONTROL_CONNECTIONS = 4


def reached(setup: Setup, target: Target, *, dsn: str | None = None) -> UnderTest:
    """Return a server of the user's own, after all checks that it is safe to load.

    Args: dsn, the connection string of the variants on this server; None for variants without one.
    Raises: ServerError if it cannot be reached; SpecError for options that do not fit; RefusedError
    if a check fails.
    """
    experiment, progress = setup.experiment, setup.progress
    _refuse_what_fits_no_load(experiment, target)
    server = experiment.server
    with connect(target, verb=setup.verb, patient=True) as connection:
        target = pinned(target, connection)
        is_pooled, loaded = connection.is_pooled, _place_of(connection)
        _refuse_where_writes_fail(connection, target, setup, dsn)
        _refuse_without_prewarm(connection, experiment)
    dataset = _dataset_of_the_load(setup, target, dsn)
    host_command = command_to_host(ssh=server.ssh, host_shell=server.host_shell)
    console = console_of(server.pooler)
    if is_pooled:
        pooler = pooler_at(target, console, setup.verb, progress, server.observe)
        pooler.refuse(experiment.protocols_of(dsn))
        console = pooler.console
    observe = target if server.observe is None else resolve(conninfo=server.observe).target
    with _observing(observe, setup.verb, server.observe) as connection:
        observe = pinned(observe, connection)
        if server.observe is not None:
            _refuse_another_place(loaded, _place_of(connection), observe)
        # The sessions of the load may mean other tables than this one.
        facts = server_facts.collect(connection, observe, own_roles=[target.user])
        facts = replace(facts, dataset=dataset)
    if facts.is_local and host_command is not None:
        progress.said(way_unused("--ssh" if server.ssh is not None else "--host-shell"))
        host_command = None
    safety.refuse_unsafe_load(
        safety.Intent(
            is_scratch=False,
            database=facts.database,
            host=facts.host,
            scripts_writing=_scripts_writing(setup, facts),
            others=facts.others,
            landlords=_landlords(setup, target, dsn, dataset),
            allow_write=setup.permissions.allow_write,
            confirmed=setup.permissions.confirm,
        )
    )
    _refuse_unpermitted(setup, facts, dsn, target, is_pooled=is_pooled)
    has_room_to_probe = True
    if not is_pooled:
        has_room_to_probe = _require_room(experiment, facts)
        setup.refuse_too_little_memory(observe, is_local=facts.is_local)
    return UnderTest(
        target=target,
        observe=_apart_from_the_load(observe, setup.verb),
        cluster=None,
        facts=facts,
        verb=setup.verb,
        direct=None if server.observe is None else observe,
        is_pooled=is_pooled,
        has_room_to_probe=has_room_to_probe,
        pooler=console,
        host_command=host_command,
    )


def _refuse_what_fits_no_load(experiment: Experiment, target: Target) -> None:
    refuse_what_the_engine_lacks(target)
    if not experiment.workload.servers_in_turns:
        return
    if len(target.hosts()) == 1:
        raise SpecError(
            "--servers-in-turns needs several servers, but the connection names one: "
            f"{target.host}.",
            hint="name the servers, such as -h node1,node2,node3, or leave the option out",
        )
    if target.parameters.get("load_balance_hosts", "disable") != "disable":
        raise SpecError(
            "--servers-in-turns and load_balance_hosts=random exclude each other: both choose the "
            "server of a connection.",
            hint="leave one of the two out",
        )


# The start time in microseconds identifies a server, and every role may read it. A pooler may call
# the database by another name.
_PLACE = "SELECT current_database(), extract(epoch FROM pg_postmaster_start_time())::text"


def _place_of(connection: Connection) -> tuple[str, str]:
    """Return the database of a session, and when its server was started."""
    row = connection.execute(_PLACE).fetchone()
    assert row is not None, "a session has a database"
    return str(row[0]), str(row[1])


def _observing(observe: Target, verb: str, named: str | None) -> Connection:
    """Return a session for facts and counts; an error names the option that led there."""
    try:
        return connect(observe, verb=verb, patient=True)
    except ServerError as error:
        if named is not None:
            error.message, error.hint = f"--observe: {error.message}", "check --observe"
        raise


def _refuse_another_place(loaded: tuple[str, str], seen: tuple[str, str], observe: Target) -> None:
    """Raise RefusedError if --observe leads to another database or server than the load."""
    if loaded[1] != seen[1]:
        raise RefusedError(
            f"--observe leads to {observe.place}, which is another server than that of the load: "
            "their start times differ.",
            hint="name the server of the load in --observe",
        )
    if loaded[0] != seen[0]:
        raise RefusedError(
            f"--observe names the database {seen[0]}, but the load goes to {loaded[0]}. The "
            "figures would describe another database.",
            hint=f"name the same database in --observe: dbname={loaded[0]}",
        )


def _refuse_where_writes_fail(
    connection: Connection,
    target: Target,
    setup: Setup,
    dsn: str | None,
) -> None:
    """Raise RefusedError if a script for this server writes and sessions are read-only."""
    row = connection.execute(
        "SELECT current_setting('transaction_read_only') = 'on', pg_is_in_recovery()"
    ).fetchone()
    is_read_only, is_standby = row if row is not None else (False, False)
    if not is_read_only:
        return
    experiment = setup.experiment
    here = {
        index
        for variant in experiment.planned_variants()
        if variant.spec.dsn == dsn
        for index in experiment.scripts_of(variant)
    } or set(range(len(experiment.workload.scripts)))
    names = [script.name for script in experiment.all_scripts()]
    known = {names[index] for index in here}
    writing = [
        shape.name
        for shape in setup.scripts
        if (shape.program or shape.name) in known and not shape.reads_only and shape.weight > 0
    ]
    safety.refuse_read_only_session(target.place, writing, is_standby=is_standby)


# What decides which tables a name means in a session, and what the role may do with them.
_DECIDING = frozenset({"search_path", "role"})


def _ways_of_the_load(experiment: Experiment, target: Target, dsn: str | None) -> list[Target]:
    """Return the target with the settings of each variant on it that decide what names mean."""
    common = experiment.server.settings
    asked = [
        {**common, **variant.spec.settings}
        for variant in experiment.planned_variants()
        if variant.spec.dsn == dsn
    ] or [common]
    ways = [
        target.with_settings({n: v for n, v in own.items() if n.lower() in _DECIDING})
        for own in asked
    ]
    return list({way.options: way for way in ways}.values())


def _dataset_of_the_load(setup: Setup, target: Target, dsn: str | None) -> datasets.Dataset:
    """Return the dataset that the load uses, as its own sessions find it.

    Every variant has its own path. The dataset counts as pgdyno's only if each variant means tables
    with the mark.
    Raises: ServerError if a variant finds no complete dataset.
    """
    dataset_of = _datasets_used(setup.experiment)
    used = {dataset_of.get(shape.program, "") for shape in setup.scripts} - {"", CAPTURE}
    # A database may have several datasets: the facts are of the one that the load uses.
    kinds = [KINDS[name] for name in sorted(used)]
    inspected: list[datasets.Dataset] = []
    for there in _ways_of_the_load(setup.experiment, target, dsn):
        with connect(there, verb=setup.verb, patient=True) as connection:
            seen = [datasets.inspect(connection, kind) for kind in kinds]
            for dataset in seen:
                datasets.require_complete(dataset)
            inspected += seen[:1] or [datasets.inspect(connection)]
    return replace(inspected[0], is_marked=all(dataset.is_marked for dataset in inspected))


def _landlords(
    setup: Setup,
    target: Target,
    dsn: str | None,
    dataset: datasets.Dataset,
) -> tuple[str, ...]:
    """Return the roles that can replace the tables of a dataset that a superuser's load uses.

    The scripts of the user may use any tables, also those of others.
    """
    roles: set[str] = set()
    if not (dataset.is_marked and any(_datasets_used(setup.experiment).values())):
        return ()
    for there in _ways_of_the_load(setup.experiment, target, dsn):
        with connect(there, verb=setup.verb, patient=True) as connection:
            schemas = dataset.schemas or (dataset.schema,)
            roles.update(datasets.landlords(connection, schemas))
    return tuple(sorted(roles))


def _refuse_without_prewarm(connection: Connection, experiment: Experiment) -> None:
    """Raise RefusedError if the cache shall be filled and the server lacks the extension for it."""
    if experiment.cache == "prewarm" and not has_prewarm(connection):
        raise RefusedError(
            "--cache prewarm needs the extension pg_prewarm, which this database does not have. "
            "pgdyno creates no extension on your own server.",
            hint="run CREATE EXTENSION pg_prewarm in this database, or leave --cache out",
        )


def _datasets_used(experiment: Experiment) -> dict[str, str]:
    """Return built-in -> its dataset. A built-in uses no other tables."""
    scripts = experiment.all_scripts()
    known = engine_facts() if any(script.builtin for script in scripts) else None
    # A file may have the name of a built-in; then both count as files.
    files = {script.name for script in scripts if script.builtin is None}
    return {
        script.name: builtin.dataset
        for script in scripts
        if known is not None
        and script.name not in files
        and (builtin := known.builtin(script.builtin))
    }


def _scripts_writing(setup: Setup, facts: ServerFacts) -> tuple[str, ...]:
    """Return the scripts that write to tables which pgdyno may not have created.

    A built-in writes only to the tables of its dataset. A file may write anywhere.
    """
    elsewhere = _beyond_the_dataset(setup, facts)
    return tuple(shape.name for shape in elsewhere if not shape.reads_only)


def _refuse_unpermitted(
    setup: Setup,
    facts: ServerFacts,
    dsn: str | None,
    target: Target,
    *,
    is_pooled: bool,
) -> None:
    """Raise RefusedError for a script that looks like reading and needs --allow-write."""
    if setup.permissions.allow_write:
        return
    elsewhere = _beyond_the_dataset(setup, facts)
    experiment = setup.experiment
    builtins = _datasets_used(experiment)
    permission.refuse_unenforced(
        [
            shape.name
            for shape in elsewhere
            if shape.program not in builtins or builtins[shape.program] == CAPTURE
        ],
        writing=[shape.name for shape in setup.scripts if not shape.reads_only],
        is_pooled=is_pooled,
    )
    for shape in elsewhere:
        permission.refuse_unpermitted(
            shape.name,
            [statement.text for statement in shape.statements],
            experiment.workload.variables,
            is_simple="simple" in experiment.protocols_of(dsn),
        )
    if not elsewhere:
        return
    for there in _ways_of_the_load(experiment, target, dsn):
        with connect(there, verb=setup.verb, patient=True) as connection:
            for shape in elsewhere:
                texts = [statement.text for statement in shape.statements]
                refuse_foreign_tables(connection, shape.name, texts)


def _beyond_the_dataset(setup: Setup, facts: ServerFacts) -> list[ScriptShape]:
    """Return the scripts that may touch more than a dataset of pgdyno's own."""
    owned = facts.dataset.kind if facts.dataset.is_marked else None
    if owned == CAPTURE and not _is_their_capture(setup.experiment, facts):
        owned = None
    dataset_of = _datasets_used(setup.experiment)
    return [
        shape for shape in setup.scripts if not (owned and dataset_of.get(shape.program) == owned)
    ]


def _is_their_capture(experiment: Experiment, facts: ServerFacts) -> bool:
    """Return whether the tables were made from the captures of the load, and not from others.

    A file that somebody changed has other statements than the one that made the tables. If the
    tables were made from it, its load may still use tables of others.
    """
    files = {script.capture for script in experiment.all_scripts() if script.capture is not None}
    part = part_of_files("job")
    known = facts.dataset.options.get("digest")
    digests = {part.digest_at(path) for path in files} if part is not None else set()
    return known is not None and digests == {known}


# Every server has this database. Unlike template1, others can use it while we are connected.
_DATABASE_APART = "postgres"


def _require_room(experiment: Experiment, facts: ServerFacts) -> bool:
    """Return whether the server admits one connection more than the load and pgdyno need.

    Raises: RefusedError if it does not admit the connections of load and pgdyno.
    """
    # The closed control connection that read these facts is counted as used.
    room = replace(facts.connections, used_count=max(0, facts.connections.used_count - 1))
    safety.refuse_too_many_connections(
        room,
        load=experiment.connections_max(),
        control=CONTROL_CONNECTIONS,
        in_words=experiment.connections_in_words(),
    )
    return room.free > experiment.connections_max() + CONTROL_CONNECTIONS


def _apart_from_the_load(observe: Target, verb: str) -> Target:
    """Return a target in another database, so that our sessions are not in the load's statistics.

    Returns: `observe` itself if the role may not connect to another database.
    """
    if observe.database == _DATABASE_APART:
        return observe
    apart = observe.with_database(_DATABASE_APART)
    try:
        with connect(apart, verb=verb):
            return apart
    except (psycopg.Error, PgdynoError):
        return observe
