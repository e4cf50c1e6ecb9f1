"""Plans a tuning before it begins: the server as it is, what to search, the rules, the budget."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from textwrap import fill

from pgdyno.errors import RefusedError, SpecError
from pgdyno.features.doctor.checks.memory import buffers_fitting
from pgdyno.features.doctor.examine import Subject
from pgdyno.features.tune.arms import PAIRS_PLANNED
from pgdyno.features.tune.evidence import choosable
from pgdyno.features.tune.machine import machine_of, machine_text
from pgdyno.features.tune.memory import ALLOWING_SETTINGS
from pgdyno.features.tune.server_settings import read_live
from pgdyno.features.tune.space import SETTINGS_MAX, Dimension, dimensions
from pgdyno.features.tune.spec import TuneDesign
from pgdyno.features.tune.storage import choices_now
from pgdyno.quantities import duration_text
from pgdyno.server.connect import connect
from pgdyno.server.conninfo import resolve
from pgdyno.server.find import Binaries
from pgdyno.server.system_settings import not_alterable
from pgdyno.server.target import Target
from pgdyno.settings.formula import Machine
from pgdyno.settings.published import Recommended, practical, recommend, rule_set
from pgdyno.settings.rule import snapshot
from pgdyno.settings.table import Risk, catalogue
from pgdyno.settings.value import defaults_of, is_far
from pgdyno.spec.experiment import Experiment, Server, Workload
from pgdyno.spec.run_needs import NEEDS
from pgdyno.spec.units import duration_ns, ram_here_bytes
from pgdyno.store.stored_run import StoredRun

# Without a restart, a run starts about a second after the one before has ended.
_OVERHEAD_NS = 1_000_000_000
_WARM_NS = 2_000_000_000
_WIDTH = 100
_LIBRARIES = {"lz4": "--with-lz4", "zstd": "--with-zstd", "io_uring": "--with-liburing"}


@dataclass(frozen=True, slots=True)
class Known:
    """The server before the search: its machine, its settings, and the values it was built for.

    `is_disk_assumed`: whether nothing says what kind of disk it has.
    """

    machine: Machine
    now: dict[str, str]
    enum_values: dict[str, tuple[str, ...]]
    is_disk_assumed: bool = False

    @property
    def facts(self) -> str:
        """Return what the formulas compute their values from."""
        return machine_text(self.machine, is_disk_assumed=self.is_disk_assumed)


def known_of_scratch(experiment: Experiment, binaries: Binaries) -> Known:
    """Return what a scratch server will be; it is not started for this."""
    now = defaults_of(binaries.major) | dict(experiment.server.settings)
    machine = Machine(
        binaries.major,
        connections=int(now["max_connections"]),
        ram_bytes=ram_here_bytes(),
        cores=len(os.sched_getaffinity(0)),
        disk="ssd",
    )
    values = {
        name: tuple(
            value for value in rule.values if _LIBRARIES.get(value, "") in binaries.configure
        )
        for name, rule in snapshot(binaries.major).items()
    }
    now |= choices_now(experiment, binaries.major)
    return Known(machine, now, values, is_disk_assumed=True)


def known_of_own(experiment: Experiment, target: Target) -> Known:
    """Read the user's own server. Raises: RefusedError if nothing can change its settings."""
    reviewed = read_live(Subject(target=target, verb="tune"))
    if experiment.server.admin is None and experiment.server.apply_command is None:
        raise RefusedError(
            "tune changes settings of your own server, and no way to change them was named.",
            hint="add --admin CONNINFO (and --restart-command for settings that need a restart)",
        )
    now = {name: setting.value for name, setting in reviewed.settings.items()}
    values = {name: setting.rule.values for name, setting in reviewed.settings.items()}
    return Known(machine_of(reviewed.facts, {}), now, values)


def planned(
    experiment: Experiment,
    known: Known,
    space: Sequence[Dimension],
    *,
    rules: Mapping[str, str],
    fields: Mapping[str, object],
) -> Experiment:
    """Return the experiment of a tuning, with the present value of each setting that it needs.

    Args: rules, values that are tried early; fields, of the design: what the user asked.
    Raises: ValidationError if the load does not fit the design.
    """
    # What a candidate changes, and what the memory of its settings depends on.
    named = (rules, fields.get("formula"), fields.get("together"))
    changed = [*(dimension.name for dimension in space), *ALLOWING_SETTINGS]
    changed += [name for values in named if isinstance(values, Mapping) for name in values]
    given = {
        "settings": tuple(written(dimension) for dimension in space),
        "now": {name: known.now[name] for name in dict.fromkeys(changed)},
        "ram_bytes": known.machine.ram_bytes,
        "major": known.machine.major,
        "rules": dict(rules),
        **fields,
    }
    return experiment.with_fields(design=TuneDesign.model_validate(given))


