"""Carries an experiment out: next run -> measure -> store -> next run, until the design stops."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from pgdyno.clock import monotonic_ns, read_pair, reading_ns
from pgdyno.engine.records import ScriptShape
from pgdyno.engine.stream import check_job, engine_error
from pgdyno.errors import EngineError, InterruptedByUser, PgdynoError, ServerError
from pgdyno.loop.history import history_of, measured
from pgdyno.loop.journal import decided, exclude, excluded, finished, resume
from pgdyno.measure.execute import Executed, Stage, execute
from pgdyno.measure.jobs import engine_target, load_job
from pgdyno.measure.last_words import with_words_of_log
from pgdyno.measure.opening import opened_servers
from pgdyno.measure.run_progress import Progress
from pgdyno.measure.servers import Servers
from pgdyno.measure.under_test import Conditions
from pgdyno.plan.design import Design, next_run, outlook, runs_expected
from pgdyno.plan.history import History
from pgdyno.process import signals
from pgdyno.quantities import format_bytes
from pgdyno.server.conninfo import Resolved
from pgdyno.server.facts import ServerFacts, target_line
from pgdyno.server.target import Target
from pgdyno.spec.condition import WATCHED, condition_from
from pgdyno.spec.experiment import Experiment, Permissions
from pgdyno.spec.file import to_toml
from pgdyno.spec.planned import Cell, PlannedRun, PlannedVariant, Stop, server_id
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

_NOWHERE = Target(host="/", ports="5432", user="check", database="check")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an experiment: its folder, and the error that ended it early, if any."""

    folder: ExperimentFolder | None
    error: PgdynoError | None


def carry_out(
    experiment: Experiment,
    design: type[Design[Any]],
    *,
    verb: str,
    resolved: Resolved | None,
    permissions: Permissions,
    store: Store,
    progress: Progress,
    resumed: ExperimentFolder | None = None,
) -> Outcome:
    """Carry the experiment out and return its folder, even if it was interrupted or failed.

    `designs.answer_so_far` makes the answer from this folder.

    Args: design, which plans the runs; resumed, the folder of an interrupted experiment to
    continue.

    Raises: SpecError, RefusedError or ServerError if no run at all could begin.
    """
    clock = read_pair()
    scripts = checked_scripts(experiment)
    store.require_writable()
    conditions = Conditions(
        verb=verb,
        target=resolved.target if resolved else None,
        permissions=permissions,
        scripts=scripts,
        clock=clock,
        store_dir=store.root,
        check=experiment.check,
        servers_lost=_servers_lost(experiment, resumed),
    )
    folder = resumed
    error: PgdynoError | None = None
    try:
        with opened_servers(experiment, conditions, progress) as servers:
            if folder is None:
                folder = store.create(experiment.name, verb, began_ns=clock.now_ns())
                folder.write_spec(to_toml(experiment))
            else:
                resume(folder)
            servers.journal = folder.add_audit
            _Facts(folder, progress).keep_equal(servers)
            is_foreign = experiment.server.scratch is None
            read_only = is_foreign and all(s.reads_only for s in scripts)
            stage = Stage(
                experiment=experiment,
                servers=servers,
                scripts=scripts,
                folder=folder,
                clock=clock,
                progress=progress,
                read_only=read_only,
                abort_if=tuple(condition_from(text, WATCHED) for text in permissions.abort_if),
            )
            if not experiment.has_variants():
                _Facts(folder, progress).keep(None, servers.ready(None).facts)
            error = _loop(stage, design)
    except PgdynoError as seen:
        if folder is None:
            raise
        if error is not None:
            # Settings could not be restored: the user must do this first, so its hint is first.
            seen.message = f"{error.message} {seen.message}"
            seen.hint = "; then ".join(hint for hint in (seen.hint, error.hint) if hint)
        error = seen
    return Outcome(folder, error)


