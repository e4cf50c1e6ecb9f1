"""Describes what an experiment will do, before it starts: the runs, their time, disk space."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from textwrap import fill
from typing import Any

from pgdyno.analysis import verdicts
from pgdyno.errors import SpecError
from pgdyno.plan.design import Design, plan_of
from pgdyno.plan.history import History, Measured, TurnValues
from pgdyno.plan.long_scripts import executions_may_decide, long_ns
from pgdyno.quantities import counted, duration_text
from pgdyno.server.dataset.kinds import needed_bytes
from pgdyno.server.find import find
from pgdyno.settings.rule import MAJORS, rule_of
from pgdyno.spec.dataset import PgbenchDataset
from pgdyno.spec.experiment import UNCHANGED, Experiment, Variant
from pgdyno.spec.planned import PlannedRun, PlannedVariant, Stop

# Least time of a run in addition to its load: reset, counters, connecting, storing.
_AROUND_NS = 1_000_000_000
_RESTART_NS = 3_000_000_000
# Time of a comparison with start and loading, over that of its rounds alone.
_STARTED_RATIO = 1.3
_SHOWN_RUNS = 12
_WIDTH, _INDENT = 100, " " * 12
# Parts of an experiment that have separate data.
_APART = ("sql", "version", "bin_dir", "data_dir", "wal_dir", "checksums", "wal_segment", "standby")


def preview(experiment: Experiment, design: type[Design[Any]]) -> str:
    """Return the plan as text: changes and their level, the order, time, disk.

    Raises: SpecError if the version of a scratch server is not installed.
    """
    if (scratch := experiment.server.scratch) is not None:
        find(bin_dir=scratch.bin_dir, version=scratch.version)
    return "\n".join(
        fill(
            line, _WIDTH, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
        )
        for line in _lines(experiment, design)
    )


def warnings_before(experiment: Experiment, design: type[Design[Any]]) -> Iterator[str]:
    """Yield a warning for what makes runs useless."""
    yield from _queue_of_branches(experiment)
    for purpose, (name, length_ns) in design(experiment).clocked_ns().items():
        is_detail = purpose == "detail"
        needed_s = verdicts.NEEDED_S if is_detail else verdicts.NEEDED_S_IN_SWEEP
        if length_ns < needed_s * 1e9:
            length = f"{name} of {length_ns / 1e9:g} s"
            unless = ""
            if executions_may_decide(experiment):
                longest = duration_text(long_ns(experiment))
                unless = f", unless one execution of the script takes longer than {longest}"
            yield f"{length} can only end NOT VALID: at least {needed_s:g} s are needed{unless}"


def refuse_short_budget(experiment: Experiment, design: type[Design[Any]]) -> None:
    """Raise SpecError for a budget without time for the rounds that an interval needs."""
    budget_ns, workload = experiment.design.limit_ns, experiment.workload
    is_counted = workload.transactions_per_client is not None or experiment.metric() == "duration"
    if budget_ns is None or is_counted or not design.rounds_needed:
        return
    needed_ns = least_ns(experiment, design)
    if budget_ns < needed_ns:
        enough_s = 10 * math.ceil(needed_ns * _STARTED_RATIO / 10e9)
        raise SpecError(
            f"The budget of {duration_text(budget_ns)} is too short for an interval, which needs"
            f" {design.rounds_needed} rounds: {duration_text(needed_ns)}, and the server must be"
            " started.",
            hint=f"--budget {enough_s}s",
        )


def _queue_of_branches(experiment: Experiment) -> Iterator[str]:
    dataset, workload = experiment.dataset, experiment.workload
    if not isinstance(dataset, PgbenchDataset) or experiment.design.varies_clients:
        return
    names = {script.builtin for script in experiment.all_scripts() if script.weight > 0}
    clients = workload.working_connections(experiment.clients_max())
    if "tpcb-like" in names and workload.rate_tps is None and clients > dataset.scale:
        yield (
            f"{clients} clients update {counted(dataset.scale, 'row')} of pgbench_branches: the"
            f" runs measure mostly the queue for row locks; give a scale of at least {clients}"
        )


def least_ns(experiment: Experiment, design: type[Design[Any]]) -> int:
    """Return the least time of the pilots and of the rounds that an interval needs."""
    pilots_ns, round_ns = _costs_ns(experiment, design)
    return pilots_ns + design.rounds_needed * round_ns


def _costs_ns(experiment: Experiment, design: type[Design[Any]]) -> tuple[int, int]:
    """Return how long the pilots take, and the first round."""
    history: History = ()
    costs = {"pilot": 0, "round": 0}
    around_ns = _AROUND_NS + _needs_restart(experiment) * _RESTART_NS
    plan, _ = plan_of(design, experiment, history)
    # Imagined runs never take long, so the plan stays the same.
    while isinstance(run := plan.next_run(history), PlannedRun) and run.round <= 1:
        costs[run.purpose] += run.warm_ns + run.measure_ns + around_ns
        history = (*history, _imagined(experiment, run, len(history)))
    return costs["pilot"], costs["round"]


def _next_run(
    design: type[Design[Any]], experiment: Experiment, history: History
) -> PlannedRun | Stop:
    plan, counted = plan_of(design, experiment, history)
    return plan.next_run(counted)


def _needs_restart(experiment: Experiment) -> bool:
    """Return whether a variant needs another start of the server, so that every run has one."""
    return any(
        _change(experiment, variant, name).endswith(("restart)", "separate cluster)"))
        for variant in experiment.all_variants()
        for name in variant.changes()
    )


def _imagined(experiment: Experiment, run: PlannedRun, place: int) -> Measured:
    """Return an invented result that decides nothing: the preview needs the order of the runs."""
    value = 1000.0 + 100 * (place % 3)
    metrics: dict[str, float] = {"tps": value, experiment.metric(): value}
    turns = tuple(TurnValues(metrics) for _ in run.turns)
    return Measured(run, value, 2_000_000_000, metrics, 1, turns=turns)


def _lines(experiment: Experiment, design: type[Design[Any]]) -> Iterator[str]:
    variants = experiment.all_variants()
    around_ns = _AROUND_NS + _needs_restart(experiment) * _RESTART_NS
    for variant in variants:
        changes = [_change(experiment, variant, name) for name in variant.changes()]
        yield f"variant     {variant.name}: {', '.join(changes) or 'as the server is'}"
    history: History = ()
    shown = []
    run_ns = 0
    while len(history) < _SHOWN_RUNS:
        decision = _next_run(design, experiment, history)
        if not isinstance(decision, PlannedRun):
            break
        run_ns = decision.warm_ns + decision.measure_ns + around_ns
        shown.append(_named(experiment, decision))
        history = (*history, _imagined(experiment, decision, len(history)))
    more = "; ..." if len(shown) == _SHOWN_RUNS else ""
    is_drawn = len(set(shown)) > 1 and experiment.workload.order_seed is None
    yield f"order       {'; '.join(shown)}{more}{' (an example: it is drawn)' * is_drawn}"
    yield from _effort(experiment, design, run_ns)
    if experiment.crash_count:
        yield f"crashes     {experiment.crash_count} of each variant and kind, after the last run"
    if experiment.server.scratch is not None:
        yield f"disk        about {_disk_bytes(experiment) / 1e9:.1f} GB"


def _effort(experiment: Experiment, design: type[Design[Any]], run_ns: int) -> Iterator[str]:
    plan, _ = plan_of(design, experiment, ())
    count, budget_ns = plan.runs_expected(()), plan.budget_ns
    if budget_ns is None:
        yield f"time        {counted(count, 'run')}, at least {duration_text(count * run_ns)}"
        return
    budget = duration_text(budget_ns)
    if not design.rounds_needed:
        yield f"time        at most {budget}"
        return
    needed = duration_text(least_ns(experiment, design))
    most = f"at most {counted(count, 'run')} and {budget}"
    yield f"time        {most}; an interval needs {design.rounds_needed} rounds, {needed}"


def _named(experiment: Experiment, run: PlannedRun) -> str:
    purpose = "pilot " if run.purpose == "pilot" else ""
    if run.cell.variant is not None and not experiment.design.varies_clients:
        return purpose + run.cell.variant.name
    return purpose + run.label([script.name for script in experiment.all_scripts()])


def _change(experiment: Experiment, variant: Variant, name: str) -> str:
    value = variant.changes()[name]
    if name in variant.settings:
        version = variant.version or _version(experiment)
        major = _major_of(version) if experiment.server.scratch is not None else MAJORS[0]
        known = rule_of(name, major)
        level = known.needs if known is not None else "restart"
        if experiment.server.scratch is not None and level == "session":
            level = "reload"
        return f"{name} = {value} ({level})"
    if name in ("script", "clients", "idle", "active", "protocol", "path", "pooler", "dsn"):
        return f"{name} = {value} (load)"
    if name in ("version", "bin", "data_dir", "wal_dir", "checksums", "wal_segment", "standby"):
        return f"{name} = {value} (separate cluster)"
    return f"{name} = {value} (separate database)"


@functools.cache
def _major_of(version: str | None) -> int:
    """Return the major version of a scratch server; the folders are looked at once a process."""
    return find(version=version).major


def _disk_bytes(experiment: Experiment) -> int:
    """Return the disk space of all databases: one for each dataset and SQL in each cluster."""
    variants = experiment.planned_variants() or (PlannedVariant("0", UNCHANGED),)
    databases = {
        (experiment.dataset_of(variant), *(getattr(variant.spec, name) for name in _APART))
        for variant in variants
    }
    # The standby of a variant has the same data once more.
    return sum(
        sum(needed_bytes(dataset).values()) * (1 if own[-1] is None else 2)
        for dataset, *own in databases
    )


def _version(experiment: Experiment) -> str | None:
    scratch = experiment.server.scratch
    return scratch.version if scratch is not None else None
