"""The load curve: which level next.

Fixed levels: a pilot a script, then every level once a round, in seeded random order, so that
drift and hysteresis fall on all levels alike. `auto`: the first round climbs by doubling until
throughput has fallen past the peak, then levels between the best one's neighbours are added; later
rounds visit all of them. At the end one longer run of the first script at its knee, in detail.
"""

from __future__ import annotations

import itertools
import random

from pgdyno.plan.bench import WARMUP_LEAST_NS, pilot
from pgdyno.plan.history import History, pilots, rounds, warm_ns
from pgdyno.spec.experiment import Experiment, SweepDesign
from pgdyno.spec.planned import Cell, PlannedRun, Stop

# A level belongs to the plateau while it is within this of the best one (DESIGN: N_BASE).
PLATEAU_RATIO = 0.03
# `auto` has seen enough when throughput fell this far below the peak, or at two levels in a row.
PAST_PEAK_RATIO = 0.10
PILOT_CLIENTS_MAX = 8


def next_run(experiment: Experiment, seed: int, history: History) -> PlannedRun | Stop:
    """Return the next run of a sweep."""
    design = experiment.design
    assert isinstance(design, SweepDesign)
    if missing := _pilot_missing(experiment, seed, history):
        return missing
    if run := _next_of_rounds(experiment, design, seed, history):
        return run
    if all(measured.run.purpose != "detail" for measured in history):
        return _detail(experiment, design, seed, history)
    return Stop(f"every level was measured {design.rounds} times")


def runs_expected(experiment: Experiment, history: History) -> int:
    """Return how many runs the sweep will take, as far as can be said now."""
    design = experiment.design
    assert isinstance(design, SweepDesign)
    scripts = _scripts(experiment)
    levels = sum(
        len(_levels(design, rounds(history), script)) or _doublings(design) for script in scripts
    )
    piloted = len(scripts) if experiment.workload.warmup_ns is None else 0
    return piloted + levels * design.rounds + 1


def plateau_start(tps_by_level: dict[int, float]) -> int:
    """Return the smallest level whose throughput is within 3 % of the best."""
    best = max(tps_by_level.values())
    return min(level for level, tps in tps_by_level.items() if tps >= (1 - PLATEAU_RATIO) * best)


def mean_tps(history: History, script: int) -> dict[int, float]:
    """Return level -> mean throughput of the counted runs of `script`."""
    by_level: dict[int, list[float]] = {}
    for measured in rounds(history):
        if measured.run.cell.script_indexes == (script,):
            by_level.setdefault(measured.run.cell.clients, []).append(measured.tps)
    return {level: sum(values) / len(values) for level, values in sorted(by_level.items())}


def _scripts(experiment: Experiment) -> tuple[int, ...]:
    scripts = experiment.workload.scripts
    return tuple(index for index, script in enumerate(scripts) if script.weight > 0)


def _pilot_missing(experiment: Experiment, seed: int, history: History) -> PlannedRun | None:
    if experiment.workload.warmup_ns is not None:
        return None
    done = {measured.run.cell.script_indexes for measured in pilots(history)}
    clients = min(PILOT_CLIENTS_MAX, experiment.clients_max())
    for script in _scripts(experiment):
        if (script,) not in done:
            return pilot(seed, Cell((script,), clients), number=len(history) + 1)
    return None


def _next_of_rounds(
    experiment: Experiment, design: SweepDesign, seed: int, history: History
) -> PlannedRun | None:
    counted = rounds(history)
    for round_number in range(1, design.rounds + 1):
        visited = [m.run.cell for m in counted if m.run.round == round_number]
        todo = [
            Cell((script,), level)
            for script in _scripts(experiment)
            for level in _levels_of_round(design, counted, script, round_number)
            if Cell((script,), level) not in visited
        ]
        if not todo:
            continue
        # The climb of `auto` must go upwards; everything else is shuffled, the same way every time.
        if not (design.levels == "auto" and round_number == 1):
            random.Random(f"{seed}/{round_number}").shuffle(todo)
        return PlannedRun(
            number=len(history) + 1,
            purpose="round",
            round=round_number,
            cell=todo[0],
            warm_ns=warm_ns(
                history, asked_ns=experiment.workload.warmup_ns, least_ns=WARMUP_LEAST_NS
            ),
            measure_ns=design.run_ns,
            seed=seed + len(history) + 1,
            reason=f"round {round_number} of {design.rounds}",
        )
    return None


def _levels_of_round(
    design: SweepDesign, counted: History, script: int, round_number: int
) -> tuple[int, ...]:
    if design.levels != "auto":
        return design.levels
    if round_number > 1:
        return _levels(design, counted, script)
    first = tuple(m for m in counted if m.run.round == 1)
    return (*_levels(design, first, script), *_climb(design, mean_tps(first, script)))


def _levels(design: SweepDesign, counted: History, script: int) -> tuple[int, ...]:
    if design.levels != "auto":
        return design.levels
    return tuple(mean_tps(counted, script))


def _climb(design: SweepDesign, tps_by_level: dict[int, float]) -> tuple[int, ...]:
    """Return the next level of the first round of `auto`, or nothing when the peak is framed."""
    levels = sorted(tps_by_level)
    doubled = [level for level in levels if level & (level - 1) == 0 or level == design.clients_max]
    if not doubled:
        return (1,)
    if not _is_past_peak(doubled, tps_by_level) and doubled[-1] < design.clients_max:
        return (min(2 * doubled[-1], design.clients_max),)
    best = max(doubled, key=lambda level: tps_by_level[level])
    around = [level for level in doubled if best // 2 <= level <= best * 2]
    middles = [(low + high) // 2 for low, high in itertools.pairwise(around)]
    return tuple(level for level in middles if level not in levels)[:1]


def _is_past_peak(doubled: list[int], tps_by_level: dict[int, float]) -> bool:
    best = max(tps_by_level[level] for level in doubled)
    last = [tps_by_level[level] for level in doubled[-2:]]
    return last[-1] < (1 - PAST_PEAK_RATIO) * best or (
        len(doubled) > 2 and all(tps < (1 - PLATEAU_RATIO) * best for tps in last)
    )


def _doublings(design: SweepDesign) -> int:
    return design.clients_max.bit_length() + 2


def _detail(experiment: Experiment, design: SweepDesign, seed: int, history: History) -> PlannedRun:
    script = _scripts(experiment)[0]
    knee = plateau_start(mean_tps(history, script))
    return PlannedRun(
        number=len(history) + 1,
        purpose="detail",
        round=0,
        cell=Cell((script,), knee),
        warm_ns=warm_ns(history, asked_ns=experiment.workload.warmup_ns, least_ns=WARMUP_LEAST_NS),
        measure_ns=design.knee_ns,
        seed=seed + len(history) + 1,
        reason=f"the knee of the curve, {knee} clients, in detail",
    )
