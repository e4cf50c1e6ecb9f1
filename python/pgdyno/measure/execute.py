"""Carries out one planned run, from the reset to the stored result.

The order of the steps is: reset, totals, begin of observing, engine (connect, prepare, warm up,
measure, drain), totals, end of observing, store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import psycopg

from pgdyno.clock import ClockPair, read_pair
from pgdyno.doctor.checkup import Checkup
from pgdyno.engine.job import Job
from pgdyno.engine.records import Record, ScriptShape, raw_record
from pgdyno.engine.stream import EngineOutcome, EngineRun
from pgdyno.errors import PgdynoError
from pgdyno.measure.before_after import Around, totals, totals_after
from pgdyno.measure.consistency import Begun, checked_after_run, conditions_after, noted_before_run
from pgdyno.measure.host_access import lay_files, observed_pooler
from pgdyno.measure.jobs import engine_target, is_probed, load_job
from pgdyno.measure.last_words import quoting_the_log, words_of_log
from pgdyno.measure.load_hosts import load_on_hosts
from pgdyno.measure.preparing import prepared
from pgdyno.measure.run_progress import Brake, Moment, Progress, RunWatch
from pgdyno.measure.servers import Servers, Spent
from pgdyno.measure.statement_counters import (
    StatementCounters,
    growth_document,
    make_countable,
    read_counters,
)
from pgdyno.measure.statement_texts import read_texts
from pgdyno.measure.under_test import UnderTest
from pgdyno.observe.collector import Notice, NoticeKind
from pgdyno.observe.nodes.session import observed_nodes
from pgdyno.observe.observer import ObservedServer, Observer
from pgdyno.observe.sql.waits import OWN_PREFIX
from pgdyno.observe.totals import Totals, restarted_ns, totals_between
from pgdyno.programs.mirror.job import source_document
from pgdyno.server.connect import connect
from pgdyno.server.explain import plans_of, query_ids_of
from pgdyno.server.reset import Reset
from pgdyno.server.server_facts import ServerFacts
from pgdyno.spec.condition import Condition
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.run_writer import RunWriter
from pgdyno.store.stored_run import StoredRun

if TYPE_CHECKING:
    from pgdyno.hosts.run import HostsRun


@dataclass(frozen=True, slots=True)
class Stage:
    """What the runs of one experiment share: its servers, its folder, its clock, its scripts."""

    experiment: Experiment
    servers: Servers
    scripts: tuple[ScriptShape, ...]
    folder: ExperimentFolder
    clock: ClockPair
    progress: Progress
    read_only: bool
    abort_if: tuple[Condition, ...] = ()
    checkup: Checkup = field(default_factory=Checkup)

    def shapes_of(self, planned: PlannedRun) -> list[ScriptShape]:
        """Return the scripts of a run as the engine has them; a program is one for each type."""
        left = list(self.scripts)
        by_script: list[list[ScriptShape]] = []
        for script in self.experiment.all_scripts():
            shapes = [left.pop(0)]
            while script.builtin and left and left[0].program == script.builtin != left[0].name:
                shapes.append(left.pop(0))
            by_script.append(shapes)
        return [shape for index in planned.cell.script_indexes for shape in by_script[index]]


@dataclass(frozen=True, slots=True)
class Executed:
    """A finished run. `stored` is None if the engine ended without a summary.

    `braked`: the condition of `--abort-if` that ended the run, "" if none did. `is_server_lost`:
    the server answered before the run and not after it. `words_of_log`: the last lines in the log
    of a scratch server that no longer answers. `spent_ns`: the time by `measure.servers.Part`.
    """

    stored: StoredRun | None
    outcome: EngineOutcome
    facts: ServerFacts
    braked: str
    is_server_lost: bool = False
    words_of_log: str = ""
    spent_ns: Mapping[str, int] = field(default_factory=dict)


def execute(planned: PlannedRun, stage: Stage, *, position: str) -> Executed:
    """Carry out one run and store it.

    An interrupt ends the load cleanly and is in the outcome. If an error ends the run, everything
    measured until then is in the store.
    Args: position, for the progress, such as "run 4 of 20".
    Raises: ServerError if the server cannot be prepared; StoreError if a write fails.
    """
    label = planned.label([script.name for script in stage.experiment.all_scripts()])
    stage.progress.moved(Moment(label, "preparing", position=position))
    spent = stage.servers.begin_run()
    under_test = stage.servers.ready(planned.cell.variant, planned.round, planned.server_number)
    with quoting_the_log(under_test):
        done = _execute(planned, stage, under_test, label=label, position=position)
    return replace(done, spent_ns=dict(spent.by_part_ns))


@dataclass(frozen=True, slots=True)
class _Ready:
    """A run whose server is prepared, with everything that was read before the load.

    `before`: the server's totals, None if they cannot be read. `may_probe`: the network may be
    measured while the load runs.
    """

    planned: PlannedRun
    stage: Stage
    under_test: UnderTest
    name: str
    label: str
    around: Around
    examined: dict[str, Any] | None
    reset: Reset
    plans: dict[str, dict[str, str]]
    before: Totals | None
    counters: StatementCounters | None
    begun: Begun | None
    job: Job
    may_probe: bool

    @property
    def application_name(self) -> str:
        """Return the name of the load's sessions."""
        return f"pgdyno/{self.under_test.verb}/{self.name}"


