"""Look ahead: what an experiment will do, before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgdyno.plan.design import Design, next_run, runs_expected
from pgdyno.plan.history import History, Measured
from pgdyno.quantities import duration_text
from pgdyno.server.dataset_kinds import needed_bytes
from pgdyno.server.find import find
from pgdyno.spec.experiment import UNCHANGED, Experiment, Variant
from pgdyno.spec.planned import PlannedRun, PlannedVariant
from pgdyno.spec.setting_rules import MAJORS, snapshot

# What a run costs besides its load: reset, counters, connecting, storing.
_AROUND_NS = 3_000_000_000
_RESTART_NS = 3_000_000_000
_SHOWN_RUNS = 12
# What has data of its own.
_APART = ("sql", "version", "bin_dir", "data_dir", "wal_dir", "checksums", "wal_segment")
_LEVELS = {
    "user": "session",
    "superuser": "session",
    "backend": "session",
    "superuser-backend": "session",
    "sighup": "reload",
    "postmaster": "restart",
}


def preview(experiment: Experiment, design: type[Design[Any]]) -> str:
    """Return the plan as text: what is changed at which level, the order, time, disk.

    Raises: SpecError for a version of a scratch server that is not there.
    """
    if (scratch := experiment.server.scratch) is not None:
        find(bin_dir=scratch.bin_dir, version=scratch.version)
    return "\n".join(_lines(experiment, design))


def _lines(experiment: Experiment, design: type[Design[Any]]) -> Iterator[str]:
    variants = experiment.all_variants()
    restarts = False
    for variant in variants:
        changes = [_change(experiment, variant, name) for name in variant.changes()]
        restarts |= any(change.endswith(("restart)", "separate cluster)")) for change in changes)
        yield f"variant     {variant.name}: {', '.join(changes) or 'as the server is'}"
    history: History = ()
    shown = []
    run_ns = 0
    while len(history) < _SHOWN_RUNS:
        decision = next_run(design, experiment, history)
        if not isinstance(decision, PlannedRun):
            break
        run_ns = decision.warm_ns + decision.measure_ns + _AROUND_NS + restarts * _RESTART_NS
        shown.append(_named(experiment, decision))
        # Numbers that decide nothing: only the order is of interest here.
        value = 1000.0 + 100 * (len(history) % 3)
        metrics: dict[str, float] = {"tps": value, experiment.metric(): value}
        history = (*history, Measured(decision, value, 2_000_000_000, metrics, 1))
    more = "; ..." if len(shown) == _SHOWN_RUNS else ""
    yield f"order       {'; '.join(shown)}{more}"
    yield from _effort(experiment, design, run_ns)
    if experiment.server.scratch is not None:
        yield f"disk        about {_disk_bytes(experiment) / 1e9:.1f} GB"


def _effort(experiment: Experiment, design: type[Design[Any]], run_ns: int) -> Iterator[str]:
    count = runs_expected(design, experiment, ())
    budget_ns = design(experiment).budget_ns
    if budget_ns is not None:
        yield (
            f"time        at least {count} runs, {duration_text(count * run_ns)}; "
            f"at most {duration_text(budget_ns)}"
        )
    else:
        yield f"time        {count} runs, about {duration_text(count * run_ns)}"


def _named(experiment: Experiment, run: PlannedRun) -> str:
    purpose = "pilot " if run.purpose == "pilot" else ""
    if run.cell.variant is not None and not experiment.design.varies_clients:
        return purpose + run.cell.variant.name
    return purpose + run.label([script.name for script in experiment.all_scripts()])


def _change(experiment: Experiment, variant: Variant, name: str) -> str:
    value = variant.changes()[name]
    if name in variant.settings:
        version = variant.version or _version(experiment)
        major = find(version=version).major if experiment.server.scratch is not None else MAJORS[0]
        known = snapshot(min(MAJORS, key=lambda one: abs(one - major))).get(name.lower())
        level = _LEVELS.get(known.context, "restart") if known is not None else "restart"
        if experiment.server.scratch is not None and level == "session":
            level = "reload"
        return f"{name} = {value} ({level})"
    if name in ("script", "clients", "idle", "active", "protocol", "path", "pooler", "dsn"):
        return f"{name} = {value} (load)"
    if name in ("version", "bin", "data_dir", "wal_dir", "checksums", "wal_segment"):
        return f"{name} = {value} (separate cluster)"
    return f"{name} = {value} (separate database)"


def _disk_bytes(experiment: Experiment) -> int:
    """Return what all databases need: one for each dataset and SQL in each cluster."""
    variants = experiment.planned_variants() or (PlannedVariant("0", UNCHANGED),)
    databases = {
        (experiment.dataset_of(variant), *(getattr(variant.spec, name) for name in _APART))
        for variant in variants
    }
    return sum(sum(needed_bytes(dataset).values()) for dataset, *_ in databases)


def _version(experiment: Experiment) -> str | None:
    scratch = experiment.server.scratch
    return scratch.version if scratch is not None else None
