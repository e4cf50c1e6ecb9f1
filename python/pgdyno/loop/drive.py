"""Carry an experiment out: plan.next -> run -> store -> analysis -> plan.next, until Stop."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.analysis.warmup import warmup_cut
from pgdyno.clock import read_pair
from pgdyno.engine.records import ScriptShape
from pgdyno.engine.stream import check_job, engine_error
from pgdyno.errors import AnalysisError, EngineError, InterruptedByUser, PgdynoError
from pgdyno.loop.answer import answer_of
from pgdyno.loop.journal import decided, visits
from pgdyno.loop.load_numbers import load_numbers
from pgdyno.plan.history import History, Measured
from pgdyno.plan.next import next_run, runs_expected
from pgdyno.run.execute import Executed, Stage, execute
from pgdyno.run.jobs import engine_target, load_job
from pgdyno.run.progress import Progress
from pgdyno.run.under_test import Conditions, opened
from pgdyno.server.conninfo import Resolved
from pgdyno.server.facts import ServerFacts, format_bytes, target_line
from pgdyno.server.target import Target
from pgdyno.spec.experiment import Experiment, Permissions
from pgdyno.spec.planned import Cell, PlannedRun
from pgdyno.spec.toml import to_toml
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.stored_run import StoredRun

_NOWHERE = Target(host="/", ports="5432", user="check", database="check")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an experiment; `error` says why it ended early, `findings` what is known."""

    folder: ExperimentFolder | None
    findings: ExperimentFindings | None
    error: PgdynoError | None


def carry_out(
    experiment: Experiment,
    *,
    verb: str,
    resolved: Resolved | None,
    permissions: Permissions,
    store: Store,
    progress: Progress,
) -> Outcome:
    """Carry the experiment out and return its answer, also when it was interrupted or broke off.

    Raises: SpecError, RefusedError or ServerError when not a single run could be begun.
    """
    clock = read_pair()
    scripts = _checked_scripts(experiment)
    conditions = Conditions(
        verb=verb,
        target=resolved.target if resolved else None,
        permissions=permissions,
        scripts=scripts,
        clock=clock,
        store_dir=store.root,
    )
    folder: ExperimentFolder | None = None
    error: PgdynoError | None = None
    try:
        with opened(experiment, conditions, progress) as under_test:
            folder = store.create(experiment.name, verb)
            folder.write_spec(to_toml(experiment))
            folder.write_facts(_facts(under_test.facts))
            progress.said(f"target  {target_line(under_test.facts)}")
            read_only = not under_test.is_scratch and all(s.reads_only for s in scripts)
            stage = Stage(experiment, under_test, folder, clock, progress, read_only)
            error = _loop(stage)
    except PgdynoError as seen:
        if folder is None:
            raise
        error = error or seen
    return Outcome(folder, _answer(folder, error), error)


def _loop(stage: Stage) -> PgdynoError | None:
    """Do what the planner says until it says Stop; return what ended it early, if anything did."""
    experiment, folder = stage.experiment, stage.folder
    seed = experiment.workload.seed
    history: History = ()
    while True:
        decision = next_run(experiment, seed, history)
        decided(folder, decision)
        if not isinstance(decision, PlannedRun):
            return None
        expected = runs_expected(experiment, history)
        position = f"run {decision.number} of {expected}" if expected > 1 else ""
        done = execute(decision, stage, position=position)
        if ended := _why_ended(done):
            return ended
        assert done.stored is not None
        history = (*history, _measured(decision, done.stored))


def _why_ended(done: Executed) -> PgdynoError | None:
    """Return the error or interrupt that this run ended with; None when it was done."""
    outcome = done.outcome
    if outcome.interrupted is not None:
        return outcome.interrupted
    if outcome.failures:
        return engine_error(outcome.failures[0])
    if outcome.summary is None:
        return EngineError(
            f"The load engine was lost during the run (exit code {outcome.exit_code}). "
            f"Its last words: {outcome.log_tail or 'none'}.",
            hint="what was measured until then is kept and listed as incomplete",
        )
    if outcome.summary.ending == "stopped":
        return InterruptedByUser("The load engine was told to stop.")
    return None


def _measured(planned: PlannedRun, stored: StoredRun) -> Measured:
    numbers = load_numbers(stored)
    settled_ns = None
    if planned.purpose == "pilot":
        try:
            settled_ns = warmup_cut(numbers.counts_100ms, numbers.interval_ns).cut_ns
        except AnalysisError:
            settled_ns = None
    return Measured(planned, numbers.tps.value, settled_ns)


def _answer(
    folder: ExperimentFolder | None, error: PgdynoError | None
) -> ExperimentFindings | None:
    """Return the findings; when the experiment broke off, of as much as there is."""
    if folder is None or (error is not None and not _has_something(folder)):
        return None
    try:
        return answer_of(folder)
    except PgdynoError:
        if error is None:
            raise
        return None


def _has_something(folder: ExperimentFolder) -> bool:
    return any(visit.planned.purpose != "pilot" for visit in visits(folder))


def _checked_scripts(experiment: Experiment) -> tuple[ScriptShape, ...]:
    """Let the engine judge the scripts before anything is started.

    Raises: SpecError with file, line, column and caret.
    """
    indexes = tuple(range(len(experiment.workload.scripts)))
    planned = PlannedRun(
        number=1,
        purpose="detail",
        round=1,
        cell=Cell(indexes, experiment.clients_max(), experiment.workload.rate_tps),
        warm_ns=0,
        measure_ns=experiment.workload.duration_ns,
        seed=experiment.workload.seed,
    )
    job = load_job(
        experiment,
        planned,
        target=engine_target(_NOWHERE, "pgdyno/check"),
        clock=read_pair(),
        scale=1,
        read_only=False,
    )
    return check_job(job)


def _facts(facts: ServerFacts) -> dict[str, Any]:
    """Return what results show of the server and of this host."""
    weakened = facts.weakened_durability
    durability = ", ".join(f"{name} {value}" for name, value in facts.durability.items())
    rows = [
        ("PostgreSQL", facts.version),
        ("data", format_bytes(facts.database_size_bytes)),
        ("shared_buffers", format_bytes(facts.shared_buffers_bytes)),
    ]
    if facts.ram_bytes:
        rows.append(("RAM", format_bytes(facts.ram_bytes)))
    if facts.data_storage is not None:
        rows.append(("disk", f"{facts.data_storage.file_system} on {facts.data_storage.device}"))
    rows.append(("load host", f"{platform.node()}, {platform.system()} {platform.release()}"))
    rows.append(("pgdyno", version("pgdyno")))
    return {
        "server": facts.as_document(),
        "target_line": target_line(facts),
        "durability_line": durability + (f": {', '.join(weakened)} weakened" if weakened else ""),
        "is_durable": not weakened,
        "rows": rows,
        "settings": dict(facts.settings),
    }
