"""Prepares the server for one run, and reads what must be read before the load.

`execute.py` gives the result to `observed_load.py`, which makes the load, and to `after_load.py`,
which reads the same again and stores the differences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from psycopg import sql

from pgdyno.engine.job import EngineTarget, Job
from pgdyno.measure.before_after import BeforeAfter, totals
from pgdyno.measure.consistency import Examination, note_before_run
from pgdyno.measure.jobs import engine_target, is_probed, load_job
from pgdyno.measure.servers import Servers
from pgdyno.measure.setup import Setup
from pgdyno.measure.statement_counters import Counters, read_counters
from pgdyno.measure.under_test import UnderTest
from pgdyno.observe.sql.waits import OWN_PREFIX
from pgdyno.observe.totals import Totals
from pgdyno.server import server_facts
from pgdyno.server.connect import Connection, connect
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.server.explain import plans_of
from pgdyno.server.new_database import make_countable
from pgdyno.server.reset import (
    Reset,
    ResetStep,
    make_cold,
    no_reset,
    prewarm,
    reset,
    restore_database,
)
from pgdyno.spec.experiment import CacheState, Experiment, ResetMode, Workload
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.folder import ExperimentFolder

_RESET_WORDS = {
    "none": "counting dead rows",
    "vacuum": "vacuum and checkpoint",
    "restore": "copy of the database, vacuum and checkpoint",
}


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run whose server is prepared, with everything that was read before the load.

    `name`: for connections and messages, such as "12.3" (experiment 12, run 3).
    `examined`: the document of the doctor. `plans`: script -> line of the statement -> plan of
    EXPLAIN. `totals`: the server's counters, None if they cannot be read. `counters`: of all
    statements, None if the program does not need them. `examination`: what the program checks of
    its data after the load, None if nothing. `job`: the order for the engine.
    """

    planned: PlannedRun
    setup: Setup
    servers: Servers
    under_test: UnderTest
    name: str
    before_after: BeforeAfter
    examined: dict[str, Any] | None
    reset: Reset
    plans: dict[str, dict[str, str]]
    totals: Totals | None
    counters: Counters | None
    examination: Examination | None
    job: Job


def prepare_run(
    planned: PlannedRun,
    setup: Setup,
    servers: Servers,
    under_test: UnderTest,
    folder: ExperimentFolder,
) -> PreparedRun:
    """Reset the server, and read what must be read before the load."""
    progress = setup.progress
    name = f"{folder.number}.{planned.number}"
    before_after = BeforeAfter(under_test, setup.clock, name)
    with progress.doing("checking server and host before the run"):
        examined = before_after.doctor(servers.checkup, clients=_working_sessions(planned, setup))
    reset_words = _RESET_WORDS[setup.experiment.reset]
    if is_filled(setup.experiment.cache, under_test):
        reset_words += ", data read into shared_buffers"
    with servers.spent.on("reset"), progress.doing(f"{reset_words} before the run"):
        under_test, reset = prepare_server(setup.experiment, under_test, name)
    return PreparedRun(
        planned=planned,
        setup=setup,
        servers=servers,
        under_test=under_test,
        name=name,
        before_after=before_after,
        examined=examined,
        reset=reset,
        plans=_plans(setup, planned, under_test, name),
        # The totals are read after EXPLAIN, so that EXPLAIN is not counted as work of the load.
        totals=totals(under_test, name),
        counters=_counters(setup, under_test, name),
        examination=_examination(setup, planned, under_test, name),
        job=_job(planned, setup, servers, under_test, name),
    )


def may_probe(under_test: UnderTest, target: EngineTarget, workload: Workload) -> bool:
    """Return whether the network may be measured while the load runs."""
    # Through a pooler a round trip would include the wait for a pooled session.
    is_pooled = under_test.direct is not None or under_test.is_pooled
    return not is_pooled and is_probed(target, workload)


def _working_sessions(planned: PlannedRun, setup: Setup) -> int:
    """Return the maximum of sessions of the load that are at work at the same time."""
    workload = setup.experiment.workload_of(planned.cell.variant)
    return workload.connections_of(planned.cell.clients) - workload.idle_connections


def _plans(
    setup: Setup, planned: PlannedRun, under_test: UnderTest, name: str
) -> dict[str, dict[str, str]]:
    """Return the plans of the run's statements; nothing without variants."""
    if planned.cell.variant is None:
        return {}
    with under_test.control(name) as control:
        return plans_of(control, setup.texts_of(planned))