def _execute(
    planned: PlannedRun, stage: Stage, under_test: UnderTest, *, label: str, position: str
) -> Executed:
    ready = _made_ready(planned, stage, under_test, label)
    shapes = stage.shapes_of(planned)
    watch = RunWatch(planned, label, stage.progress, position=position, shapes=shapes)
    brake = Brake(stage.abort_if)
    with stage.folder.begin_run(planned.number, label, ready.job.without_secrets()) as writer:
        observer = _observer(stage, planned, ready.under_test, writer, ready.name)
        outcome, after = _loaded(ready, writer, observer, watch, brake)
        _write_after(ready, writer, observer, outcome, after)
        stored = writer.finish() if outcome.summary is not None else None
    return Executed(
        stored=stored,
        outcome=outcome,
        facts=ready.under_test.facts,
        braked=brake.why,
        is_server_lost=ready.before is not None and after is None,
        words_of_log=words_of_log(ready.under_test) if after is None else "",
    )


def _made_ready(planned: PlannedRun, stage: Stage, under_test: UnderTest, label: str) -> _Ready:
    """Reset the server, and read what must be read before the load."""
    name = f"{stage.folder.number}.{planned.number}"
    application_name = f"pgdyno/{under_test.verb}/{name}"
    around = Around(under_test, stage.clock, name)
    examined = around.doctor(stage.checkup, clients=_working_sessions(planned, stage))
    under_test, reset = _prepared(stage, under_test, name)
    plans = _plans(stage, planned, under_test, name)
    # The totals are read after EXPLAIN, so that EXPLAIN is not counted as work of the load.
    before = totals(under_test, name, application_name)
    counters = _counters(stage, under_test, name, is_first=True)
    begun = _begun(stage, planned, under_test, name)
    job, may_probe = _job(planned, stage, under_test, name, application_name)
    return _Ready(
        planned=planned,
        stage=stage,
        under_test=under_test,
        name=name,
        label=label,
        around=around,
        examined=examined,
        reset=reset,
        plans=plans,
        before=before,
        counters=counters,
        begun=begun,
        job=job,
        may_probe=may_probe,
    )


def _loaded(
    ready: _Ready, writer: RunWriter, observer: Observer, watch: RunWatch, brake: Brake
) -> tuple[EngineOutcome, Totals | None]:
    """Run the load while the server is observed; return its outcome and the totals after it."""
    spent = ready.stage.servers.spent
    observer.start()
    try:
        outcome = _drive(ready, writer, observer, watch, brake, spent)
        if not ready.before:
            return outcome, None
        # This waits for the end of the load's sessions, so the observer's last samples have all of
        # their work.
        after = totals_after(ready.under_test, ready.job, ready.name, ready.application_name)
        return outcome, after
    finally:
        observer.stop()
        ready.stage.progress.ended()


