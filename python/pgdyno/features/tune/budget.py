"""The budget of a tuning: what its runs took, and how many more runs it allows. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.features.tune.spread import Spread
from pgdyno.quantities import percent

PROOF_ROUNDS_MIN = 6
_PROOF_SHARE = 0.25
_ROUNDS_MAX = 20
# Candidates of a proof: yours, the winner, the runner-up, the rules.
_PROVED = 4
# A race takes at most this number of runs.
_RACE_RUNS = 16
# More settings than this are never attributed in one tuning.
_SETTINGS_MAX = 12


def candidates_after_proof(setting_count: int) -> int:
    """Return how many candidates the stages after the proof of a winner have at most.

    The winner and the winner without each setting; the smaller set, and this set with each setting;
    the last proof (yours, the smaller set, the rules). A single setting needs none of them.
    """
    return 0 if setting_count < 2 else 2 * (1 + setting_count) + 3


def runs_of_proof(setting_count: int, rounds: int = PROOF_ROUNDS_MIN) -> int:
    """Return how many runs proof and attribution of a winner take, with the least rounds."""
    return rounds * (_PROVED + candidates_after_proof(setting_count))


def least_runs(setting_count: int) -> int:
    """Return how many runs a tuning of this number of settings needs at least.

    The search has as many runs as the proof of a winner with two settings.
    """
    return 2 * runs_of_proof(min(2, setting_count))


class Budget:
    """The time of a tuning. Runs at the same time share the time that passes."""

    def __init__(self, budget_ns: int, spread: Spread, *, is_at_once: bool) -> None:
        """Begin. Args: is_at_once, the servers of `spread` run at the same time."""
        self.budget_ns = budget_ns
        self._spread = spread
        self._is_at_once = is_at_once
        self._spent_ns = 0
        # Time of a run by itself, summed: runs at the same time each have the whole of it.
        self._alone_ns = 0
        self._run_count = 0

    def spend(self, took_ns: int, run_count: int) -> None:
        """Take in a run: its share of the time that passed, of `run_count` runs at that time."""
        self._spent_ns += took_ns
        self._alone_ns += took_ns * run_count
        self._run_count += 1

    @property
    def run_ns(self) -> float:
        """Return what a run takes on average; runs at the same time share this time."""
        lanes = len(self._spread.left) if self._is_at_once else 1
        return self._alone_ns / max(1, self._run_count) / max(1, lanes)

    @property
    def runs_left(self) -> float:
        """Return how many runs the rest of the budget allows."""
        return (self.budget_ns - self._spent_ns) / max(self.run_ns, 1.0)

    @property
    def rounds_min(self) -> int:
        """Return how many rounds a stage of the proof has at least, as many on each server."""
        return self._spread.whole_rounds(PROOF_ROUNDS_MIN)

    def is_search_over(self, setting_count: int) -> bool:
        """Return whether the rest of the time is needed to prove a winner with these settings."""
        if not self._run_count:
            return False
        reserve_ns = max(_PROOF_SHARE * self.budget_ns, self._proof_ns(setting_count))
        return self._spent_ns + 2 * self.run_ns > self.budget_ns - reserve_ns

    @property
    def settings_max(self) -> int:
        """Return how many settings the winner may change, so that each can be attributed.

        The proof of the winner takes at most half of the budget, and what is left after a race.
        """
        left_ns = self.budget_ns - self._spent_ns - _RACE_RUNS * self.run_ns
        for count in range(_SETTINGS_MAX, 1, -1):
            if self._proof_ns(count) <= min(left_ns, self.budget_ns / 2):
                return count
        return 1

    def _proof_ns(self, setting_count: int) -> float:
        return self.run_ns * runs_of_proof(setting_count, self.rounds_min)

    def rounds(self, candidate_count: int, done_count: int, later_count: int) -> int:
        """Return how many rounds a stage may have: as many on each server, never rounded up.

        Args: candidate_count, of one round; done_count, rounds that the stage has; later_count,
        candidates of the stages after this one, for which as many rounds are kept.
        """
        runs = self.runs_left + candidate_count * done_count
        rounds = int(runs // (candidate_count + later_count))
        whole = rounds - rounds % len(self._spread.left)
        most = _ROUNDS_MAX - _ROUNDS_MAX % len(self._spread.left)
        return max(min(whole, most), self.rounds_min)


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """How the time of all runs was spent, as shares.

    `total_s`: the time that passed; runs at the same time count once. `overhead_ratio`: everything
    that is not load, reset, restart, loading of data or a failed run. `start_s_median` and
    `start_s_max`: from the decision to the load, of runs without restart and loading of data; None
    without such a run.
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

    def sentence(self) -> str:
        """Return "118 s: load 82 %, reset 6 %, restarts 5 %, loading data 0 %, overhead 7 %"."""
        parts = (
            ("load", self.load_ratio),
            ("reset", self.reset_ratio),
            ("restarts", self.restart_ratio),
            ("loading data", self.loading_ratio),
            *([("failed runs", self.failed_ratio)] if self.failed_ratio else []),
            ("overhead", self.overhead_ratio),
        )
        shares = ", ".join(f"{name} {percent(share)}" for name, share in parts)
        starts = ""
        if self.start_s_median is not None and self.start_s_max is not None:
            starts = (
                f"; without a restart, a run started after {self.start_s_median:.1f} s (median),"
                f" {self.start_s_max:.1f} s (longest)"
            )
        return f"{self.total_s:,.0f} s: {shares}{starts}"


def time_spent(
    took_ns: Sequence[int],
    spent_ns: Sequence[Mapping[str, int]],
    *,
    failed_ns: int = 0,
    elapsed_ns: int | None = None,
) -> TimeSpent | None:
    """Return how the time of runs was spent; None if an older result does not have it.

    Args: took_ns, the whole time of each run; spent_ns, for each run part -> time; failed_ns, the
    time of failed runs; elapsed_ns, the time that passed, if runs took place at the same time. The
    shares are of the time without waiting for runs on other servers ("waited").
    """
    total_ns = sum(took_ns) + failed_ns - sum(spent.get("waited", 0) for spent in spent_ns)
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
        total_s=(total_ns if elapsed_ns is None else elapsed_ns) / 1e9,
        load_ratio=share("load"),
        reset_ratio=share("reset"),
        restart_ratio=share("restart"),
        loading_ratio=share("loading"),
        failed_ratio=failed_ns / total_ns,
        overhead_ratio=1 - sum(known) - failed_ns / total_ns,
        start_s_median=statistics.median(starts_s) if starts_s else None,
        start_s_max=max(starts_s, default=None),
    )