def _counters(setup: Setup, under_test: UnderTest, name: str) -> Counters | None:
    """Return the counters of all statements, if the program of the load needs them."""
    if not setup.experiment.program.counts_statements:
        return None
    if under_test.is_scratch:
        with under_test.control(name) as connection:
            make_countable(connection)
    target = under_test.observe_within or under_test.observe
    return read_counters(target, verb=under_test.verb, run=name)


def _examination(
    setup: Setup, planned: PlannedRun, under_test: UnderTest, name: str
) -> Examination | None:
    """Return what the program examines after the run; it notes now what it needs for that.

    Example: the last order of each district, so that the check knows the orders of this run.
    """
    if not setup.experiment.check:
        return None
    shapes = setup.shapes_of(planned)
    return note_before_run(lambda: under_test.control(name), under_test.facts.dataset, shapes)


def _job(
    planned: PlannedRun, setup: Setup, servers: Servers, under_test: UnderTest, name: str
) -> Job:
    workload = setup.experiment.workload_of(planned.cell.variant)
    connections = workload.working_connections(planned.cell.clients)
    fleet = servers.fleet
    target = engine_target(under_test.target, under_test.application_name(name), follows=True)
    probes = under_test.has_room_to_probe and may_probe(under_test, target, workload)
    return load_job(
        setup.experiment,
        planned,
        target=target,
        clock=setup.clock,
        scale=under_test.facts.dataset.scale,
        # A pooler refuses settings in the start-up message.
        read_only=setup.is_read_only and not under_test.is_pooled,
        threads=None if fleet is None else fleet.threads_for(connections, workload.threads),
        probe_name=f"{OWN_PREFIX}{name}" if probes else None,
    )


# Extensions with views for the counts of libraries that may be loaded.
_COUNTING = ["pg_stat_statements", "pg_wait_sampling"]
_MISSING_SQL = (
    "SELECT name FROM pg_catalog.pg_available_extensions"
    " WHERE name = ANY(%s) AND installed_version IS NULL"
    " AND strpos(current_setting('shared_preload_libraries'), name) > 0"
)


def prepare_server(
    experiment: Experiment, under_test: UnderTest, name: str
) -> tuple[UnderTest, Reset]:
    """Bring the server to the state from which every run of the experiment starts.

    Returns: the server, which was restarted if the cache shall be cold, and the steps taken.
    Raises: ServerError if a step fails.
    """
    done = _reset(experiment.reset, under_test, name)
    under_test, steps = _prepare_cache(experiment.cache, under_test, name)
    return under_test, replace(done, steps=(*done.steps, *steps))


def _reset(mode: ResetMode, under_test: UnderTest, name: str) -> Reset:
    first: tuple[ResetStep, ...] = ()
    if mode == "restore" and under_test.cluster is not None:
        with under_test.cluster.connect(verb=under_test.verb, run_name=name) as control:
            first = (restore_database(control, under_test.target.database),)
    with under_test.control(name) as control:
        if under_test.is_scratch:
            _make_extensions(control)
        dataset = under_test.facts.dataset
        if mode == "none":
            done = no_reset(control, dataset)
        else:
            done = reset(control, dataset, is_scratch=under_test.is_scratch)
    return replace(done, steps=(*first, *done.steps))


def _make_extensions(control: Connection) -> None:
    """Create the extensions of the loaded libraries in a database of a scratch server."""
    for (name,) in control.execute(_MISSING_SQL, [_COUNTING]).fetchall():
        control.execute(sql.SQL("CREATE EXTENSION {} SCHEMA public").format(sql.Identifier(name)))


def is_filled(state: CacheState, under_test: UnderTest) -> bool:
    """Return whether a run begins with reading the data into shared_buffers.

    A warm cache is as the run before left it; after a start of a scratch server it is empty.
    """
    cluster = under_test.cluster
    return state == "prewarm" or (
        state == "warm" and cluster is not None and cluster.is_cache_empty
    )


def _prepare_cache(
    state: CacheState, under_test: UnderTest, name: str
) -> tuple[UnderTest, tuple[ResetStep, ...]]:
    cluster = under_test.cluster
    if is_filled(state, under_test):
        with under_test.control(name) as control:
            step = prewarm(control, is_scratch=under_test.is_scratch)
        if cluster is not None:
            cluster.is_cache_empty = False
        return under_test, (step,)
    if state == "cold":
        assert cluster is not None, "only a scratch server is stopped for this"
        step = make_cold(cluster)
        target = under_test.direct or under_test.target
        with connect(target, verb=under_test.verb, patient=True) as connection:
            kind = KINDS[under_test.facts.dataset.kind]
            facts = server_facts.collect(connection, target, kind)
        return replace(under_test, facts=facts), (step,)
    return under_test, ()