def _write_after(
    ready: _Ready,
    writer: RunWriter,
    observer: Observer,
    outcome: EngineOutcome,
    after: Totals | None,
) -> None:
    """Check the data, and write what was read before the load and after it."""
    stage, planned, under_test, name = ready.stage, ready.planned, ready.under_test, ready.name
    grown = growth_document(ready.counters, _counters(stage, under_test, name))
    consistency = _consistency(
        stage, planned, under_test, outcome, ready.begun, label=ready.label, name=name
    )
    laid = _lay_files(under_test, writer, outcome, ready.around)
    seen = ready.around.document(observer)
    not_probed = _not_probed(outcome, under_test) if ready.may_probe else ()
    for notice in (*ready.around.notices, *not_probed):
        writer.add_notice(notice)
    examined = stage.checkup.document_by_hand(under_test.host_files) or ready.examined
    if examined is not None:
        writer.write_json("doctor.json", examined)
    before = ready.before
    writer.write_json(
        "server.json",
        {
            "reset": ready.reset.as_document(),
            "totals": totals_between(before, after) if before and after else None,
            "restarted_ns": restarted_ns(before, after) if before and after else None,
            "statement_counters": grown,
            "source": _source(stage, planned),
            "plans": ready.plans,
            "query_ids": _query_ids(stage, planned, under_test, name),
            "statement_texts": read_texts(
                under_test.observe_within or under_test.observe, verb=under_test.verb, run=name
            ),
            **seen,
            "laid": laid,
            "consistency": consistency,
        },
    )


def _prepared(stage: Stage, under_test: UnderTest, name: str) -> tuple[UnderTest, Reset]:
    with stage.servers.spent.on("reset"):
        return prepared(stage.experiment, under_test, name)


def _job(
    planned: PlannedRun, stage: Stage, under_test: UnderTest, name: str, application_name: str
) -> tuple[Job, bool]:
    """Return the job of a run, and whether the network may be measured while the load runs."""
    is_pooled = under_test.direct is not None or under_test.is_pooled
    target = engine_target(under_test.target, application_name, follows=True)
    workload = stage.experiment.workload_of(planned.cell.variant)
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
        probe_name=f"{OWN_PREFIX}{name}" if may_probe and under_test.has_room_to_probe else None,
    )
    return job, may_probe


# The longest time between two probes is a tenth of this.
_PROBED_NS = 1_000_000_000


def _not_probed(outcome: EngineOutcome, under_test: UnderTest) -> Iterator[dict[str, Any]]:
    """Yield a notice with the reason if the network was not measured while the load ran."""
    if outcome.summary is None or outcome.summary.traffic.round_trip_probes is not None:
        return
    span = outcome.summary.span("measure")
    if span is None or span.ended_ns - span.began_ns < _PROBED_NS:
        return  # The run was too short for a probe.
    has_room = under_test.has_room_to_probe
    why = "its connection was refused or lost" if has_room else "no connection was free for it"
    yield Notice(
        read_pair().now_ns(),
        NoticeKind.NETWORK_NOT_PROBED,
        f"The network was not measured while the load ran, because {why}. Its part of the latency "
        "is from the time before the load.",
        "let the server admit one connection more (max_connections)",
    ).as_record()


def _consistency(
    stage: Stage,
    planned: PlannedRun,
    under_test: UnderTest,
    outcome: EngineOutcome,
    begun: Begun | None,
    *,
    label: str,
    name: str,
) -> dict[str, Any] | None:
    """Return the result of the data check; None if there is nothing to check.

    After an interrupt nothing is checked, because the user waits for the end.
    """
    conditions = conditions_after(under_test.facts.dataset, stage.shapes_of(planned))
    if not (stage.experiment.check and conditions) or outcome.summary is None:
        return None
    if outcome.interrupted is not None:
        return {"why_not": "the run was interrupted"}
    stage.progress.moved(Moment(label, "checking the data"))
    return checked_after_run(lambda: under_test.control(name), conditions, begun)


def _begun(stage: Stage, planned: PlannedRun, under_test: UnderTest, name: str) -> Begun | None:
    """Return what tells the orders of this run; None if nothing is checked after it."""
    if not stage.experiment.check:
        return None
    shapes = stage.shapes_of(planned)
    return noted_before_run(lambda: under_test.control(name), under_test.facts.dataset, shapes)


def _counters(
    stage: Stage, under_test: UnderTest, name: str, *, is_first: bool = False
) -> StatementCounters | None:
    """Return the counters of all statements, if the program of the load needs them."""
    if not stage.experiment.program.counts_statements:
        return None
    if is_first and under_test.is_scratch:
        with under_test.control(name) as connection:
            make_countable(connection)
    target = under_test.observe_within or under_test.observe
    return read_counters(target, verb=under_test.verb, run=name)


def _source(stage: Stage, planned: PlannedRun) -> dict[str, Any] | None:
    """Return what a mirror keeps of its source; None for other loads."""
    known = stage.experiment.all_scripts()
    scripts = [known[index] for index in planned.cell.script_indexes]
    if len(scripts) != 1 or scripts[0].capture is None:
        return None
    return source_document(scripts[0])


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
        return plans_of(control, _texts(stage, planned))


