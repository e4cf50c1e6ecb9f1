"""The server under test of one experiment: made or reached, loaded, judged safe, given back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
from psycopg import sql

from pgdyno.clock import ClockPair
from pgdyno.engine.facts import engine_facts
from pgdyno.engine.records import ScriptShape
from pgdyno.errors import PgdynoError
from pgdyno.measure.backend_memory import refuse_too_little_memory
from pgdyno.measure.consistency import require_consistent
from pgdyno.measure.host_access import command_to_host, console_of, way_unused
from pgdyno.measure.loading import Loading, load_dataset, load_scratch
from pgdyno.measure.pooler_found import is_pooler, pooler_at
from pgdyno.measure.run_progress import Progress
from pgdyno.server import dataset as datasets
from pgdyno.server import facts as server_facts
from pgdyno.server import safety
from pgdyno.server.cluster_record import read_record
from pgdyno.server.connect import Connection, connect, pinned
from pgdyno.server.conninfo import resolve
from pgdyno.server.dataset_kinds import kind_of, needed_bytes
from pgdyno.server.facts import ServerFacts
from pgdyno.server.find import find
from pgdyno.server.leftovers import kept_clusters, sweep_leftovers
from pgdyno.server.placement import LAST_PLACE
from pgdyno.server.scratch import ScratchCluster, ScratchRequest
from pgdyno.server.space import refuse_too_few_locks
from pgdyno.server.target import Target, refuse_what_the_engine_lacks
from pgdyno.spec.experiment import Dataset, Experiment, Permissions, Scratch

# Three observing connections and one for control, in addition to the load's.
CONTROL_CONNECTIONS = 4
LOAD_DATABASE = "pgdyno"
# From here on, loading saves more time with its own settings than two restarts take.
_LARGE_BYTES = 300_000_000


@dataclass(frozen=True, slots=True)
class UnderTest:
    """A server that is ready to be measured.

    `observe` is where collectors connect: on a scratch server another database than the load's,
    so that their own work is not in its statistics. `direct` leads to the load's database past the
    pooler that `target` goes through; `pooler` is that pooler's console. `host_command` runs a
    shell on the server's host, where that is another one; `host_files` were made there by hand.
    `is_pooled`: `target` is a pooler of the user's own. `has_room_to_probe`: the server admits one
    more connection than the load and ours, to measure the network while the load runs.
    """

    target: Target
    observe: Target
    cluster: ScratchCluster | None
    facts: ServerFacts
    verb: str
    direct: Target | None = None
    host_command: tuple[str, ...] | None = None
    host_files: tuple[Path, ...] = ()
    pooler: Target | None = None
    is_pooled: bool = False
    has_room_to_probe: bool = True

    @property
    def database(self) -> str:
        """Return the name of the load's database."""
        return (self.direct or self.target).database

    @property
    def observe_within(self) -> Target | None:
        """Return the way into the load's database where `observe` leads to another one."""
        if self.observe.database == self.database:
            return None
        return self.observe.with_database(self.database)

    @property
    def is_scratch(self) -> bool:
        """True if the server is ours."""
        return self.cluster is not None

    def control(self, run: str = "control") -> Connection:
        """Open a control connection to the load's database."""
        return connect(self.direct or self.target, verb=self.verb, run=run, patient=True)

    def log_path(self) -> Path | None:
        """Return the server's log, where it can be read."""
        return self.cluster.log_path if self.cluster is not None else None


@dataclass(frozen=True, slots=True)
class Conditions:
    """What `opened` must know besides the experiment."""

    verb: str
    target: Target | None
    permissions: Permissions
    scripts: tuple[ScriptShape, ...]
    clock: ClockPair
    store_dir: Path
    check: bool = True


@contextmanager
def opened(
    experiment: Experiment, conditions: Conditions, progress: Progress
) -> Iterator[UnderTest]:
    """Yield the server under test, loaded and safe to load; give it back on every way out.

    Raises: ServerError, SpecError, RefusedError; nothing is left behind then.
    """
    if experiment.server.scratch is not None:
        with _scratch(experiment, experiment.server.scratch, conditions, progress) as ready:
            yield ready
    else:
        assert conditions.target is not None
        yield reached(experiment, conditions, conditions.target, progress)


@contextmanager
def _scratch(
    experiment: Experiment, asked: Scratch, conditions: Conditions, progress: Progress
) -> Iterator[UnderTest]:
    for leftover in sweep_leftovers(scratch_places(asked, conditions.store_dir)):
        progress.said(f"removed the rest of a killed command: {leftover.path}")
    cluster = _kept(experiment, asked, progress) or _created(experiment, asked, conditions)
    with cluster:
        for note in cluster.notes:
            progress.said(note)
        refuse_what_does_not_fit(experiment, conditions, cluster.target, progress)
        target = load_into(cluster, LOAD_DATABASE, experiment.dataset, conditions, progress)
        with connect(target, verb=conditions.verb) as connection:
            facts = server_facts.collect(connection, target)
        yield UnderTest(target, cluster.target, cluster, facts, conditions.verb)
    if asked.keep:
        progress.said(f"kept for the next command: {cluster.path}")


