"""What the time of a tuning was spent on. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.quantities import percent

# Smaller shares are not named.
_SMALL = 0.005


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """How the time of all runs was spent, as shares.

    `total_s`: the time that passed. `load_ratio`: the load with its warm-up; `measured_ratio`: the
    part of it that counts, None if runs have no planned length. `overhead_ratio`: everything that
    is not load, reset, restart, loading of data or a failed run. `start_s_median` and
    `start_s_max`: from the decision to the load, of runs without restart and loading of data; None
    without such a run. `around_ratio`: before the first run, with the evidence, and of the answer.
    """

    total_s: float
    load_ratio: float
    reset_ratio: float
    restart_ratio: float
    loading_ratio: float
    failed_ratio: float
    overhead_ratio: float
    start_s_median: float | None
    start_s_max: float | None
    measured_ratio: float | None = None
    around_ratio: float = 0.0

    def sentence(self) -> str:
        """Return "118 s: measured 72 %, warm-up 10 %, reset 6 %, restarts 5 %, overhead 7 %"."""
        load = [("load", self.load_ratio)]
        if self.measured_ratio is not None:
            warm_ratio = self.load_ratio - self.measured_ratio
            load = [("measured", self.measured_ratio), ("warm-up", warm_ratio)]
        parts = (
            *load,
            ("reset", self.reset_ratio),
            ("restarts", self.restart_ratio),
            ("loading data", self.loading_ratio),
            ("failed or repeated runs", self.failed_ratio),
            ("overhead", self.overhead_ratio),
            ("start, first run and answer", self.around_ratio),
        )
        shares = ", ".join(f"{name} {percent(share)}" for name, share in parts if share > _SMALL)
        return f"{self.total_s:,.0f} s: {shares}"


def time_spent(
    took_ns: Sequence[int],
    spent_ns: Sequence[Mapping[str, int]],
    measured_ns: Sequence[int],
    *,
    failed_ns: int = 0,
    around_ns: int = 0,
) -> TimeSpent | None:
    """Return how the time of runs was spent; None if an older result does not have it.

    Args: took_ns, the whole time of each run; spent_ns, for each run part -> time; measured_ns, its
    planned length, 0 without one; failed_ns, the time of failed runs; around_ns, that before the
    first and after the last run.
    """
    total_ns = sum(took_ns) + failed_ns + around_ns
    if not total_ns or not all(spent_ns):
        return None

    def share(part: str) -> float:
        return sum(spent.get(part, 0) for spent in spent_ns) / total_ns

    known = [share(part) for part in ("load", "reset", "restart", "loading")]
    starts_s = [
        spent["start"] / 1e9
        for spent in spent_ns
        if not spent.get("restart") and not spent.get("loading")
    ]
    return TimeSpent(
        total_s=total_ns / 1e9,
        load_ratio=share("load"),
        reset_ratio=share("reset"),
        restart_ratio=share("restart"),
        loading_ratio=share("loading"),
        failed_ratio=failed_ns / total_ns,
        overhead_ratio=1 - sum(known) - (failed_ns + around_ns) / total_ns,
        around_ratio=around_ns / total_ns,
        start_s_median=statistics.median(starts_s) if starts_s else None,
        start_s_max=max(starts_s, default=None),
        measured_ratio=min(sum(measured_ns) / total_ns, share("load"))
        if any(measured_ns)
        else None,
    )