def _loop(stage: Stage, design: type[Design[Any]]) -> PgdynoError | None:
    """Follow the design until it returns Stop; return the error that ended it early, if any."""
    experiment, folder = stage.experiment, stage.folder
    history = history_of(folder)
    left_out = _excluded(stage)
    facts = _Facts(folder, stage.progress)
    last_words = ""
    while True:
        if (asked := signals.interruption()) is not None:
            return asked
        decision = next_run(design, experiment, history, frozenset(left_out))
        if not isinstance(decision, PlannedRun):
            decided(folder, decision)
            return _nothing_to_measure(history, left_out, decision)
        # A number is never used again, not even the number of an interrupted run.
        decision = replace(decision, number=folder.next_run_number())
        decided(folder, decision)
        began_ns = monotonic_ns()
        expected = runs_expected(design, experiment, history, frozenset(left_out))
        position = f"run {len(history) + 1} of {expected}" if expected > 1 else ""
        if decision.purpose == "pilot":
            position = f"pilot, {position}".removesuffix(", ")
        done, ended = _executed(decision, stage, position)
        variant = decision.cell.variant
        if ended is not None:
            is_braked = done is not None and bool(done.braked)
            if variant is None or is_braked or isinstance(ended, InterruptedByUser):
                return ended
            if stage.servers.are_lost():
                return _lost(ended)
            for name, words in _blamed(decision, stage, history).items():
                left_out = {**left_out, name: ended.message}
                exclude(folder, name, ended.message, run=decision.number)
                stage.progress.said(f"{words} is left out: {ended.message}")
            continue
        assert done is not None
        assert done.stored is not None
        facts.keep(variant, done.facts)
        took_ns = monotonic_ns() - began_ns
        # A run without any usable result does not count: it must not block the answer.
        entry = measured(decision, done.stored, took_ns=took_ns)
        finished(folder, decision.number, took_ns, done.spent_ns)
        history = (*history, entry)
        words = outlook(design, experiment, history, frozenset(left_out))
        if words not in ("", last_words):
            stage.progress.said(words)
            last_words = words


def _blamed(run: PlannedRun, stage: Stage, history: History) -> dict[str, str]:
    """Return what a failed run excludes: id -> words; the variant, or the server that is lost.

    If an equal server is lost under a variant that never ran before, both are excluded: the variant
    may have been the cause, and must not take the next server with it.
    """
    variant = run.cell.variant
    assert variant is not None, "only a variant can be left out"
    if not run.server_number or not stage.servers.is_lost(run.server_number):
        return {variant.id: f"variant {variant.name}"}
    facts = stage.servers.equal[run.server_number]
    lost = {server_id(run.server_number): f"server {run.server_number} ({facts.host}:{facts.port})"}
    ran_before = any(measured.run.cell.variant == variant for measured in history)
    if ran_before or not variant.spec.settings:
        return lost
    return {**lost, variant.id: f"variant {variant.name}, under which it was lost,"}


def _servers_lost(experiment: Experiment, resumed: ExperimentFolder | None) -> frozenset[int]:
    """Return the numbers of the equal servers that an interrupted experiment had lost."""
    known = excluded(resumed) if resumed is not None else {}
    return frozenset(n for n in experiment.server.numbers if server_id(n) in known)


def _executed(
    planned: PlannedRun, stage: Stage, position: str
) -> tuple[Executed | None, PgdynoError | None]:
    """Carry the run out; return the error that ended it early, even a server error of a variant."""
    try:
        done = execute(planned, stage, position=position)
    except ServerError as error:
        if planned.cell.variant is None:
            raise
        return None, error
    return done, _why_ended(done)


def _lost(ended: PgdynoError) -> ServerError:
    """Return the error of an experiment whose server is gone; it can go on when it is back."""
    return ServerError(
        f"The server was lost: {ended.message}",
        hint="continue with pgdyno run --resume last once the server answers",
    )


