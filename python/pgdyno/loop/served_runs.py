"""From the stored runs of a variant to how it was reached and how evenly it served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.analysis.served import Served, ServedRun, served
from pgdyno.loop.journal import Visit
from pgdyno.loop.load_numbers import LoadNumbers, of_distribution


def served_by(runs: Sequence[Visit], numbers: Mapping[int, LoadNumbers]) -> Served | None:
    """Return round trip, longest latency and fairness over the runs of one variant."""
    return served([_of_run(visit, numbers[visit.planned.number]) for visit in runs])


def _of_run(visit: Visit, numbers: LoadNumbers) -> ServedRun:
    fairness = numbers.summary.fairness
    trips = numbers.summary.distribution("round_trip")
    return ServedRun(
        clients=visit.planned.cell.clients,
        max_ms=numbers.latency.max_ms,
        round_trip_ms=of_distribution(trips).percentile_ns(50) / 1e6 if trips else None,
        completed_min_count=fairness.completed_count_min if fairness else None,
        completed_max_count=fairness.completed_count_max if fairness else None,
        gini_ratio=fairness.gini_ratio if fairness else None,
    )
