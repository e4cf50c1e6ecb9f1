"""Is B better than A: adjacent pairs until every verdict is in, or the budget is used up.

A round visits the reference (the first variant that can be measured) and every variant whose
verdict is still open; the order turns round so that drift falls on all alike. What is decided is
not measured any further. Only the sequential interval decides, so one may look after every round.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.compare import (
    Better,
    Comparison,
    compare,
    family_level,
    is_reversed,
    log_ratios,
    predict_pairs,
)
from pgdyno.analysis.intervals import SEQUENTIAL_PAIRS_MIN
from pgdyno.plan.history import History, rounds
from pgdyno.plan.visits import pilot_missing, usable, visit, visited
from pgdyno.spec.designs import MORE_IS_BETTER, CompareDesign
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedRun, Stop
from pgdyno.spec.units import duration_text

ROUNDS_MAX = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Where one variant stands against the reference.

    `ratios`: log(variant / reference) of each round that visited both. `left_ns`: how much longer
    it will take if things stay as they are, None when that cannot be foreseen; `is_within_budget`:
    whether the budget leaves that much.
    """

    variant: int
    reference: int
    ratios: FloatArray
    comparison: Comparison | None
    is_settled: bool
    left_ns: int | None = None
    is_within_budget: bool = True


def next_run(
    experiment: Experiment, seed: int, history: History, excluded: frozenset[int] = frozenset()
) -> PlannedRun | Stop:
    """Return the next run of a comparison, or why there is none."""
    design = experiment.design
    assert isinstance(design, CompareDesign)
    variants = usable(experiment, excluded)
    if len(variants) < 2:
        return Stop("fewer than two variants can be measured")
    if missing := pilot_missing(experiment, seed, history, variants):
        return missing
    metric = experiment.metric()
    if any(metric not in measured.metrics for measured in rounds(history)):
        return Stop(f"{metric} cannot be measured here")
    current = max((measured.run.round for measured in rounds(history)), default=1)
    taking_part = _taking_part(experiment, history, variants, current)
    todo = [one for one in taking_part if one not in visited(history, current)]
    if not todo:
        current += 1
        taking_part = _taking_part(experiment, history, variants, current)
        if len(taking_part) < 2:
            return Stop(f"decided after {current - 1} rounds")
        if reason := _why_enough(design, history, current - 1):
            return Stop(reason)
        todo = taking_part
    ordered = [one for one in _order(taking_part, seed, current) if one in todo]
    return visit(experiment, seed, history, variant=ordered[0], round_number=current)


def standings(
    experiment: Experiment, history: History, excluded: frozenset[int] = frozenset()
) -> tuple[Standing, ...]:
    """Return where every variant stands against the reference, after the whole rounds so far."""
    variants = usable(experiment, excluded)
    if len(variants) < 2:
        return ()
    design = experiment.design
    assert isinstance(design, CompareDesign)
    cost_ns = _round_ns(history)
    room_ns = design.budget_ns - sum(measured.took_ns for measured in history)
    found = [
        _standing(experiment, history, variants, variant, cost_ns=cost_ns)
        for variant in variants[1:]
    ]
    return tuple(
        replace(one, is_within_budget=one.left_ns is None or one.left_ns <= room_ns)
        for one in found
    )


