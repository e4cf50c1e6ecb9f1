"""Carries an experiment out: next run -> measure -> store -> next run, until the design stops."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

from pgdyno.clock import read_pair, reading_ns
from pgdyno.doctor.checkup import Checkup
from pgdyno.engine.records import ScriptShape
from pgdyno.engine.stream import check_job
from pgdyno.errors import InterruptedByUser, PgdynoError, ServerError
from pgdyno.loop.history import history_of, measured
from pgdyno.loop.journal import (
    WAITED,
    Visit,
    decided,
    exclude,
    excluded,
    failed,
    failed_since,
    finished,
    resume,
)
from pgdyno.loop.one_run import RunEnd, carry_out_run
from pgdyno.measure.execute import Stage
from pgdyno.measure.jobs import engine_target, load_job
from pgdyno.measure.opening import opened_servers
from pgdyno.measure.run_progress import Progress, abreast
from pgdyno.measure.servers import Servers
from pgdyno.measure.under_test import Conditions
from pgdyno.plan.design import Design, next_runs, outlook, runs_expected
from pgdyno.plan.history import History, Measured
from pgdyno.process import signals
from pgdyno.process.side_by_side import side_by_side
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

# A variant that ran before is left out if this many runs of it fail in a row.
_FAILURES_MAX = 3
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
    if resumed is None:
        experiment = design(experiment).settled()
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
            # With permission, a function may write although its call looks like reading.
            may_write = experiment.server.scratch is not None or permissions.allow_write
            stage = Stage(
                experiment=experiment,
                servers=servers,
                scripts=scripts,
                folder=folder,
                clock=clock,
                progress=progress,
                read_only=not may_write and all(s.reads_only for s in scripts),
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
    failed_ns = failed_since(folder)
    left_out = _excluded(stage)
    facts = _Facts(folder, stage.progress)
    last_words = ""
    stages = {0: stage}
    failed_again: Counter[tuple[str, int]] = Counter()
    while True:
        if (asked := signals.interruption()) is not None:
            return asked
        decision = next_runs(design, experiment, history, frozenset(left_out))
        if isinstance(decision, Stop):
            decided(folder, decision)
            return _nothing_to_measure(history, left_out, decision)
        # A number is never used again, not even the number of an interrupted run.
        number = folder.next_run_number()
        runs = [replace(run, number=number + place) for place, run in enumerate(decision)]
        for run in runs:
            decided(folder, run)
        expected = runs_expected(design, experiment, history, frozenset(left_out))
        positions = _positions(runs, len(history) + 1, expected)
        with abreast(stage.progress, [run.server_number for run in runs]) as shown:
            ended = side_by_side(
                [
                    partial(carry_out_run, run, _stage_of(run, stages, progress), position)
                    for run, progress, position in zip(runs, shown, positions, strict=True)
                ]
            )
        wave_ns = max(end.took_ns for end in ended)
        # First everything that is complete, so that no error of another run loses it.
        for end in ended:
            if end.error is None:
                facts.keep(end.run.cell.variant, end.complete().facts)
                history = (*history, _kept(end, folder, wave_ns, failed_ns=failed_ns))
                failed_ns = 0
                failed_again.pop(_place_of(end.run), None)
        for end in ended:
            if end.error is None:
                continue
            if (last := _last_error(end, end.error, stage)) is not None:
                return last
            failed(folder, end.run.number, wave_ns // len(runs))
            failed_ns += wave_ns // len(runs)
            failed_again[_place_of(end.run)] += 1
            if _is_repeated(end.run, design, stage, history, failed_again):
                stage.progress.said(
                    f"run {end.run.number} failed and is repeated: {end.error.message}"
                )
                continue
            for name, words in _blamed(end.run, stage, history).items():
                if name not in left_out:
                    left_out = {**left_out, name: end.error.message}
                    exclude(folder, name, end.error.message, run=end.run.number)
                    stage.progress.said(f"{words} is left out: {end.error.message}")
        if all(end.error is not None for end in ended):
            continue
        words = outlook(design, experiment, history, frozenset(left_out))
        if words not in ("", last_words):
            stage.progress.said(words)
            last_words = words


def _place_of(run: PlannedRun) -> tuple[str, int]:
    """Return the variant and the server of a run."""
    variant = run.cell.variant
    return "" if variant is None else variant.id, run.server_number


def _is_repeated(
    run: PlannedRun,
    design: type[Design[Any]],
    stage: Stage,
    history: History,
    failed_again: Mapping[tuple[str, int], int],
) -> bool:
    """Return whether a failed run says too little to leave its variant out.

    A variant that ran before has proved that it can run; one failure may be an accident of the
    server. Three in a row are not.
    """
    if not design.repeats_failed_runs or not _ran_before(run, history):
        return False
    if run.server_number and stage.servers.is_lost(run.server_number):
        return False
    return failed_again[_place_of(run)] < _FAILURES_MAX


def _ran_before(run: PlannedRun, history: History) -> bool:
    return any(measured.run.cell.variant == run.cell.variant for measured in history)


def _blamed(run: PlannedRun, stage: Stage, history: History) -> dict[str, str]:
    """Return what a failed run excludes: id -> words; the variant, or the server that is lost.

    If an equal server is lost under a variant that never ran before, both are excluded: the variant
    may have been the cause, and must not take the next server with it. If a variant ran before, on
    whichever server, an equal server on which it fails again and again is given up instead.
    """
    variant = run.cell.variant
    assert variant is not None, "only a variant can be left out"
    ran_before = _ran_before(run, history)
    if not run.server_number:
        return {variant.id: f"variant {variant.name}"}
    if not stage.servers.is_lost(run.server_number) and not ran_before:
        return {variant.id: f"variant {variant.name}"}
    facts = stage.servers.equal[run.server_number]
    lost = {server_id(run.server_number): f"server {run.server_number} ({facts.host}:{facts.port})"}
    if ran_before or not variant.spec.settings:
        return lost
    return {**lost, variant.id: f"variant {variant.name}, under which it was lost,"}


def _servers_lost(experiment: Experiment, resumed: ExperimentFolder | None) -> frozenset[int]:
    """Return the numbers of the equal servers that an interrupted experiment had lost."""
    known = excluded(resumed) if resumed is not None else {}
    return frozenset(n for n in experiment.server.numbers if server_id(n) in known)


def _stage_of(run: PlannedRun, stages: dict[int, Stage], progress: Progress) -> Stage:
    """Return what a run shares with others on its server; each server has its own checkup."""
    if run.server_number not in stages:
        stages[run.server_number] = replace(stages[0], checkup=Checkup())
    return replace(stages[run.server_number], progress=progress)


def _positions(runs: Sequence[PlannedRun], first: int, expected: int) -> list[str]:
    """Return the place of each run among all that are expected: "run 4 of 20"."""
    texts = [f"run {first + i} of {expected}" if expected > 1 else "" for i in range(len(runs))]
    return [
        f"pilot, {text}".removesuffix(", ") if run.purpose == "pilot" else text
        for run, text in zip(runs, texts, strict=True)
    ]


def _kept(end: RunEnd, folder: ExperimentFolder, wave_ns: int, *, failed_ns: int) -> Measured:
    """Record that a run is complete, and return what the planner learns from it.

    Args: wave_ns, the time until all runs that took place at the same time had ended; failed_ns,
    the time of the failed runs before it.
    """
    done = end.complete()
    assert done.stored is not None
    # A run without any usable result does not count: it must not block the answer.
    spent_ns = {**done.spent_ns, WAITED: wave_ns - end.took_ns} if done.spent_ns else {}
    entry = measured(Visit(end.run, done.stored, wave_ns, spent_ns, failed_ns))
    finished(folder, end.run.number, wave_ns, spent_ns)
    return entry


def _last_error(end: RunEnd, error: PgdynoError, stage: Stage) -> PgdynoError | None:
    """Return the error with which the experiment ends; None if it goes on.

    Raises: an error that is not about this variant or server.
    """
    if end.is_raised:
        raise error
    is_braked = end.done is not None and bool(end.done.braked)
    if end.run.cell.variant is None or is_braked or isinstance(error, InterruptedByUser):
        return error
    return _lost(error) if stage.servers.are_lost() else None


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
