"""How a variant was reached, and how evenly its clients were served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.analysis.estimate import Estimate, mean_between_runs


@dataclass(frozen=True, slots=True)
class ServedRun:
    """What one run says; None where the engine did not measure it.

    `round_trip_ms`: median of empty round trips before the load. `completed_min_count` and
    `completed_max_count`: of the clients, in the measured phase.
    """

    clients: int
    max_ms: float
    round_trip_ms: float | None
    completed_min_count: int | None
    completed_max_count: int | None
    gini_ratio: float | None


@dataclass(frozen=True, slots=True)
class Served:
    """Means over the runs of a variant, with intervals between runs.

    `gini`: 0 when all clients completed alike, towards 1 when one got everything (Gini 1912).
    """

    clients: int
    maximum: Estimate
    round_trip: Estimate | None
    completed_min: Estimate | None
    completed_max: Estimate | None
    gini: Estimate | None


def served(runs: Sequence[ServedRun]) -> Served | None:
    """Return the means over the runs; None without runs."""
    if not runs:
        return None

    def mean(values: Sequence[float | None], unit: str) -> Estimate | None:
        known = [value for value in values if value is not None]
        return mean_between_runs(known, unit) if len(known) == len(values) else None

    return Served(
        clients=runs[-1].clients,
        maximum=mean_between_runs([run.max_ms for run in runs], "ms"),
        round_trip=mean([run.round_trip_ms for run in runs], "ms"),
        completed_min=mean([run.completed_min_count for run in runs], "transactions"),
        completed_max=mean([run.completed_max_count for run in runs], "transactions"),
        gini=mean([run.gini_ratio for run in runs], "1"),
    )
