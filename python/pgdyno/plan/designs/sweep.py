"""The design of `sweep`: throughput and latency at several numbers of clients (levels).

A line is one script of one variant; each line has one curve. The stages are:

1. One pilot for each line.
2. Rounds. A round measures every level of every line once, in a random order that follows from the
   seed, so that drift and hysteresis affect all levels alike. The variants of a level follow each
   other; half of the levels have them in reverse order. With the levels `auto`, the first round
   doubles the level until throughput has fallen past the peak, and then adds levels next to the
   best one. The first variant finds these levels, the others use the same.
3. With a latency target: for each line, the search for the highest load that meets the target. The
   load is a rate, or a number of clients if the target is that of a transaction type. If the
   machine disturbs most trials, the search ends after the first few.
4. One longer run of the first line at its knee, which is reported in detail.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.analysis.capacity import LoadLimit, LoadTrial
from pgdyno.analysis.compare import shuffled
from pgdyno.plan.capacity import RUNS_MAX, next_clients, next_rate
from pgdyno.plan.design import NONE, Design
from pgdyno.plan.designs.budgeted import round_ns
from pgdyno.plan.history import (
    History,
    Measured,
    elapsed_ns,
    pilots,
    rounds,
    trials,
    warm_ns,
    why_no_answer,
)
from pgdyno.plan.visits import WARMUP_LEAST_NS, pilot
from pgdyno.quantities import counted
from pgdyno.spec.designs import SweepDesign
from pgdyno.spec.planned import Cell, PlannedRun, PlannedVariant, Purpose, Stop

# A level belongs to the plateau if its throughput is at most this much below the best.
PLATEAU_RATIO = 0.03
# `auto` stops climbing at a level this far below the peak, or at two levels below the plateau.
PAST_PEAK_RATIO = 0.10
PILOT_CLIENTS_MAX = 8


@dataclass(frozen=True, slots=True)
class SweepCurve:
    """One script of one variant, which has one curve."""

    script: int
    variant: PlannedVariant | None

    def cell(self, clients: int, rate_tps: float | None = None) -> Cell:
        """Return the load of a run at one level, in a closed loop if there is no rate."""
        return Cell((self.script,), clients, rate_tps, variant=self.variant)

    def is_of(self, cell: Cell) -> bool:
        """Return whether a run belongs to this line."""
        return (cell.script_indexes, cell.variant) == ((self.script,), self.variant)


class Sweep(Design[SweepDesign]):
    """Every level of every line, then one run at the knee."""

    model = SweepDesign

    def next_run(self, history: History, excluded: frozenset[str] = NONE) -> PlannedRun | Stop:
        """Return the next run, or Stop with the reason."""
        lines = self.lines(excluded)
        if not lines:
            return Stop("no variant can be measured")
        if missing := self._pilot_missing(history, lines):
            return missing
        if run := self._next_of_rounds(history, lines):
            return run
        run = self._next_trial(history, lines)
        if run is not None and not self._is_over(history, run.measure_ns):
            return run
        if all(measured.run.purpose != "detail" for measured in history):
            knee = plateau_start(mean_tps(history, lines[0]))
            reason = f"detailed run at the knee of the curve, {knee} clients"
            return self._run(history, "detail", lines[0].cell(knee), reason=reason)
        done = max((measured.run.round for measured in rounds(history)), default=0)
        return Stop(f"every level was measured {counted(done, 'time')}")

    @property
    def budget_ns(self) -> int | None:
        """Return the time after which no further round begins; None without a budget."""
        return self.asked.runs_ns

    def _is_over(self, history: History, more_ns: int) -> bool:
        """Return whether the budget has no time for more runs and the run at the knee."""
        if self.budget_ns is None:
            return False
        return elapsed_ns(history) + more_ns + self.asked.knee_ns > self.budget_ns

    def runs_expected(self, history: History, excluded: frozenset[str] = NONE) -> int:
        """Return an estimate of the number of runs of all stages."""
        design, lines, counted = self.asked, self.lines(excluded), rounds(history)
        levels = sum(len(_levels(design, counted, line)) or _doublings(design) for line in lines)
        piloted = len(lines) if self.experiment.workload.warmup_ns is None else 0
        is_searched = design.target is not None and not why_no_load(history, self.slo)
        tried = len(lines) * (RUNS_MAX * 3 // 4) if is_searched else 0
        expected = piloted + levels * design.rounds + max(tried, len(trials(history))) + 1
        return max(expected, len(history))

    def outlook(self, history: History, excluded: frozenset[str] = NONE) -> str:  # noqa: ARG002
        """Return that the search for the load ended early, and why; else ""."""
        why = why_no_load(history, self.slo)
        if self.slo is None or not why:
            return ""
        return f"the search for the load under {self.slo.name} ends: {why}"

    def clocked_ns(self) -> Mapping[Purpose, tuple[str, int]]:
        """Return the lengths of the runs at a level and of the run at the knee."""
        return {
            "round": ("a run at a level", self.asked.run_ns),
            "detail": ("the run at the knee", self.asked.knee_ns),
        }

    def lines(self, excluded: frozenset[str] = NONE) -> tuple[SweepCurve, ...]:
        """Return the lines of all variants that can be measured, ordered by script."""
        experiment = self.experiment
        if not experiment.all_variants():
            scripts = enumerate(experiment.workload.scripts)
            return tuple(SweepCurve(index, None) for index, script in scripts if script.weight > 0)
        lines = [
            SweepCurve(script, variant)
            for variant in self.usable(excluded)
            for script in experiment.scripts_of(variant)
        ]
        return tuple(sorted(lines, key=lambda line: line.script))

    @property
    def slo(self) -> LoadLimit | None:
        """Return the latency target; None if the experiment has none."""
        asked = self.asked.target
        if asked is None:
            return None
        in_clients = f"{self.experiment.program.client_word}s"
        return LoadLimit(asked.figure, asked.limit, in_clients if asked.of else "tps")

    def _pilot_missing(self, history: History, lines: tuple[SweepCurve, ...]) -> PlannedRun | None:
        if self.experiment.workload.warmup_ns is not None:
            return None
        done = [measured.run.cell for measured in pilots(history)]
        clients = min(PILOT_CLIENTS_MAX, self.experiment.clients_max())
        for line in lines:
            if not any(line.is_of(cell) for cell in done):
                number, run_ns = len(history) + 1, self.asked.run_ns
                return pilot(self.seed, line.cell(clients), number=number, run_ns=run_ns)
        return None

    def _next_of_rounds(self, history: History, lines: tuple[SweepCurve, ...]) -> PlannedRun | None:
        design, counted = self.asked, rounds(history)
        for number in range(1, design.rounds + 1):
            visited = [m.run.cell for m in counted if m.run.round == number]
            if not visited and number > 1 and self._is_over(history, round_ns(history)):
                return None
            todo = [
                cell
                for block in _blocks(design, counted, lines, number, self.order_seed)
                for cell in block
                if cell not in visited
            ]
            if todo:
                reason = f"round {number} of {design.rounds}"
                return self._run(history, "round", todo[0], number=number, reason=reason)
        return None

    def _next_trial(self, history: History, lines: tuple[SweepCurve, ...]) -> PlannedRun | None:
        """Return the next run against the target, with as many clients as at the peak."""
        target = self.slo
        if target is None or why_no_load(history, target):
            return None
        for line in lines:
            if target.is_closed:
                if cell := self._next_clients(history, line, target):
                    reason = f"{cell.clients} {target.unit} against {target.rule}"
                    return self._run(history, "capacity", cell, reason=reason)
                continue
            by_level = mean_tps(history, line)
            peak = max(by_level, key=lambda level: by_level[level])
            if by_level[peak] == 0:
                continue  # No run completed a transaction, so the search has no place to begin.
            rate = next_rate(trials_of(history, line, target), target, by_level[peak])
            if rate is not None:
                # The rate has three digits, so that the offered and the shown rate are equal.
                cell = line.cell(peak, rate_tps=float(f"{rate:.3g}"))
                reason = f"{cell.rate_tps:g} tps against {target.name} <= {target.limit_ms:g} ms"
                return self._run(history, "capacity", cell, reason=reason)
        return None

    def _next_clients(self, history: History, line: SweepCurve, target: LoadLimit) -> Cell | None:
        clients = next_clients(
            trials_of(history, line, target),
            target,
            largest=self.experiment.clients_max(),
            search_count=sum(line.is_of(trial.run.cell) for trial in trials(history)),
        )
        return None if clients is None else line.cell(clients)

    def _run(
        self, history: History, purpose: Purpose, cell: Cell, *, reason: str, number: int = 0
    ) -> PlannedRun:
        asked_ns = self.experiment.workload.warmup_ns
        return PlannedRun(
            number=len(history) + 1,
            purpose=purpose,
            round=number,
            cell=cell,
            warm_ns=warm_ns(history, asked_ns=asked_ns, least_ns=WARMUP_LEAST_NS),
            measure_ns=self.asked.knee_ns if purpose == "detail" else self.asked.run_ns,
            seed=self.seed + len(history) + 1,
            reason=reason,
        )


def why_no_load(history: History, target: LoadLimit | None) -> str:
    """Return why this machine cannot say which load meets a latency target, or "".

    A disturbed trial that met the target is as good as another; one that missed it says nothing.
    """
    if target is None:
        return ""

    def missed(seen: Measured) -> bool:
        return not target.is_met(_trial(seen, target))

    return why_no_answer(trials(history), missed, runs="trials", spoils="missed the target")


def plateau_start(tps_by_level: dict[int, float]) -> int:
    """Return the smallest level with a throughput of at least 97 % of the best."""
    best = max(tps_by_level.values())
    return min(level for level, tps in tps_by_level.items() if tps >= (1 - PLATEAU_RATIO) * best)


def mean_tps(history: History, line: SweepCurve) -> dict[int, float]:
    """Return level -> mean throughput of the runs of `line` in rounds, smallest level first."""
    by_level: dict[int, list[float]] = {}
    for measured in rounds(history):
        if line.is_of(measured.run.cell):
            by_level.setdefault(measured.run.cell.clients, []).append(measured.tps)
    return {level: sum(values) / len(values) for level, values in sorted(by_level.items())}


def trials_of(history: History, line: SweepCurve, target: LoadLimit) -> list[LoadTrial]:
    """Return the trials of a line against the latency target.

    If the load is a number of clients, the runs of the levels are trials, too.
    """
    runs = (*rounds(history), *trials(history)) if target.is_closed else trials(history)
    return [_trial(measured, target) for measured in runs if line.is_of(measured.run.cell)]


def _trial(measured: Measured, target: LoadLimit) -> LoadTrial:
    latency_ms = measured.latency_ms.get(target.name, math.inf)
    if target.is_closed:
        return LoadTrial(measured.run.cell.clients, 1.0, latency_ms)
    offered_tps = measured.run.cell.rate_tps or measured.tps
    return LoadTrial(offered_tps, measured.achieved_ratio, latency_ms)


def _blocks(
    design: SweepDesign, counted: History, lines: tuple[SweepCurve, ...], number: int, seed: int
) -> list[list[Cell]]:
    """Return the cells of a round in order, in blocks: one level of one script, all variants."""
    blocks = []
    for _, group in itertools.groupby(lines, key=lambda line: line.script):
        together = list(group)
        for level in _levels_of_round(design, counted, together[0], number):
            blocks.append([line.cell(level) for line in together])
    # The climb of `auto` must go upwards. All other rounds are shuffled by the seed.
    if not (design.levels == "auto" and number == 1):
        blocks = shuffled(blocks, seed, number)
    return [shuffled(block, seed, f"{number}/{place}") for place, block in enumerate(blocks)]


def _levels_of_round(
    design: SweepDesign, counted: History, line: SweepCurve, number: int
) -> tuple[int, ...]:
    if design.levels != "auto":
        return design.levels
    if number > 1:
        return _levels(design, counted, line)
    first = tuple(m for m in counted if m.run.round == 1)
    return (*_levels(design, first, line), *_climb(design, mean_tps(first, line)))


def _levels(design: SweepDesign, counted: History, line: SweepCurve) -> tuple[int, ...]:
    if design.levels != "auto":
        return design.levels
    return tuple(mean_tps(counted, line))


def _climb(design: SweepDesign, tps_by_level: dict[int, float]) -> tuple[int, ...]:
    """Return the next level of the first round of `auto`; nothing after the last one."""
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