def runs_expected(
    experiment: Experiment, history: History, excluded: frozenset[int] = frozenset()
) -> int:
    """Return how many runs the comparison will take, as far as can be said now."""
    variants = usable(experiment, excluded)
    least = len(variants) * (SEQUENTIAL_PAIRS_MIN + int(experiment.workload.warmup_ns is None))
    if not rounds(history):
        return least
    design = experiment.design
    assert isinstance(design, CompareDesign)
    found = [one for one in standings(experiment, history, excluded) if not one.is_settled]
    if not found:
        return len(history)
    cost_ns = max(_round_ns(history), 1)
    room_ns = design.budget_ns - sum(measured.took_ns for measured in history)
    left_ns = min(room_ns, max(one.left_ns or 0 for one in found))
    more = (1 + len(found)) * (max(left_ns, 0) // cost_ns)
    return max(least, len(history) + more, len(history) + 1)


def _taking_part(
    experiment: Experiment, history: History, variants: Sequence[int], round_number: int
) -> list[int]:
    """Return the reference and what was still open before this round."""
    before = tuple(m for m in history if m.run.round < round_number)
    still_open = [
        variant
        for variant in variants[1:]
        if not _standing(experiment, before, variants, variant, cost_ns=0).is_settled
    ]
    return [variants[0], *still_open] if still_open else [variants[0]]


def _standing(
    experiment: Experiment,
    history: History,
    variants: Sequence[int],
    variant: int,
    *,
    cost_ns: int,
) -> Standing:
    design = experiment.design
    assert isinstance(design, CompareDesign)
    reference = variants[0]
    ratios = _ratios(experiment, history, variant=variant, reference=reference)
    if ratios.size == 0:
        return Standing(variant, reference, ratios, None, is_settled=False)
    found = compare(
        ratios,
        looks="sequential",
        better=better_of(experiment),
        level=family_level(len(variants)),
        margin_ratio=design.margin_ratio,
    )
    is_settled = _is_settled(design, found)
    more = 0 if is_settled else _pairs_left(experiment, ratios, len(variants))
    left_ns = None if more is None or (cost_ns == 0 and more) else more * cost_ns
    return Standing(variant, reference, ratios, found, is_settled, left_ns)


def better_of(experiment: Experiment) -> Better:
    """Return whether more of the deciding metric is better, or less."""
    return "more" if experiment.metric() in MORE_IS_BETTER else "less"


def _ratios(
    experiment: Experiment, history: History, *, variant: int, reference: int
) -> FloatArray:
    metric = experiment.metric()
    by_round: dict[int, dict[int, float]] = {}
    for measured in rounds(history):
        index = measured.run.cell.variant
        if index in (variant, reference) and measured.metrics.get(metric, 0.0) > 0:
            by_round.setdefault(measured.run.round, {})[index] = measured.metrics[metric]
    pairs = [found for _, found in sorted(by_round.items()) if len(found) == 2]
    if not pairs:
        return np.zeros(0)
    return log_ratios([one[reference] for one in pairs], [one[variant] for one in pairs])


def _is_settled(design: CompareDesign, found: Comparison) -> bool:
    if design.precision_ratio is None:
        return found.verdict != "cannot tell"
    if found.ratio.low is None or found.ratio.high is None:
        return False
    half = math.log(found.ratio.high / found.ratio.low) / 2
    return half <= math.log1p(design.precision_ratio)


def _pairs_left(experiment: Experiment, ratios: FloatArray, variant_count: int) -> int | None:
    design = experiment.design
    assert isinstance(design, CompareDesign)
    if ratios.size < 2:
        return None
    return predict_pairs(
        ratios,
        looks="sequential",
        level=family_level(variant_count),
        margin_ratio=design.margin_ratio,
        half_width_ratio=design.precision_ratio,
    )


def _order(taking_part: Sequence[int], seed: int, round_number: int) -> list[int]:
    """Return the order of a round: two variants in the pairs' order, more in a shuffled one.

    Two rounds in a row use one order forwards and backwards, so that a straight drift cancels.
    """
    order = list(taking_part)
    pair = round_number - 1
    if len(order) > 2:
        random.Random(f"{seed}/{pair // 2}").shuffle(order)
    return order[::-1] if is_reversed(pair) else order


def _why_enough(design: CompareDesign, history: History, round_count: int) -> str:
    """Return why no further round is begun though something is open, "" if one is."""
    spent_ns = sum(measured.took_ns for measured in history)
    if spent_ns + _round_ns(history) > design.budget_ns:
        return f"the budget of {duration_text(design.budget_ns)} is used up"
    return f"{round_count} rounds without a verdict" if round_count >= ROUNDS_MAX else ""


def _round_ns(history: History) -> int:
    """Return what one round costs, from the rounds so far; 0 before the first."""
    counted = rounds(history)
    if not counted:
        return 0
    return sum(m.took_ns for m in counted) // len({m.run.round for m in counted})