def with_data(known: Known, run: StoredRun) -> Known:
    """Return the same with the size of the data that a run had."""
    size_bytes = (run.server_json.get("reset") or {}).get("database_bytes_before")
    machine = known.machine
    return replace(
        known, machine=replace(machine, database_bytes=size_bytes or machine.database_bytes)
    )


def rules_of(known: Known, names: Container[str]) -> dict[str, str]:
    """Return the values that published rules have for these settings, and for this data."""
    return {name: advice.text or "" for name, advice in _advised(known) if name in names}


def reasons_of(known: Known, names: Container[str]) -> dict[str, str]:
    """Return how published rules compute the values of these settings."""
    return {name: f"PGTune: {advice.formula}" for name, advice in _advised(known) if name in names}


def _advised(known: Known) -> Iterator[tuple[str, Recommended]]:
    """Yield the advice that has a value which this server accepts."""
    machine = known.machine
    fitting = partial(buffers_fitting, data_bytes=machine.database_bytes)
    advised = recommend(rule_set("pgtune"), machine, {"shared_buffers": (fitting, "the data")})
    for name, advice in practical(advised, machine).items():
        rule = snapshot(machine.major).get(name)
        if rule is None or advice.text is None:
            continue
        allowed = known.enum_values.get(name, rule.values)
        if rule.vartype != "enum" or advice.text in allowed:
            yield name, advice


def formula_of(known: Known) -> dict[str, str]:
    """Return the values of published rules that differ much from those of now."""
    rules = snapshot(known.machine.major)
    # For max_connections a rule has only the assumption of its author, and the server tries huge
    # pages by itself.
    names = rule_set("pgtune").formulas.keys() - {"max_connections", "huge_pages"}
    # -1: the server computes the value, such as that of wal_buffers.
    return {
        name: text
        for name, text in rules_of(known, names).items()
        if "-1" not in (known.now[name], text) and is_far(rules[name], known.now[name], text)
    }


def together_of(
    experiment: Experiment,
    known: Known,
    formula: Mapping[str, str],
    unusual: Iterable[str],
    risks: Sequence[Risk],
) -> dict[str, str]:
    """Return the values that are measured together: of formulas, and defaults of unusual values.

    Settings of a class that is not allowed, and those that cannot be changed, are left out.
    """
    defaults, entries = defaults_of(known.machine.major), catalogue()
    values = {name: defaults[name] for name in unusual} | dict(formula)
    names = [name for name in values if name in entries and entries[name].risk in risks]
    fixed = unchangeable(experiment, known, names)
    return {name: values[name] for name in names if name not in fixed}


def not_shown(names: Iterable[str], next_checkpoint_ns: int | None, long_ns: int) -> dict[str, str]:
    """Return the settings that act on checkpoints, if no run of this length would have one.

    Args: next_checkpoint_ns, from one checkpoint to the next under this load; None: not known.
    """
    if next_checkpoint_ns is None or next_checkpoint_ns <= long_ns:
        return {}
    took, rare = duration_text(long_ns), duration_text(next_checkpoint_ns)
    why = (
        f"this load leads to a checkpoint every {rare}, and the budget has time for runs of {took};"
        " from the formula"
    )
    return {name: why for name in names if NEEDS.get(name) == "checkpoint"}


def unsearchable(
    experiment: Experiment, known: Known, names: Sequence[str], risks: Sequence[Risk]
) -> dict[str, str]:
    """Return the settings that cannot be searched, each with the reason: no range, or no rights."""
    reasons = unchangeable(experiment, known, names)
    for name in names:
        try:
            dimensions([name], known.machine, known.now, risks)
        except SpecError as error:
            reasons.setdefault(name, str(error).partition(": ")[2].rstrip("."))
    return reasons