def refuse_what_does_not_fit(
    experiment: Experiment,
    conditions: Conditions,
    target: Target,
    progress: Progress,
    *,
    is_local: bool = True,
) -> None:
    """Raise RefusedError if the experiment's connections need more memory than there is."""
    refuse_too_little_memory(
        target,
        connections=experiment.connections_max(),
        is_local=is_local,
        verb=conditions.verb,
        is_confirmed=conditions.permissions.confirm_memory,
        progress=progress,
    )


def _created(experiment: Experiment, asked: Scratch, conditions: Conditions) -> ScratchCluster:
    dataset = experiment.dataset
    return ScratchCluster.create(
        ScratchRequest(
            binaries=find(bin_dir=asked.bin_dir, version=asked.version),
            clients=experiment.connections_max(),
            settings=experiment.server.settings,
            data_dir=asked.data_dir,
            wal_dir=asked.wal_dir,
            store_dir=conditions.store_dir,
            allow_tmpfs=asked.allow_tmpfs,
            keep=asked.keep,
            needed=needed_bytes(dataset),
        )
    )


def _kept(experiment: Experiment, asked: Scratch, progress: Progress) -> ScratchCluster | None:
    """Return a cluster that an earlier --keep left in the same place with the same version."""
    if not asked.keep:
        return None
    parents = [asked.data_dir] if asked.data_dir else None
    wanted = find(bin_dir=asked.bin_dir, version=asked.version)
    for path in reversed(kept_clusters(parents)):
        if read_record(path).version == wanted.version:
            progress.said(f"using the kept cluster {path}")
            return ScratchCluster.adopt(
                path, clients=experiment.connections_max(), settings=experiment.server.settings
            )
    return None


def load_into(
    cluster: ScratchCluster,
    database: str,
    dataset: Dataset,
    conditions: Conditions,
    progress: Progress,
) -> Target:
    """Load the dataset into a database of a scratch cluster, made if it is not there; return it."""
    target = cluster.target.with_database(database)
    with cluster.connect() as connection:
        known = connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", [database]
        ).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
    if dataset.kind == "existing":
        return target
    kind = kind_of(dataset)
    with connect(target, verb=conditions.verb) as connection:
        present = datasets.inspect(connection, kind)
        refuse_too_few_locks(connection, dataset)
    if not _fits(present, dataset):
        place = f", database {database}" if database != LOAD_DATABASE else ""
        progress.said(
            f"loading {kind.label(dataset)} into PostgreSQL {cluster.binaries.version}{place}"
        )
        is_large = kind.tables_bytes(dataset) >= _LARGE_BYTES
        verb, clock = conditions.verb, conditions.clock
        if is_large:
            progress.said("until the tables are loaded, fsync is off and wal_level is minimal")
            load_scratch(cluster, dataset, target, clock=clock, verb=verb, progress=progress)
        else:
            how = Loading(drop_existing=present.state != "none")
            load_dataset(dataset, target, clock=clock, verb=verb, progress=progress, how=how)
        if conditions.check:
            require_consistent(dataset, target, verb=conditions.verb, progress=progress)
    return target


def _fits(present: datasets.Dataset, wanted: Dataset) -> bool:
    """Return whether a kept dataset is just the one that is wanted."""
    wanted_options = kind_of(wanted).mark_options(wanted, None)
    return present.state == "complete" and present.options == wanted_options


