"""Carries an experiment out: next run -> measure -> store -> next run, until the design stops."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pgdyno.clock import monotonic_ns, read_pair
from pgdyno.engine.records import ScriptShape
from pgdyno.engine.stream import check_job
from pgdyno.errors import PgdynoError, ServerError, StoreError, StoreLostError, TimeUsedUp
from pgdyno.loop.failures import Failures
from pgdyno.loop.history import history_of, measured
from pgdyno.loop.journal import (
    Visit,
    exclude,
    excluded,
    failed_since,
    record_decision,
    record_failed,
    record_finished,
    resume,
)
from pgdyno.loop.losses import price_of_loss
from pgdyno.loop.repeats import Repeats
from pgdyno.loop.stored_facts import StoredFacts
from pgdyno.loop.within_budget import SlowOpening, deadline_s, used_up
from pgdyno.measure.execute import CompleteRun, carry_out_run
from pgdyno.measure.fleet import opened_with_hosts
from pgdyno.measure.jobs import engine_target, load_job
from pgdyno.measure.opening import opened_servers
from pgdyno.measure.run_progress import RunProgress
from pgdyno.measure.servers import Servers
from pgdyno.measure.setup import Setup
from pgdyno.measure.under_test import LentCluster
from pgdyno.plan.design import Design, plan_of
from pgdyno.plan.history import History, elapsed_ns
from pgdyno.process import signals
from pgdyno.quantities import duration_text
from pgdyno.server.conninfo import Resolved
from pgdyno.server.find import find
from pgdyno.server.scratch.pgbouncer import find_pgbouncer
from pgdyno.server.target import Target
from pgdyno.spec.condition import WATCHED, condition_from
from pgdyno.spec.experiment import UNCHANGED, Experiment, Permissions
from pgdyno.spec.file import to_toml
from pgdyno.spec.planned import Cell, PlannedRun, Stop
from pgdyno.store.experiment import Store
from pgdyno.store.folder import ExperimentFolder

_LEFT_LEAST_NS = 20_000_000_000
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
    progress: RunProgress,
    resumed: ExperimentFolder | None = None,
    lent: LentCluster | None = None,
    began_ns: int | None = None,
) -> Outcome:
    """Carry the experiment out and return its folder, even if it was interrupted or failed.

    `designs.answer_so_far` makes the answer from this folder.

    Args: design, which plans the runs; resumed, the folder of an experiment to continue; lent, a
    cluster that outlives the experiment; began_ns, from when a budget counts, None: from now.
    Raises: SpecError, RefusedError or ServerError if no run at all could begin.
    """
    began_ns = monotonic_ns() if began_ns is None else began_ns
    if resumed is None:
        experiment = with_order(experiment)
    store.require_writable()
    setup = _setup(verb, experiment, resolved, permissions, store, progress)
    setup = replace(setup, lent=lent)
    folder = resumed
    error: PgdynoError | None = None
    slow = SlowOpening(progress, experiment, design, began_ns)
    limit_s = deadline_s(experiment.design, began_ns, is_resumed=resumed is not None)
    try:
        opened = opened_with_hosts(replace(setup, progress=slow))
        with signals.ended_after(limit_s), opened as servers:
            if folder is None:
                around = experiment.design.with_time_around(monotonic_ns() - began_ns)
                experiment = experiment.model_copy(update={"design": around})
                setup = replace(setup, experiment=experiment)
                folder = store.create(experiment.name, verb, began_ns=setup.clock.now_ns())
                folder.write_spec(to_toml(experiment))
            else:
                resume(folder, monotonic_ns() - began_ns)
            servers.journal = folder.add_audit
            if not experiment.has_variants():
                StoredFacts(folder, progress).keep(None, servers.ready(None).facts)
            error = _loop(setup, servers, folder, design)
        if error is None:
            _price(setup, folder, design)
    except PgdynoError as seen:
        if folder is None:
            raise (used_up(experiment) if isinstance(seen, TimeUsedUp) else seen) from None
        if error is not None:
            # Settings could not be restored: the user must do this first, so its hint is first.
            seen.message = f"{error.message} {seen.message}"
            seen.hint = "; then ".join(hint for hint in (seen.hint, error.hint) if hint)
        error = seen
    except OSError:
        if folder is None or folder.folder.is_dir():
            raise
        error = _removed(folder)
    is_of_store = error is None or isinstance(error, StoreError)
    if is_of_store and folder is not None and not folder.folder.is_dir():
        return Outcome(None, _removed(folder))
    return Outcome(folder, error)


def with_order(experiment: Experiment) -> Experiment:
    """Return the experiment with a drawn seed of its order, which is stored; as given with one.

    One fixed order would meet a disturbance of some period badly in every experiment. So the seed
    of the load does not decide about the order.
    """
    workload = experiment.workload
    if workload.order_seed is not None:
        return experiment
    drawn = workload.model_copy(update={"order_seed": secrets.randbits(31)})
    return experiment.model_copy(update={"workload": drawn})


def _removed(folder: ExperimentFolder) -> StoreLostError:
    return StoreLostError(
        f"The results folder {folder.folder} was removed while the experiment ran.",
        hint="measure again: the results until then were in this folder",
    )


def check_first(
    experiment: Experiment,
    *,
    verb: str,
    resolved: Resolved | None,
    permissions: Permissions,
    store: Store,
    progress: RunProgress,
) -> None:
    """Check what a run checks before it changes anything; the user's own servers are only read.

    Raises: the errors with which `carry_out` would end before its first run.
    """
    setup = _setup(verb, experiment, resolved, permissions, store, progress)
    scratch = experiment.server.scratch
    if scratch is None:
        with opened_servers(setup):
            return
    variants = (UNCHANGED, *experiment.all_variants())
    own = [variant if variant.version or variant.bin_dir else scratch for variant in variants]
    for bin_dir, version in dict.fromkeys((asked.bin_dir, asked.version) for asked in own):
        find(bin_dir=bin_dir, version=version)
    if any(variant.pooler is not None for variant in variants):
        find_pgbouncer()


def _setup(
    verb: str,
    experiment: Experiment,
    resolved: Resolved | None,
    permissions: Permissions,
    store: Store,
    progress: RunProgress,
) -> Setup:
    """Return what the experiment needs. Raises: SpecError for a script that has an error."""
    scripts = checked_scripts(experiment)
    return Setup(
        experiment=experiment,
        verb=verb,
        target=resolved.target if resolved else None,
        permissions=permissions,
        scripts=scripts,
        clock=read_pair(),
        store_dir=store.root,
        progress=progress,
        is_read_only=_is_read_only(experiment, scripts, permissions),
        abort_if=tuple(condition_from(text, WATCHED) for text in permissions.abort_if),
    )


def _is_read_only(
    experiment: Experiment, scripts: Sequence[ScriptShape], permissions: Permissions
) -> bool:
    """Return whether the sessions of the load are read-only."""
    # With permission, a function may write although its call looks like reading.
    may_write = experiment.server.scratch is not None or permissions.allow_write
    only_reads = all(script.reads_only for script in experiment.all_scripts())
    return (only_reads or not may_write) and all(script.reads_only for script in scripts)


def _price(setup: Setup, folder: ExperimentFolder, design: type[Design[Any]]) -> None:
    """Let servers with the settings of the variants crash, if the experiment asks for it.

    Raises: ServerError, EngineError, InterruptedByUser; every finished crash is stored.
    """
    experiment = setup.experiment
    if experiment.crash_count:
        history, left_out = history_of(folder), frozenset(excluded(folder))
        variants = design(experiment).priced(history, left_out)
        price_of_loss().measure_losses(experiment, variants, folder, setup.clock, setup.progress)


def _loop(
    setup: Setup, servers: Servers, folder: ExperimentFolder, design: type[Design[Any]]
) -> PgdynoError | None:
    """Follow the design until it returns Stop; return the error that ended it early, if any."""
    experiment, progress = setup.experiment, setup.progress
    history = history_of(folder)
    failed_ns = failed_since(folder)
    left_out = _excluded(servers, folder)
    hints: dict[str, str] = {}
    facts = StoredFacts(folder, progress)
    last_words = ""
    failures = Failures(servers)
    repeats = Repeats(folder)
    ended_ns = monotonic_ns()
    while True:
        if (asked := signals.interruption()) is not None:
            return _ended_by(asked, experiment, folder, history)
        plan, counted = plan_of(design, experiment, history)
        last_words = _said_once(progress, plan.outlook(counted, frozenset(left_out)), last_words)
        decision = plan.next_run(counted, frozenset(left_out))
        if isinstance(decision, Stop):
            record_decision(folder, decision)
            return _nothing_to_measure(history, left_out, decision, hints)
        # A number is never used again, not even the number of an interrupted run.
        run = replace(decision, number=folder.next_run_number())
        record_decision(folder, run)
        expected = plan.runs_expected(counted, frozenset(left_out))
        position = _position(run, history, expected, plan.budget_ns)
        end = carry_out_run(run, setup, servers, folder, position=position, began_ns=ended_ns)
        ended_ns = monotonic_ns()
        if isinstance(end, CompleteRun):
            facts.keep(run.cell.variant, end.facts)
            visit = Visit(run, end.stored, end.took_ns, end.spent_ns, failed_ns)
            # A run without any usable result does not count: it must not block the answer.
            entry = measured(visit)
            record_finished(folder, run.number, end.took_ns, end.spent_ns)
            history = (*history, entry)
            failed_ns = 0
            failures.passed(run)
            again = repeats.taken_out(visit, history, budget_ns=plan.budget_ns)
            if again is not None:
                entry, doubt = again
                history = tuple(other for other in history if other is not entry)
                failed_ns = round(entry.elapsed_ns)
                place = f"{setup.label_of(entry.run)}, round {entry.run.round}"
                progress.said(f"measured again: {place}: {doubt.message}")
            continue
        if (last := failures.last_error(end)) is not None:
            return _ended_by(last, experiment, folder, history)
        record_failed(folder, run.number, end.took_ns)
        failed_ns += end.took_ns
        failures.failed(run)
        if failures.is_repeated(end, history):
            progress.said(f"run {run.number} failed and is repeated: {end.error.message}")
            continue
        variant = failures.blamed(run)
        if variant.id not in left_out:
            left_out = {**left_out, variant.id: end.error.message}
            hints[variant.id] = end.error.hint
            exclude(folder, variant.id, end.error.message, run=run.number)
            progress.said(f"variant {variant.name} is left out: {end.error.message}")


def _ended_by(
    error: PgdynoError, experiment: Experiment, folder: ExperimentFolder, history: History
) -> PgdynoError | None:
    """Return the error that ends the experiment; None if its time is over, and runs count."""
    if not isinstance(error, TimeUsedUp):
        return error
    error = used_up(experiment)
    if all(entry.run.purpose == "pilot" for entry in history):
        return error
    record_decision(folder, Stop(error.message.rstrip(".")))
    return None


def _said_once(progress: RunProgress, words: str, last_words: str) -> str:
    """Show the words if they are new, and return the last words that were shown."""
    if words not in ("", last_words):
        progress.said(words)
    return words or last_words


def _position(run: PlannedRun, history: History, expected: int, budget_ns: int | None) -> str:
    """Return the place of a run: "run 4 of 20, about 3 min left", "run 4, at most 3 min left"."""
    text = ""
    if expected > 1:
        left = _left_words(run, history, expected, budget_ns)
        # How many runs a budget has is not known before its end.
        total = "" if budget_ns is not None else f" of {expected}"
        text = f"run {len(history) + 1}{total}{left}"
    return f"pilot, {text}".removesuffix(", ") if run.purpose == "pilot" else text


def _left_words(run: PlannedRun, history: History, expected: int, budget_ns: int | None) -> str:
    """Return how long the runs that are expected still take; "" if it is not known, or short.

    What has a budget may end earlier: when its answer is certain.
    """
    if history:
        run_ns = elapsed_ns(history) / len(history)
    elif run.transactions_per_client is None:
        run_ns = float(run.warm_ns + run.measure_ns)
    else:
        return ""
    left_ns = round((expected - len(history)) * run_ns)
    how = "about"
    if budget_ns is not None and (rest_ns := budget_ns - round(elapsed_ns(history))) > 0:
        left_ns, how = min(left_ns, rest_ns), "at most"
    return f", {how} {duration_text(left_ns)} left" if left_ns >= _LEFT_LEAST_NS else ""


def _excluded(servers: Servers, folder: ExperimentFolder) -> dict[str, str]:
    """Return the variants that cannot be measured, and store those that are new."""
    known = excluded(folder)
    for variant, reason in servers.excluded.items():
        if variant not in known:
            exclude(folder, variant, reason)
    return {**known, **servers.excluded}


def _nothing_to_measure(
    history: History, left_out: dict[str, str], decision: Stop, hints: dict[str, str]
) -> PgdynoError | None:
    """Return an error if the plan ended before any run counted.

    Args: hints, the next step for each variant that failed.
    """
    if any(entry.run.purpose != "pilot" for entry in history):
        return None
    reasons = "; ".join(reason.rstrip(".") for reason in dict.fromkeys(left_out.values()))
    return ServerError(
        f"Nothing was measured: {decision.reason}{f' ({reasons})' if reasons else ''}.",
        hint="; ".join(dict.fromkeys(hints.values())) or "correct the variants that cannot start",
    )


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