def unchangeable(experiment: Experiment, known: Known, names: Iterable[str]) -> dict[str, str]:
    """Return the settings that cannot be changed on the user's own server, each with the reason."""
    server, rules = experiment.server, snapshot(known.machine.major)
    if server.scratch is not None or server.apply_command is not None:
        return {}
    needs = {name: rules[name].needs for name in names}
    reasons = {}
    if server.restart_command is None:
        restarts = [name for name, need in needs.items() if need == "restart"]
        reasons = dict.fromkeys(restarts, "it needs a restart, and --restart-command is missing")
    if server.admin is not None:
        admin = resolve(conninfo=server.admin).target
        asked_of = [
            name for name, need in needs.items() if need != "session" and name not in reasons
        ]
        with connect(admin, verb="tune") as connection:
            missing = not_alterable(connection, asked_of)
        reasons |= dict.fromkeys(missing, f"{admin.user} may not change it")
    return reasons


def refuse_without_rights(
    server: Server, space: tuple[Dimension, ...], *, is_applied: bool
) -> None:
    """Raise RefusedError for settings that the role of --admin may not change."""
    if server.dsn is None or server.admin is None or server.apply_command is not None:
        return
    names = [
        dimension.name for dimension in space if is_applied or dimension.rule.needs != "session"
    ]
    admin = resolve(conninfo=server.admin).target
    with connect(admin, verb="tune") as connection:
        missing = not_alterable(connection, names)
    if missing:
        raise RefusedError(
            f"{admin.user} may not change {', '.join(missing)} on {admin.place}.",
            hint=f"GRANT ALTER SYSTEM ON PARAMETER {', '.join(missing)} TO {admin.user}"
            " (PostgreSQL 15 or later), or name another role with --admin",
        )


def refuse_short_budget(workload: Workload, budget: str) -> None:
    """Raise SpecError with the least budget if this one has no time for an interval.

    An interval needs three pairs of runs; a pilot finds the warm-up.
    """
    warm_ns = _WARM_NS if workload.warmup_ns is None else workload.warmup_ns
    runs_min = 2 * PAIRS_PLANNED + (workload.warmup_ns is None)
    needed_ns = runs_min * (workload.duration_ns + warm_ns + _OVERHEAD_NS)
    if duration_ns(budget, what="--budget") < needed_ns:
        least = duration_text(10_000_000_000 * -(-needed_ns // 10_000_000_000))
        raise SpecError(
            f"--budget {budget} is too short for an interval, which needs {PAIRS_PLANNED} pairs of"
            f" runs of {duration_text(workload.duration_ns)}: they take about {least}.",
            hint=f"--budget {least.replace(' ', '')}",
        )


def lines_of_choice(
    experiment: Experiment, known: Known, risks: Sequence[Risk], *, budget: str, has_reasons: bool
) -> Iterator[str]:
    """Yield what would be searched if evidence chose the settings: each with its range.

    Args: budget, the time of the tuning; has_reasons, whether each has the evidence that it needs.
    """
    yield f"time        at most {duration_text(duration_ns(budget, what='--budget'))}"
    yield (
        f"first       a run of the load chooses at most {SETTINGS_MAX} of these settings, by its"
        f" evidence{'' if has_reasons else ' (-v: which)'}"
    )
    yield "then        the values of PGTune's formulas together, then each setting alone"
    possible = choosable(known.machine, risks)
    left_out = unsearchable(experiment, known, [choice.setting for choice in possible], risks)
    for choice in possible:
        if why := left_out.get(choice.setting):
            yield f"not         {choice.setting}: {why}"
            continue
        [dimension] = dimensions([choice.setting], known.machine, known.now, risks)
        yield searched_line(dimension, known)
        if has_reasons:
            why = f"if {choice.why}"
            yield fill(why, _WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 12)


def searched_line(dimension: Dimension, known: Known) -> str:
    """Return "search      work_mem: 64kB..1GB, now 4MB"."""
    name, _, values = written(dimension).partition("=")
    return f"{'search':12}{name}: {values}, now {known.now[name]}"


def written(dimension: Dimension) -> str:
    """Return a dimension as text for the spec, with its range, which may depend on the machine."""
    if dimension.scale == "choice":
        return f"{dimension.name}={','.join(dimension.values)}"
    return f"{dimension.name}={dimension.values[0]}..{dimension.values[-1]}"
