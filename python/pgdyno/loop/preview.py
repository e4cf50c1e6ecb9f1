"""Look ahead: what an experiment will do before it starts, and how far it is from a decision."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.analysis.rounding import change_text
from pgdyno.plan.compare import Standing, standings
from pgdyno.plan.history import History, Measured, rounds
from pgdyno.plan.next import next_run, runs_expected
from pgdyno.server.dataset_kinds import needed_bytes
from pgdyno.server.find import find
from pgdyno.spec.experiment import CompareDesign, Experiment, SweepDesign, Variant
from pgdyno.spec.planned import PlannedRun
from pgdyno.spec.setting_rules import MAJORS, snapshot
from pgdyno.spec.units import duration_text

METRIC_WORDS = {
    "tps": "tps",
    "p50": "p50",
    "p99": "p99",
    "mean": "mean latency",
    "cpu_per_tx": "server CPU per transaction",
    "wal_per_tx": "WAL per transaction",
    "duration": "duration",
}
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


def preview(experiment: Experiment) -> str:
    """Return the plan as text: what is changed at which level, the order, time, disk.

    Raises: SpecError for a version of a scratch server that is not there.
    """
    if (scratch := experiment.server.scratch) is not None:
        find(bin_dir=scratch.bin_dir, version=scratch.version)
    return "\n".join(_lines(experiment))


def _lines(experiment: Experiment) -> Iterator[str]:
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
        decision = next_run(experiment, experiment.workload.seed, history)
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
    yield from _effort(experiment, run_ns)
    if experiment.server.scratch is not None:
        yield f"disk        about {_disk_bytes(experiment) / 1e9:.1f} GB"


def _effort(experiment: Experiment, run_ns: int) -> Iterator[str]:
    count = runs_expected(experiment, ())
    if isinstance(experiment.design, CompareDesign):
        yield (
            f"time        at least {count} runs, {duration_text(count * run_ns)}; "
            f"at most {duration_text(experiment.design.budget_ns)}"
        )
    else:
        yield f"time        {count} runs, about {duration_text(count * run_ns)}"


def _named(experiment: Experiment, run: PlannedRun) -> str:
    purpose = "pilot " if run.purpose == "pilot" else ""
    if run.cell.variant is not None and not isinstance(experiment.design, SweepDesign):
        return purpose + experiment.variant(run.cell.variant).name
    scripts = [script.name for script in experiment.all_scripts()]
    variants = [variant.name for variant in experiment.all_variants()]
    return purpose + run.label(scripts, variants)


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
    indexes = range(len(experiment.all_variants())) or (None,)
    databases = {
        (experiment.dataset_of(index), *(getattr(variant, name) for name in _APART))
        for index in indexes
        for variant in [experiment.variant(index)]
    }
    return sum(sum(needed_bytes(dataset).values()) for dataset, *_ in databases)


def _version(experiment: Experiment) -> str | None:
    scratch = experiment.server.scratch
    return scratch.version if scratch is not None else None


def outlook_words(experiment: Experiment, history: History, excluded: frozenset[int]) -> str:
    """Return how a comparison stands after a whole round: "B ahead by 2.0 % +- 1.4 (tps), ..."."""
    counted = rounds(history)
    if not isinstance(experiment.design, CompareDesign) or not counted:
        return ""
    found = standings(experiment, history, excluded)
    sizes = {standing.ratios.size for standing in found if not standing.is_settled}
    last = counted[-1].run.round
    if sizes and last not in sizes:
        return ""  # in the middle of a round
    words = [_standing_words(experiment, standing) for standing in found]
    return f"round {last}: " + "; ".join(word for word in words if word)


def _standing_words(experiment: Experiment, standing: Standing) -> str:
    found = standing.comparison
    if found is None:
        return ""
    name = experiment.variant(standing.variant).name
    metric = METRIC_WORDS[experiment.metric()]
    change = f"{name} {metric} {change_text(found.ratio)}"
    if standing.is_settled:
        return f"{change}, decided"
    if standing.left_ns is None:
        return f"{change}, cannot tell yet"
    if not standing.is_within_budget:
        needed = duration_text(standing.left_ns)
        return f"{change}, needs {needed}, more than the rest of the budget"
    return f"{change}, decided in about {duration_text(standing.left_ns)}"
