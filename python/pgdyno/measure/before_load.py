"""Prepares the server for one run, and reads what must be read before the load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgdyno.engine.job import Job
from pgdyno.measure.before_after import BeforeAfter, totals
from pgdyno.measure.consistency import ProgramNotes, note_before_run
from pgdyno.measure.jobs import engine_target, is_probed, load_job
from pgdyno.measure.preparing import prepare_server
from pgdyno.measure.stage import Stage
from pgdyno.measure.statement_counters import Counters, make_countable, read_counters
from pgdyno.measure.under_test import UnderTest
from pgdyno.observe.sql.waits import OWN_PREFIX
from pgdyno.observe.totals import Totals
from pgdyno.server.explain import plans_of
from pgdyno.server.reset import Reset
from pgdyno.spec.planned import PlannedRun

_RESET_WORDS = {
    "none": "counting dead rows",
    "vacuum": "vacuum and checkpoint",
    "restore": "copy of the database, vacuum and checkpoint",
}


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run whose server is prepared, with everything that was read before the load.

    `name`: for connections and messages, such as "12.3" (experiment 12, run 3). `label`: for
    readers, such as "64 clients". `examined`: the document of the doctor. `plans`: script -> line
    of the statement -> plan of EXPLAIN. `before`: the server's totals, None if they cannot be read.
    `notes`: what the program keeps about its data for the check after the load. `may_probe`: the
    network may be measured while the load runs.
    """

    planned: PlannedRun
    stage: Stage
    under_test: UnderTest
    name: str
    label: str
    before_after: BeforeAfter
    examined: dict[str, Any] | None
    reset: Reset
    plans: dict[str, dict[str, str]]
    before: Totals | None
    counters: Counters | None
    notes: ProgramNotes | None
    job: Job
    may_probe: bool

    @property
    def application_name(self) -> str:
        """Return the name of the load's sessions."""
        return f"pgdyno/{self.under_test.verb}/{self.name}"


def prepare_run(
    planned: PlannedRun, stage: Stage, under_test: UnderTest, label: str
) -> PreparedRun:
    """Reset the server, and read what must be read before the load."""
    name = f"{stage.folder.number}.{planned.number}"
    application_name = f"pgdyno/{under_test.verb}/{name}"
    before_after = BeforeAfter(under_test, stage.clock, name)
    with stage.progress.doing("checking server and host before the run"):
        examined = before_after.doctor(stage.checkup, clients=_working_sessions(planned, stage))
    reset_words = _RESET_WORDS[stage.experiment.reset]
    with stage.servers.spent.on("reset"), stage.progress.doing(f"{reset_words} before the run"):
        under_test, reset = prepare_server(stage.experiment, under_test, name)
    plans = _plans(stage, planned, under_test, name)
    # The totals are read after EXPLAIN, so that EXPLAIN is not counted as work of the load.
    before = totals(under_test, name, application_name)
    counters = _counters(stage, under_test, name)
    notes = _program_notes(stage, planned, under_test, name)
    job, may_probe = _job(planned, stage, under_test, name, application_name)
    return PreparedRun(
        planned=planned,
        stage=stage,
        under_test=under_test,
        name=name,
        label=label,
        before_after=before_after,
        examined=examined,
        reset=reset,
        plans=plans,
        before=before,
        counters=counters,
        notes=notes,
        job=job,
        may_probe=may_probe,
    )


def _working_sessions(planned: PlannedRun, stage: Stage) -> int:
    """Return the maximum of sessions of the load that are at work at the same time."""
    workload = stage.experiment.workload_of(planned.cell.variant)
    return workload.connections_of(planned.cell.clients) - workload.idle_connections


def _plans(
    stage: Stage, planned: PlannedRun, under_test: UnderTest, name: str
) -> dict[str, dict[str, str]]:
    """Return the plans of the run's statements; nothing without variants."""
    if planned.cell.variant is None:
        return {}
    with under_test.control(name) as control:
        return plans_of(control, stage.texts_of(planned))


def _counters(stage: Stage, under_test: UnderTest, name: str) -> Counters | None:
    """Return the counters of all statements, if the program of the load needs them."""
    if not stage.experiment.program.counts_statements:
        return None
    if under_test.is_scratch:
        with under_test.control(name) as connection:
            make_countable(connection)
    target = under_test.observe_within or under_test.observe
    return read_counters(target, verb=under_test.verb, run=name)


def _program_notes(
    stage: Stage, planned: PlannedRun, under_test: UnderTest, name: str
) -> ProgramNotes | None:
    """Return what the program notes about its data; None if nothing is checked after the run.

    Example: the last order of each district, so that the check knows the orders of this run.
    """
    if not stage.experiment.check:
        return None
    shapes = stage.shapes_of(planned)
    return note_before_run(lambda: under_test.control(name), under_test.facts.dataset, shapes)


def _job(
    planned: PlannedRun, stage: Stage, under_test: UnderTest, name: str, application_name: str
) -> tuple[Job, bool]:
    """Return the job of a run, and whether the network may be measured while the load runs."""
    is_pooled = under_test.direct is not None or under_test.is_pooled
    target = engine_target(under_test.target, application_name, follows=True)
    workload = stage.experiment.workload_of(planned.cell.variant)
    fleet = stage.servers.fleet
    connections = workload.working_connections(planned.cell.clients)
    threads = None if fleet is None else fleet.threads_for(connections, workload.threads)
    # Through a pooler a round trip would include the wait for a pooled session.
    may_probe = not is_pooled and is_probed(target, workload)
    job = load_job(
        stage.experiment,
        planned,
        target=target,
        clock=stage.clock,
        scale=under_test.facts.dataset.scale,
        # A pooler refuses settings in the start-up message.
        read_only=stage.read_only and not under_test.is_pooled,
        threads=threads,
        probe_name=f"{OWN_PREFIX}{name}" if may_probe and under_test.has_room_to_probe else None,
    )
    return job, may_probe
