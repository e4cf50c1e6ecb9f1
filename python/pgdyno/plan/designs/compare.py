"""The design of `compare`: is B better than A?

A round has a run of the reference (the first variant that can be measured) and of every variant
without a verdict, in a random order. A variant with a verdict is not measured again. Budget and
pilots fix the number of rounds before the first of them. On the way, an interval that holds at
every look ends the experiment early if the difference is clear. After the last round, Student's t
interval gives the answer (`intervals.look`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.compare import (
    Better,
    Comparison,
    compare,
    family_level,
    log_ratios,
    predict_pairs,
    shuffled,
)
from pgdyno.analysis.intervals import PLANNED_PAIRS_MIN, Looks, later_look, look, planned_looks
from pgdyno.analysis.rounding import change_text
from pgdyno.plan.design import NONE
from pgdyno.plan.designs.budgeted import ROUNDS_MAX, BudgetedDesign, round_ns
from pgdyno.plan.history import History, elapsed_ns, pilots, rounds
from pgdyno.plan.visits import visit, visited, warm_up_ns
from pgdyno.quantities import counted, duration_text
from pgdyno.spec.designs import METRIC_WORDS, MORE_IS_BETTER, CompareDesign
from pgdyno.spec.planned import PlannedRun, PlannedVariant, Stop

# If the plan takes this much longer than the budget, it says so.
_OVER_NS = 1_000_000_000
# From this number of pairs on, the time that is left is known to about a factor of 2.
_ESTIMATE_PAIRS_MIN = 6
EXTENDED = (
    "the budget was changed after the start: only the interval that holds at every look is used,"
    " which is wider"
)


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


class Compare(BudgetedDesign[CompareDesign]):
    """The reference against every variant without a verdict."""

    model = CompareDesign

    def next_run(self, history: History, excluded: frozenset[str] = NONE) -> PlannedRun | Stop:
        """Return the next run, or Stop with the reason."""
        experiment, variants = self.experiment, self.usable(excluded)
        if (before_rounds := self._before_rounds(history, variants)) is not None:
            return before_rounds
        current = max((measured.run.round for measured in rounds(history)), default=1)
        taking_part = self._taking_part(history, variants, current)
        before = visited(history, current)
        todo = [variant for variant in taking_part if variant not in before]
        if not todo:
            current += 1
            taking_part = self._taking_part(history, variants, current)
            if len(taking_part) < 2:
                return Stop(f"decided after {current - 1} rounds")
            if reason := self._why_enough(history, variants, current - 1):
                return Stop(reason)
            todo = taking_part
        left = frozenset(todo)
        first = next(v for v in shuffled(taking_part, self.order_seed, current) if v in left)
        run = visit(experiment, history, variant=first, round_number=current)
        return replace(run, measure_ns=self._run_ns(history, variants))

    def rounds_planned(self, history: History, variants: Sequence[PlannedVariant]) -> int | None:
        """Return the number of rounds; None if the budget was changed: only the time ends it."""
        if self.asked.looked_count:
            return 2 * self.asked.looked_count[-1]
        return None if self.asked.is_extended else super().rounds_planned(history, variants)

    def _why_enough(
        self, history: History, variants: Sequence[PlannedVariant], round_count: int
    ) -> str:
        """Return why no further round begins before all have verdicts; "" if one begins."""
        if round_count == 0:
            return ""
        done, budget_ns = counted(round_count, "round"), self.budget_ns
        planned = self.rounds_planned(history, variants)
        is_last = round_count >= (planned or ROUNDS_MAX)
        if budget_ns is None:
            return f"all {done} are done" if is_last else ""
        budget = duration_text(self.asked.budget_ns)
        if is_last and elapsed_ns(history) <= budget_ns:
            return f"the budget of {budget} was enough for {done}"
        if is_last or self._is_over(history, round_count):
            return f"the budget of {budget} is used up"
        return ""

    def runs_expected(self, history: History, excluded: frozenset[str] = NONE) -> int:
        """Return the planned number of runs; without a plan, an estimate from the scatter."""
        variants = self.usable(excluded)
        is_piloted = bool(pilots(history)) or self._pilot_missing(history, variants) is not None
        current = max((measured.run.round for measured in rounds(history)), default=1)
        if current == 1 and not set(variants) <= visited(history, 1):
            planned = self.rounds_planned(history, variants) or PLANNED_PAIRS_MIN
            return len(variants) * (planned + is_piloted)
        still_open = [
            standing for standing in self.standings(history, excluded) if not standing.is_settled
        ]
        if not still_open:
            return len(history)
        known = self.rounds_planned(history, variants)
        if known is not None:
            before = len(history) - len(rounds(history))
            return max(len(history) + 1, before + len(variants) * known)
        cost_ns = max(round_ns(history), 1)
        left_ns = max(standing.left_ns or 0 for standing in still_open)
        more = (1 + len(still_open)) * (min(left_ns, self._room_ns(history, variants)) // cost_ns)
        taking_part = self._taking_part(history, variants, current)
        rest = len(set(taking_part) - visited(history, current))
        return len(history) + max(more, rest, 1)

    def _room_ns(self, history: History, variants: Sequence[PlannedVariant]) -> int:
        """Return the time for further rounds, at least 0."""
        done = max((measured.run.round for measured in rounds(history)), default=0)
        planned = self.rounds_planned(history, variants) or ROUNDS_MAX
        room_ns = (planned - done) * round_ns(history)
        if self.budget_ns is not None:
            room_ns = min(room_ns, self.budget_ns - elapsed_ns(history))
        return max(room_ns, 0)

    def standings(self, history: History, excluded: frozenset[str] = NONE) -> tuple[Standing, ...]:
        """Return the result of each variant against the reference, after the rounds so far."""
        variants = self.usable(excluded)
        if len(variants) < 2:
            return ()
        cost_ns = round_ns(history)
        room_ns = self._room_ns(history, variants)
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
        """Return the plan before the first round, and the result after each round."""
        ran = rounds(history)
        if not ran:
            return self._plan_words(history, self.usable(excluded))
        standings = self.standings(history, excluded)
        sizes = {standing.ratios.size for standing in standings if not standing.is_settled}
        last = ran[-1].run.round
        if sizes and last not in sizes:
            return ""  # in the middle of a round
        words = [self._standing_words(standing) for standing in standings]
        return f"round {last}: " + "; ".join(word for word in words if word)

    def _plan_words(self, history: History, variants: Sequence[PlannedVariant]) -> str:
        if len(variants) < 2 or self._pilot_missing(history, variants):
            return ""
        if self.asked.is_extended:
            return EXTENDED
        planned = self.rounds_planned(history, variants)
        if planned is None:
            return "plan    the last look is when the budget is used up"
        run_ns = self._run_ns(history, variants)
        load_ns = warm_up_ns(self.experiment, history) + run_ns
        *early, last = self._looks_planned(history, variants)
        runs = f"{len(variants)} x {duration_text(load_ns)}"
        plan = f"plan    {counted(planned, 'round')} of {runs}; "
        if run_ns < (asked_ns := self.experiment.workload.duration_ns):
            plan += f"runs of {duration_text(run_ns)} instead of {duration_text(asked_ns)} fit; "
        over_ns = planned * self._piloted_round_ns(history, variants, run_ns)
        over_ns -= self._left_ns(history)
        if self.budget_ns is not None and over_ns > _OVER_NS:
            return (
                f"{plan}they take about {duration_text(over_ns)} more than the budget, which ends"
                f" them; fewer than {PLANNED_PAIRS_MIN} have no interval"
            )
        first = f"looks after rounds {', '.join(map(str, early))}, " if early else ""
        return f"{plan}{first}last look after round {last}"

    def _standing_words(self, standing: Standing) -> str:
        comparison = standing.comparison
        if comparison is None:
            return ""
        metric = METRIC_WORDS[self.experiment.metric()]
        change = f"{standing.variant.name} {metric} {change_text(comparison.ratio)}"
        if standing.is_settled:
            return f"{change}, decided"
        if standing.left_ns is None or len(standing.ratios) < _ESTIMATE_PAIRS_MIN:
            return f"{change}, cannot tell yet"
        if not standing.is_within_budget:
            needed = duration_text(standing.left_ns)
            rest = (
                "the rest of the budget"
                if self.budget_ns is not None
                else "the rounds that are left"
            )
            return f"{change}, needs {needed}, more than {rest}"
        return f"{change}, decided in about {duration_text(standing.left_ns)}"

    def _taking_part(
        self, history: History, variants: Sequence[PlannedVariant], round_number: int
    ) -> list[PlannedVariant]:
        """Return the reference and the variants that had no verdict before this round.

        A fixed number of rounds measures all of them.
        """
        if self.asked.rounds is not None:
            return list(variants)
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
        looks, error_ratio = self._look(history, variants, int(ratios.size))
        comparison = compare(
            ratios,
            looks=looks,
            better=better_of(metric),
            level=family_level(len(variants), error_ratio),
            margin_ratio=self.asked.margin_ratio,
        )
        is_settled = _is_settled(self.asked, comparison)
        more = 0 if is_settled else self._pairs_left(history, variants, ratios)
        left_ns = None if more is None or (cost_ns == 0 and more) else more * cost_ns
        return Standing(variant, reference, ratios, comparison, is_settled, left_ns)

    def _look(
        self, history: History, variants: Sequence[PlannedVariant], pair_count: int
    ) -> tuple[Looks, float]:
        """Return the interval of a variant with this number of pairs, and the error it may spend.

        The time ends an experiment for a reason that is not in the results. It is read from the
        rounds that count, because a round that has begun belongs to the next look.
        """
        if self.asked.looked_count:
            return later_look(pair_count, self.asked.looked_count)
        if self.asked.is_extended:
            return look(pair_count, (), is_over=False)
        before = tuple(m for m in history if m.run.round <= pair_count)
        is_over = bool(self._why_enough(before, variants, pair_count))
        return look(pair_count, self._looks_planned(history, variants), is_over=is_over)

    def _looks_planned(
        self, history: History, variants: Sequence[PlannedVariant]
    ) -> tuple[int, ...]:
        planned = self.rounds_planned(history, variants)
        if planned is None:
            return ()
        is_one = self.asked.rounds is not None or self.asked.looked_count
        return (planned,) if is_one else planned_looks(planned)

    def _pairs_left(
        self, history: History, variants: Sequence[PlannedVariant], ratios: FloatArray
    ) -> int | None:
        """Return how many more pairs decide, on the way or at a planned look; None: not known."""
        count = int(ratios.size)
        if count < 2:
            return None

        def predicted(looks: Looks, error_ratio: float) -> int | None:
            return predict_pairs(
                ratios,
                looks=looks,
                level=family_level(len(variants), error_ratio),
                margin_ratio=self.asked.margin_ratio,
                half_width_ratio=self.asked.precision_ratio,
            )

        planned = self._looks_planned(history, variants)
        watched = predicted(*look(0, planned, is_over=False))
        known = [] if watched is None else [watched]
        for at in planned:
            needed = predicted(*look(at, planned, is_over=False)) if at > count else None
            if needed is not None and count + needed <= at:
                known.append(at - count)
        return min(known, default=None)


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
