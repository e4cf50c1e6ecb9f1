"""Prepares the server for one run, and reads what must be read before the load.

`execute.py` gives the result to `observed_load.py`, which makes the load, and to `after_load.py`,
which reads the same again and stores the differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgdyno.engine.job import EngineTarget, Job
from pgdyno.measure.before_after import BeforeAfter, totals
from pgdyno.measure.consistency import Examination, note_before_run
from pgdyno.measure.jobs import engine_target, is_probed, load_job
from pgdyno.measure.preparing import is_filled, prepare_server
from pgdyno.measure.servers import Servers
from pgdyno.measure.setup import Setup
from pgdyno.measure.statement_counters import Counters, make_countable, read_counters
from pgdyno.measure.under_test import UnderTest
from pgdyno.observe.sql.waits import OWN_PREFIX
from pgdyno.observe.totals import Totals
from pgdyno.server.explain import plans_of
from pgdyno.server.reset import Reset
from pgdyno.spec.experiment import Workload
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
