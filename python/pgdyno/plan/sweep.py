"""The load curve: which level next.

A line is one script of one variant; every line has a curve. Fixed levels: a pilot a line, then
every level of every line once a round, in seeded random order, so that drift and hysteresis fall
on all levels alike; the variants of one level follow each other, in an order that turns round.
`auto`: the first round climbs by doubling until throughput has fallen past the peak, then levels
between the best one's neighbours are added; the first variant climbs, the others follow it. With a
latency target the load that can be held is searched for every line. At the end one longer run of
the first line at its knee, in detail.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

from pgdyno.analysis.capacity import Target, Trial
from pgdyno.analysis.compare import is_reversed
from pgdyno.plan.bench import WARMUP_LEAST_NS, pilot
from pgdyno.plan.capacity import RUNS_MAX, next_rate
from pgdyno.plan.history import History, pilots, rounds, trials, warm_ns
from pgdyno.plan.visits import usable
from pgdyno.spec.experiment import Experiment, SweepDesign
from pgdyno.spec.planned import Cell, PlannedRun, Purpose, Stop

# A level belongs to the plateau while it is within this of the best one (DESIGN: N_BASE).
PLATEAU_RATIO = 0.03
# `auto` has seen enough when throughput fell this far below the peak, or at two levels in a row.
PAST_PEAK_RATIO = 0.10
PILOT_CLIENTS_MAX = 8


@dataclass(frozen=True, slots=True)
class Line:
    """One script of one variant: what a curve is of."""

    script: int
    variant: int | None

    def cell(self, clients: int, rate_tps: float | None = None) -> Cell:
        """Return what a run at one level loads the server with."""
        return Cell((self.script,), clients, rate_tps, variant=self.variant)

    def is_of(self, cell: Cell) -> bool:
        """Return whether a run belongs to this line."""
        return (cell.script_indexes, cell.variant) == ((self.script,), self.variant)


def next_run(
    experiment: Experiment, seed: int, history: History, excluded: frozenset[int] = frozenset()
) -> PlannedRun | Stop:
    """Return the next run of a sweep."""
    design = experiment.design
    assert isinstance(design, SweepDesign)
    lines = lines_of(experiment, excluded)
    if not lines:
        return Stop("no variant can be measured")
    if missing := _pilot_missing(experiment, seed, history, lines):
        return missing
    if run := _next_of_rounds(experiment, seed, history, lines):
        return run
    if run := _next_trial(experiment, seed, history, lines):
        return run
    if all(measured.run.purpose != "detail" for measured in history):
        knee = plateau_start(mean_tps(history, lines[0]))
        reason = f"detailed run at the knee of the curve, {knee} clients"
        return _run(experiment, seed, history, "detail", lines[0].cell(knee), reason=reason)
    return Stop(f"every level was measured {design.rounds} times")


def runs_expected(
    experiment: Experiment, history: History, excluded: frozenset[int] = frozenset()
) -> int:
    """Return how many runs the sweep will take, as far as can be said now."""
    design = experiment.design
    assert isinstance(design, SweepDesign)
    lines = lines_of(experiment, excluded)
    levels = sum(len(_levels(design, rounds(history), one)) or _doublings(design) for one in lines)
    piloted = len(lines) if experiment.workload.warmup_ns is None else 0
    tried = len(lines) * (RUNS_MAX * 3 // 4) if design.target is not None else 0
    return piloted + levels * design.rounds + max(tried, len(trials(history))) + 1


def lines_of(experiment: Experiment, excluded: frozenset[int] = frozenset()) -> tuple[Line, ...]:
    """Return script by script, the lines of all variants that can be measured."""
    if not experiment.all_variants():
        scripts = enumerate(experiment.workload.scripts)
        return tuple(Line(index, None) for index, script in scripts if script.weight > 0)
    found = [
        Line(script, variant)
        for variant in usable(experiment, excluded)
        for script in experiment.scripts_of(variant)
    ]
    return tuple(sorted(found, key=lambda line: line.script))


def plateau_start(tps_by_level: dict[int, float]) -> int:
    """Return the smallest level whose throughput is within 3 % of the best."""
    best = max(tps_by_level.values())
    return min(level for level, tps in tps_by_level.items() if tps >= (1 - PLATEAU_RATIO) * best)


def mean_tps(history: History, line: Line) -> dict[int, float]:
    """Return level -> mean throughput of the counted runs of `line`."""
    by_level: dict[int, list[float]] = {}
    for measured in rounds(history):
        if line.is_of(measured.run.cell):
            by_level.setdefault(measured.run.cell.clients, []).append(measured.tps)
    return {level: sum(values) / len(values) for level, values in sorted(by_level.items())}


def trials_of(history: History, line: Line, target: Target) -> list[Trial]:
    """Return what was tried of a line against the latency target."""
    return [
        Trial(one.run.cell.rate_tps or one.tps, one.achieved_ratio, one.latency_ms[target.name])
        for one in trials(history)
        if line.is_of(one.run.cell)
    ]


def slo_of(design: SweepDesign) -> Target | None:
    """Return the latency target of a sweep, None without one."""
    asked = design.target
    return None if asked is None else Target(asked.name, asked.limit_ratio)


def _pilot_missing(
    experiment: Experiment, seed: int, history: History, lines: tuple[Line, ...]
) -> PlannedRun | None:
    if experiment.workload.warmup_ns is not None:
        return None
    done = [measured.run.cell for measured in pilots(history)]
    design = experiment.design
    assert isinstance(design, SweepDesign)
    clients = min(PILOT_CLIENTS_MAX, experiment.clients_max())
    for line in lines:
        if not any(line.is_of(cell) for cell in done):
            number = len(history) + 1
            return pilot(seed, line.cell(clients), number=number, run_ns=design.run_ns)
    return None


def _next_of_rounds(
    experiment: Experiment, seed: int, history: History, lines: tuple[Line, ...]
) -> PlannedRun | None:
    design = experiment.design
    assert isinstance(design, SweepDesign)
    counted = rounds(history)
    for number in range(1, design.rounds + 1):
        visited = [m.run.cell for m in counted if m.run.round == number]
        todo = [
            cell
            for block in _blocks(design, counted, lines, number, seed)
            for cell in block
            if cell not in visited
        ]
        if todo:
            reason = f"round {number} of {design.rounds}"
            return _run(experiment, seed, history, "round", todo[0], number=number, reason=reason)
    return None


def _blocks(
    design: SweepDesign, counted: History, lines: tuple[Line, ...], number: int, seed: int
) -> list[list[Cell]]:
    """Return the cells of a round in order: a block has one level of one script, every variant."""
    blocks = []
    for _, group in itertools.groupby(lines, key=lambda line: line.script):
        together = list(group)
        for level in _levels_of_round(design, counted, together[0], number):
            blocks.append([line.cell(level) for line in together])
    # The climb of `auto` must go upwards; everything else is shuffled, the same way every time.
    if not (design.levels == "auto" and number == 1):
        random.Random(f"{seed}/{number}").shuffle(blocks)
    return [
        block[::-1] if is_reversed(place + number - 1) else block
        for place, block in enumerate(blocks)
    ]


def _levels_of_round(
    design: SweepDesign, counted: History, line: Line, number: int
) -> tuple[int, ...]:
    if design.levels != "auto":
        return design.levels
    if number > 1:
        return _levels(design, counted, line)
    first = tuple(m for m in counted if m.run.round == 1)
    return (*_levels(design, first, line), *_climb(design, mean_tps(first, line)))


def _levels(design: SweepDesign, counted: History, line: Line) -> tuple[int, ...]:
    if design.levels != "auto":
        return design.levels
    return tuple(mean_tps(counted, line))


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


def _next_trial(
    experiment: Experiment, seed: int, history: History, lines: tuple[Line, ...]
) -> PlannedRun | None:
    """Return the next load to try against the target, by as many clients as the peak had."""
    design = experiment.design
    assert isinstance(design, SweepDesign)
    target = slo_of(design)
    if target is None:
        return None
    for line in lines:
        by_level = mean_tps(history, line)
        peak = max(by_level, key=lambda level: by_level[level])
        rate = next_rate(trials_of(history, line, target), target, by_level[peak])
        if rate is not None:
            # Three digits are what is offered, kept and shown.
            cell = line.cell(peak, rate_tps=float(f"{rate:.3g}"))
            reason = f"{cell.rate_tps:g} tps against {target.name} <= {target.limit_ms:g} ms"
            return _run(experiment, seed, history, "capacity", cell, reason=reason)
    return None


def _run(
    experiment: Experiment,
    seed: int,
    history: History,
    purpose: Purpose,
    cell: Cell,
    *,
    reason: str,
    number: int = 0,
) -> PlannedRun:
    design = experiment.design
    assert isinstance(design, SweepDesign)
    return PlannedRun(
        number=len(history) + 1,
        purpose=purpose,
        round=number,
        cell=cell,
        warm_ns=warm_ns(history, asked_ns=experiment.workload.warmup_ns, least_ns=WARMUP_LEAST_NS),
        measure_ns=design.knee_ns if purpose == "detail" else design.run_ns,
        seed=seed + len(history) + 1,
        reason=reason,
    )
