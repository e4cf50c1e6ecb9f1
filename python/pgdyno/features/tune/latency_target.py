"""The latency target of a tuning: which runs met it, and whether this machine can tell."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass

from pgdyno.analysis.capacity import LoadLimit, LoadTrial
from pgdyno.features.tune.spec import TuneDesign
from pgdyno.plan.history import History, Measured, rounds, why_no_answer
from pgdyno.spec.experiment import Experiment

# Number of runs that tell what cannot be measured here.
LOOKS = 2
_BASE_ID = "0"


@dataclass(frozen=True, slots=True)
class LatencyTarget:
    """A target such as "p99=20ms"; `limit` is None without one, and every run then meets it.

    `is_goal`: the latency itself is lowered, rather than kept below a limit.
    """

    text: str
    limit: LoadLimit | None
    is_goal: bool

    @classmethod
    def of(cls, experiment: Experiment, asked: TuneDesign) -> LatencyTarget:
        """Return the target of a tuning."""
        target, is_open = asked.target, experiment.workload.rate_tps is not None
        limit = None if target is None else LoadLimit(target.figure, target.limit)
        is_goal = target is not None and not target.of and is_open and asked.metric is None
        return cls(asked.slo or "", limit, is_goal)

    def is_met(self, seen: Measured) -> bool:
        """Return whether a run kept the limit."""
        if self.limit is None:
            return True
        latency_ms = seen.latency_ms.get(self.limit.name, math.inf)
        rate_tps = seen.run.cell.rate_tps or seen.tps
        return self.limit.is_met(LoadTrial(rate_tps, seen.achieved_ratio, latency_ms))

    def why_ended(self, history: History) -> str:
        """Return why no candidate can be compared within the target, or ""."""
        return self.why_not_known(history) or self._why_no_candidate_counts(history)

    def why_not_known(self, history: History) -> str:
        """Return why this machine cannot tell whether the target is kept, or "".

        Where the target is a limit, a disturbed run that met it is as good as another. Where the
        latency itself is compared, each disturbed run says nothing.
        """
        if self.limit is None:
            return ""
        return why_no_answer(
            rounds(history),
            lambda seen: self.is_goal or not self.is_met(seen),
            runs="runs",
            spoils=f"says nothing about {self.limit.name}" if self.is_goal else "missed the target",
        )

    def _why_no_candidate_counts(self, history: History) -> str:
        """Return why the server as it is cannot be compared within the target, or ""."""
        ran = rounds(history)
        first = [run for run in ran if variant_id(run) == _BASE_ID and not run.disturbed_by]
        first = first[:LOOKS]
        if self.limit is None or self.is_goal or len(first) < LOOKS:
            return ""
        if any(self.is_met(run) for run in first):
            return ""
        seen_ms = first[0].latency_ms.get(self.limit.name, math.nan)
        return f"your settings do not meet {self.text} with this load ({seen_ms:.3g} ms)"

    def held(self, history: History, within: Container[int], variant: str) -> tuple[int, int]:
        """Return how many runs of a variant in these rounds met the target, of how many.

        Args: variant, its id.
        """
        of_variant = [run for run in rounds(history) if variant_id(run) == variant]
        ran = [run for run in of_variant if run.run.round in within]
        return sum(map(self.is_met, ran)), len(ran)


def variant_id(seen: Measured) -> str:
    """Return the id of the variant of a run."""
    variant = seen.run.cell.variant
    assert variant is not None, "every run of a tuning has a variant"
    return variant.id