def reached(
    experiment: Experiment,
    conditions: Conditions,
    target: Target,
    progress: Progress,
    *,
    dsn: str | None = None,
) -> UnderTest:
    """Return a server of the user's own, safe to load.

    Args: dsn, of the variants that mean this server; None for those that name none.
    Raises: ServerError, SpecError, RefusedError.
    """
    refuse_what_the_engine_lacks(target)
    server = experiment.server
    with connect(target, verb=conditions.verb, patient=True) as connection:
        target = pinned(target, connection)
        is_pooled = is_pooler(connection)
        _refuse_where_writes_fail(connection, target, experiment, conditions, dsn)
    host_command = command_to_host(ssh=server.ssh, host_shell=server.host_shell)
    console = console_of(server.pooler)
    if is_pooled:
        pooler = pooler_at(target, console, conditions.verb, progress, server.observe)
        pooler.refuse(experiment.protocols_of(dsn))
        console = pooler.console
    observe = target if server.observe is None else resolve(conninfo=server.observe).target
    with connect(observe, verb=conditions.verb, patient=True) as connection:
        observe = pinned(observe, connection)
        facts = server_facts.collect(connection, observe)
    direct = None if server.observe is None else observe
    if facts.is_local and host_command is not None:
        progress.said(way_unused("--ssh" if server.ssh is not None else "--host-shell"))
        host_command = None
    dataset_of = _datasets_used(experiment)
    for name in sorted({dataset_of.get(shape.program, "") for shape in conditions.scripts} - {""}):
        is_there = facts.dataset.kind == name
        datasets.require_complete(facts.dataset if is_there else datasets.absent(name))
    safety.refuse_unsafe_load(
        safety.Intent(
            is_scratch=False,
            database=facts.database,
            host=facts.host,
            scripts_writing=_scripts_writing(experiment, conditions, facts),
            others=facts.others,
            allow_write=conditions.permissions.allow_write,
            confirmed=conditions.permissions.confirm,
        )
    )
    has_room_to_probe = True
    if not is_pooled:
        has_room_to_probe = _require_room(experiment, facts)
        refuse_what_does_not_fit(experiment, conditions, observe, progress, is_local=facts.is_local)
    return UnderTest(
        target=target,
        observe=_apart_from_the_load(observe, conditions.verb),
        cluster=None,
        facts=facts,
        verb=conditions.verb,
        direct=direct,
        is_pooled=is_pooled,
        has_room_to_probe=has_room_to_probe,
        pooler=console,
        host_command=host_command,
        host_files=server.host_files,
    )


def _refuse_where_writes_fail(
    connection: Connection,
    target: Target,
    experiment: Experiment,
    conditions: Conditions,
    dsn: str | None,
) -> None:
    """Raise RefusedError if a script of this server writes and its session may not."""
    row = connection.execute(
        "SELECT current_setting('transaction_read_only') = 'on', pg_is_in_recovery()"
    ).fetchone()
    is_read_only, is_standby = row if row is not None else (False, False)
    if not is_read_only:
        return
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
        for shape in conditions.scripts
        if (shape.program or shape.name) in known and not shape.reads_only and shape.weight > 0
    ]
    safety.refuse_read_only_session(target.place, writing, is_standby=is_standby)


def _datasets_used(experiment: Experiment) -> dict[str, str]:
    """Return, by name, the datasets of the built-ins: each uses no other tables."""
    known = engine_facts() if any(script.builtin for script in experiment.all_scripts()) else None
    return {
        script.name: builtin.dataset
        for script in experiment.all_scripts()
        if known is not None and (builtin := known.builtin(script.builtin))
    }


def _scripts_writing(
    experiment: Experiment, conditions: Conditions, facts: ServerFacts
) -> tuple[str, ...]:
    """Return the scripts that write to tables which pgdyno may not have made.

    A built-in writes to the tables of its dataset alone; a file may write anywhere.
    """
    owned = facts.dataset.kind if facts.dataset.is_marked else None
    dataset_of = _datasets_used(experiment)
    return tuple(
        shape.name
        for shape in conditions.scripts
        if not (shape.reads_only or (owned and dataset_of.get(shape.program) == owned))
    )


# Every server has it, and nothing keeps others from using it while we are there, as in template1.
_DATABASE_APART = "postgres"


def _require_room(experiment: Experiment, facts: ServerFacts) -> bool:
    """Return whether the server admits one more connection than the load and ours.

    Raises: RefusedError if it does not admit these.
    """
    # The control connection that asked is counted as used, and is closed by now.
    room = replace(facts.connections, used_count=max(0, facts.connections.used_count - 1))
    safety.refuse_too_many_connections(
        room,
        load=experiment.connections_max(),
        control=CONTROL_CONNECTIONS,
        in_words=experiment.connections_in_words(),
    )
    return room.free > experiment.connections_max() + CONTROL_CONNECTIONS


def _apart_from_the_load(observe: Target, verb: str) -> Target:
    """Return the way to a database in which our own sessions are not in the load's statistics.

    Returns: `observe` itself where the role may not connect to another database.
    """
    if observe.database == _DATABASE_APART:
        return observe
    apart = observe.with_database(_DATABASE_APART)
    try:
        with connect(apart, verb=verb):
            return apart
    except (psycopg.Error, PgdynoError):
        return observe


def scratch_places(asked: Scratch, store_dir: Path) -> list[Path]:
    """Return the folders in which a scratch cluster of a killed command may lie."""
    named = os.environ.get("PGDYNO_DATA")
    places = [asked.data_dir, store_dir, Path(named) if named else None, LAST_PLACE]
    return [*dict.fromkeys(place for place in places if place is not None and place.is_dir())]