def _excluded(stage: Stage) -> dict[str, str]:
    """Return the variants that cannot be measured, and store those that are new."""
    known = excluded(stage.folder)
    for variant, reason in stage.servers.excluded.items():
        if variant not in known:
            exclude(stage.folder, variant, reason)
    return {**known, **stage.servers.excluded}


def _nothing_to_measure(
    history: History, left_out: dict[str, str], decision: Stop
) -> PgdynoError | None:
    """Return an error if the plan ended before any run counted."""
    if any(entry.run.purpose != "pilot" for entry in history):
        return None
    reasons = "; ".join(dict.fromkeys(left_out.values()))
    return ServerError(
        f"Nothing was measured: {decision.reason}{f' ({reasons})' if reasons else ''}.",
        hint="correct the variants that cannot start",
    )


class _Facts:
    """The server facts in the store: of the first server, of each equal one, of each variant."""

    def __init__(self, folder: ExperimentFolder, progress: Progress) -> None:
        self._folder, self._progress = folder, progress
        self._kept: dict[str, Any] = folder.facts() or {}

    def keep_equal(self, servers: Servers) -> None:
        """Write where the equal servers are and how they differ; nothing without such servers."""
        if servers.equal:
            places = {
                str(number): f"{facts.host}:{facts.port}/{facts.database}"
                for number, facts in servers.equal.items()
            }
            self._kept["servers"] = {**self._kept.get("servers", {}), **places}
            self._kept["server_differences"] = list(servers.differences)
            self._folder.write_facts(self._kept)

    def keep(self, variant: PlannedVariant | None, facts: ServerFacts) -> None:
        """Write the missing facts, and show the target once."""
        if "server" not in self._kept:
            self._progress.said(f"target  {target_line(facts)}")
            self._kept |= _facts(facts)
        elif variant is None or variant.id in self._kept.get("variants", {}):
            return
        if variant is not None:
            self._kept.setdefault("variants", {})[variant.id] = _facts(facts)
        self._folder.write_facts(self._kept)


def _why_ended(done: Executed) -> PgdynoError | None:
    """Return the error or interrupt that ended this run; None if it completed."""
    outcome = done.outcome
    if done.braked:
        return ServerError(
            f"Stopped by --abort-if {done.braked}.",
            hint="the results until then are kept; offer less load, or raise the limit",
        )
    if outcome.interrupted is not None:
        return outcome.interrupted
    if outcome.failures:
        error = engine_error(outcome.failures[0])
        error.message, error.hint = with_words_of_log(error.message, error.hint, done.words_of_log)
        return error
    if done.is_server_lost:
        message, hint = with_words_of_log(
            "The server was lost during the run and does not answer.",
            "see the server's log; the results until then are kept",
            done.words_of_log,
        )
        return ServerError(message, hint=hint)
    if outcome.summary is None:
        return EngineError(
            f"The load engine was lost during the run (exit code {outcome.exit_code}). Its last "
            f"messages: {outcome.log_tail or 'none'}.",
            hint="the results until then are kept and listed as incomplete",
        )
    if outcome.summary.ending == "stopped":
        return InterruptedByUser("The load engine was stopped.")
    return None


def checked_scripts(experiment: Experiment) -> tuple[ScriptShape, ...]:
    """Let the engine check the scripts before anything starts.

    Raises: SpecError with file, line, column and caret.
    """
    indexes = tuple(range(len(experiment.all_scripts())))
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
    """Return the facts of the server and of this host that results show."""
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
    if facts.is_local:
        rows.append(("clock", f"one reading takes at most {reading_ns()} ns; timed I/O needs two"))
    rows.append(("load host", f"{platform.node()}, {platform.system()} {platform.release()}"))
    rows.append(("pgdyno", version("pgdyno")))
    return {
        "server": facts.as_document(),
        "target_line": target_line(facts),
        "durability_line": durability + (f": {', '.join(weakened)} weakened" if weakened else ""),
        "is_durable": not weakened,
        "weakened": list(weakened),
        "rows": rows,
        "settings": dict(facts.settings),
    }