def _query_ids(
    stage: Stage, planned: PlannedRun, under_test: UnderTest, name: str
) -> dict[str, dict[str, list[int]]]:
    """Return the query ids of the run's statements; nothing if the server is gone.

    Call it after the load, because the engine may have created procedures that a program calls.
    """
    try:
        with under_test.control(name) as control, under_test.control(name) as onlooker:
            return query_ids_of(control, onlooker, _texts(stage, planned))
    except (psycopg.Error, PgdynoError):
        return {}


def _texts(stage: Stage, planned: PlannedRun) -> dict[str, list[tuple[int, str]]]:
    """Return script -> line and text of each statement."""
    return {
        script.name: [(statement.line, statement.text) for statement in script.statements]
        for script in stage.shapes_of(planned)
    }


def _observer(
    stage: Stage, planned: PlannedRun, under_test: UnderTest, writer: RunWriter, name: str
) -> Observer:
    facts = under_test.facts
    workload = stage.experiment.workload_of(planned.cell.variant)
    within = under_test.observe_within
    folders: dict[str, Path] = {}
    if facts.data_storage is not None:
        folders["data"] = Path(facts.data_storage.path)
    return Observer(
        clock=stage.clock,
        sink=writer,
        run=name,
        server=ObservedServer(
            connect=lambda: connect(under_test.observe, verb="observe", run=name),
            database=under_test.database,
            load_application_name=f"pgdyno/{under_test.verb}/{name}",
            is_local=facts.is_local,
            is_scratch=under_test.is_scratch,
            postmaster_pid=facts.postmaster_pid,
            load_sessions=workload.connections_of(planned.cell.clients),
            connect_within=None
            if within is None
            else lambda: connect(within, verb="observe", run=name),
            nodes=observed_nodes(
                facts.nodes, within or under_test.observe, run=name, is_local=facts.is_local
            ),
        ),
        pooler=observed_pooler(under_test.pooler, name) if under_test.pooler else None,
        host=under_test.host_command,
        folders=folders,
        seed=stage.experiment.workload.seed,
    )


def _lay_files(
    under_test: UnderTest, writer: RunWriter, outcome: EngineOutcome, around: Around
) -> dict[str, int]:
    """Add the rows of this run's time from files that the user made on the server's host.

    Returns: table -> number of rows. A file that cannot be read becomes a notice.
    """
    summary = outcome.summary
    if summary is None or not under_test.host_files:
        return {}
    try:
        return lay_files(
            under_test.host_files,
            writer,
            began_ns=min(span.began_ns for span in summary.phases),
            ended_ns=max(span.ended_ns for span in summary.phases),
            ahead_ns=around.ahead_ns,
        )
    except PgdynoError as error:
        kind = NoticeKind.HOST_FILE_NOT_READ
        writer.add_notice(Notice(summary.time_ns, kind, error.message, error.hint).as_record())
        return {}


def _drive(
    ready: _Ready,
    writer: RunWriter,
    observer: Observer,
    watch: RunWatch,
    brake: Brake,
    spent: Spent,
) -> EngineOutcome:
    # The file is in the folder of the run, so that it is found if the lab is killed.
    said = writer.folder / "engine.stderr"
    try:
        with spent.on_load(), said.open("wb") as log, _engine_of(ready, log) as engine:
            if engine.pid is not None:
                observer.watch_engine(engine.pid)

            def keep(line: bytes, record: Record) -> None:
                writer.add_record(raw_record(line))
                watch.see(record)
                ready.around.look_at_clock()
                if brake.see(record):
                    engine.stop()

            outcome = engine.run(keep)
            if engine.hosts:
                document = [host.model_dump(mode="json") for host in engine.hosts]
                writer.write_json("hosts.json", {"hosts": document})
            return outcome
    finally:
        writer.add_engine_log(said.read_text(errors="replace"))
        said.unlink()


def _engine_of(ready: _Ready, log: IO[bytes]) -> EngineRun | HostsRun:
    """Return the engine that makes the load: one here, or one on each load host."""
    fleet, planned = ready.stage.servers.fleet, ready.planned
    if fleet is None:
        return EngineRun(ready.job, log=log)
    workload = ready.stage.experiment.workload_of(planned.cell.variant)
    return load_on_hosts(
        fleet,
        ready.job,
        ready.stage.clock,
        connections=workload.working_connections(planned.cell.clients),
        threads=workload.threads,
        log=log,
    )
