"""The design of `compare`: is B better than A?

A round has a run of the reference (the first variant that can be measured) and of every variant
without a verdict. The order changes from round to round, so that drift affects all variants alike.
A variant with a verdict is not measured again. The experiment ends when all variants have verdicts
or the budget is used up. The sequential interval decides, which holds at every look.
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
from pgdyno.analysis.rounding import change_text
from pgdyno.plan.design import NONE, Design
from pgdyno.plan.history import History, elapsed_ns, rounds
from pgdyno.plan.visits import pilot_missing, visit, visited
from pgdyno.quantities import duration_text
from pgdyno.spec.designs import METRIC_WORDS, MORE_IS_BETTER, CompareDesign
from pgdyno.spec.planned import PlannedRun, PlannedVariant, Stop

ROUNDS_MAX = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """The result of one variant against the reference so far.

    `ratios`: log(variant / reference) of each round with both runs. `left_ns`: the time until a
    verdict if mean and scatter stay the same, None if there is no estimate. `is_within_budget`:
    whether the budget leaves this time.
    """

    variant: PlannedVariant
    reference: PlannedVariant
    ratios: FloatArray
    comparison: Comparison | None
    is_settled: bool
    left_ns: int | None = None
    is_within_budget: bool = True


class Compare(Design[CompareDesign]):
    """The reference against every variant without a verdict."""

    model = CompareDesign
    rounds_needed = SEQUENTIAL_PAIRS_MIN

    @property
    def budget_ns(self) -> int:
        """Return the time after which no further round begins."""
        return self.asked.budget_ns

    def next_run(self, history: History, excluded: frozenset[str] = NONE) -> PlannedRun | Stop:
        """Return the next run, or Stop with the reason."""
        experiment, variants = self.experiment, self.usable(excluded)
        if len(variants) < 2:
            return Stop("fewer than two variants can be measured")
        if missing := pilot_missing(experiment, history, variants):
            return missing
        metric = experiment.metric()
        if any(metric not in measured.metrics for measured in rounds(history)):
            return Stop(f"{metric} cannot be measured here")
        current = max((measured.run.round for measured in rounds(history)), default=1)
        taking_part = self._taking_part(history, variants, current)
        before = visited(history, current)
        todo = [variant for variant in taking_part if variant not in before]
        if not todo:
            current += 1
            taking_part = self._taking_part(history, variants, current)
            if len(taking_part) < 2:
                return Stop(f"decided after {current - 1} rounds")
            if reason := _why_enough(self.asked, history, current - 1):
                return Stop(reason)
            todo = taking_part
        order, left = _order(taking_part, self.seed, current), frozenset(todo)
        first = next(variant for variant in order if variant in left)
        return visit(experiment, history, variant=first, round_number=current)

    def runs_expected(self, history: History, excluded: frozenset[str] = NONE) -> int:
        """Return an estimate of the number of runs, from mean and scatter so far."""
        variants = self.usable(excluded)
        piloted = int(self.experiment.workload.warmup_ns is None)
        least = len(variants) * (SEQUENTIAL_PAIRS_MIN + piloted)
        if not rounds(history):
            return least
        still_open = [
            standing for standing in self.standings(history, excluded) if not standing.is_settled
        ]
        if not still_open:
            return len(history)
        cost_ns = max(_round_ns(history), 1)
        room_ns = self.budget_ns - elapsed_ns(history)
        left_ns = min(room_ns, max(standing.left_ns or 0 for standing in still_open))
        more = (1 + len(still_open)) * (max(left_ns, 0) // cost_ns)
        return max(least, len(history) + more, len(history) + 1)

    def standings(self, history: History, excluded: frozenset[str] = NONE) -> tuple[Standing, ...]:
        """Return the result of each variant against the reference, after the rounds so far."""
        variants = self.usable(excluded)
        if len(variants) < 2:
            return ()
        cost_ns = _round_ns(history)
        room_ns = self.budget_ns - elapsed_ns(history)
        standings = [
            self._standing(history, variants, variant, cost_ns=cost_ns) for variant in variants[1:]
        ]
        return tuple(
            replace(
                standing, is_within_budget=standing.left_ns is None or standing.left_ns <= room_ns
            )
            for standing in standings
        )

    def outlook(self, history: History, excluded: frozenset[str] = NONE) -> str:
        """Return the result after a whole round: "B ahead by 2.0 % +- 1.4 (tps), ..."."""
        counted = rounds(history)
        if not counted:
            return ""
        standings = self.standings(history, excluded)
        sizes = {standing.ratios.size for standing in standings if not standing.is_settled}
        last = counted[-1].run.round
        if sizes and last not in sizes:
            return ""  # in the middle of a round
        words = [self._standing_words(standing) for standing in standings]
        return f"round {last}: " + "; ".join(word for word in words if word)

    def _standing_words(self, standing: Standing) -> str:
        comparison = standing.comparison
        if comparison is None:
            return ""
        metric = METRIC_WORDS[self.experiment.metric()]
        change = f"{standing.variant.name} {metric} {change_text(comparison.ratio)}"
        if standing.is_settled:
            return f"{change}, decided"
        if standing.left_ns is None:
            return f"{change}, cannot tell yet"
        if not standing.is_within_budget:
            needed = duration_text(standing.left_ns)
            return f"{change}, needs {needed}, more than the rest of the budget"
        return f"{change}, decided in about {duration_text(standing.left_ns)}"

    def _taking_part(
        self, history: History, variants: Sequence[PlannedVariant], round_number: int
    ) -> list[PlannedVariant]:
        """Return the reference and the variants that had no verdict before this round."""
        before = rounds(tuple(m for m in history if m.run.round < round_number))
        if not before:
            return list(variants)
        still_open = [
            variant
            for variant in variants[1:]
            if not self._standing(before, variants, variant, cost_ns=0).is_settled
        ]
        return [variants[0], *still_open] if still_open else [variants[0]]

    def _standing(
        self,
        history: History,
        variants: Sequence[PlannedVariant],
        variant: PlannedVariant,
        *,
        cost_ns: int,
    ) -> Standing:
        reference, metric = variants[0], self.experiment.metric()
        ratios = ratios_of(history, metric, variant=variant, reference=reference)
        if ratios.size == 0:
            return Standing(variant, reference, ratios, None, is_settled=False)
        comparison = compare(
            ratios,
            looks="sequential",
            better=better_of(metric),
            level=family_level(len(variants)),
            margin_ratio=self.asked.margin_ratio,
        )
        is_settled = _is_settled(self.asked, comparison)
        more = 0 if is_settled else _pairs_left(self.asked, ratios, len(variants))
        left_ns = None if more is None or (cost_ns == 0 and more) else more * cost_ns
        return Standing(variant, reference, ratios, comparison, is_settled, left_ns)


def better_of(metric: str) -> Better:
    """Return "more" or "less": which value of a metric is better."""
    return "more" if metric in MORE_IS_BETTER else "less"


def ratios_of(
    history: History, metric: str, *, variant: PlannedVariant, reference: PlannedVariant
) -> FloatArray:
    """Return log(variant / reference) of each round with both runs, in order."""
    by_round: dict[int, dict[PlannedVariant, float]] = {}
    for measured in rounds(history):
        own = measured.run.cell.variant
        if own in (variant, reference) and measured.metrics.get(metric, 0.0) > 0:
            assert own is not None
            by_round.setdefault(measured.run.round, {})[own] = measured.metrics[metric]
    pairs = [of_round for _, of_round in sorted(by_round.items()) if len(of_round) == 2]
    if not pairs:
        return np.zeros(0)
    return log_ratios([pair[reference] for pair in pairs], [pair[variant] for pair in pairs])


def _is_settled(design: CompareDesign, comparison: Comparison) -> bool:
    if design.precision_ratio is None:
        return comparison.verdict != "cannot tell"
    if comparison.ratio.low is None or comparison.ratio.high is None:
        return False
    half = math.log(comparison.ratio.high / comparison.ratio.low) / 2
    return half <= math.log1p(design.precision_ratio)


def _pairs_left(design: CompareDesign, ratios: FloatArray, variant_count: int) -> int | None:
    if ratios.size < 2:
        return None
    return predict_pairs(
        ratios,
        looks="sequential",
        level=family_level(variant_count),
        margin_ratio=design.margin_ratio,
        half_width_ratio=design.precision_ratio,
    )


def _order(
    taking_part: Sequence[PlannedVariant], seed: int, round_number: int
) -> list[PlannedVariant]:
    """Return the order of a round: AB BA BA AB for two variants, shuffled for more.

    Two rounds in a row use one order forwards and backwards, so that a linear drift cancels.
    """
    order = list(taking_part)
    pair = round_number - 1
    if len(order) > 2:
        random.Random(f"{seed}/{pair // 2}").shuffle(order)
    return order[::-1] if is_reversed(pair) else order


def _why_enough(design: CompareDesign, history: History, round_count: int) -> str:
    """Return why no further round begins before all have verdicts; "" if one begins."""
    spent_ns = elapsed_ns(history)
    if spent_ns + _round_ns(history) > design.budget_ns:
        return f"the budget of {duration_text(design.budget_ns)} is used up"
    return f"{round_count} rounds without a verdict" if round_count >= ROUNDS_MAX else ""


def _round_ns(history: History) -> int:
    """Return the mean time of a round so far; 0 before the first."""
    counted = rounds(history)
    if not counted:
        return 0
    return sum(m.took_ns for m in counted) // len({m.run.round for m in counted})
