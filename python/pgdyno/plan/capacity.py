"""Which load to try next against a latency target.

The search finds a load that meets the target and one that does not. It narrows the interval between
them, and confirms its lower end.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.analysis.capacity import LoadLimit, LoadTrial, quantiles

RUNS_MAX = 16
# The search ends when the ends of the interval are at most this far apart.
WIDTH_RATIO = 0.20
# Under most targets an open loop cannot hold the peak of a closed loop.
FIRST_RATIO = 0.7
_UP, _DOWN = 1.25, 0.7
_LEAST_RATIO, _MOST_RATIO = 0.01, 2.0
_CONFIRMATIONS = 2


def next_rate(trials: Sequence[LoadTrial], target: LoadLimit, peak_tps: float) -> float | None:
    """Return the rate to try next, in tps; None if the capacity is known well enough.

    Rates go up until one fails the target and down until one meets it. Then each rate is the median
    of the capacity's distribution, where the next answer tells most. At the end, the lower end of
    the interval is tried until two trials met the target.
    Args: trials, in any order; peak_tps, the highest throughput of the closed loop.
    """
    if not trials:
        return FIRST_RATIO * peak_tps
    if len(trials) >= RUNS_MAX:
        return None
    met = [target.is_met(trial) for trial in trials]
    rates = [trial.offered_count for trial in trials]
    if all(met):
        return _within(max(rates) * _UP, rates, peak_tps)
    if not any(met):
        return _within(min(rates) * _DOWN, rates, peak_tps)
    low, middle, high = quantiles(rates, met, (0.025, 0.5, 0.975))
    if high / low - 1 > WIDTH_RATIO:
        return middle
    # A higher rate that met the target confirms the lower end of the interval, too.
    failed_below = any(not ok and rate <= low for rate, ok in zip(rates, met, strict=True))
    near = low * (1 - WIDTH_RATIO / 2)
    held = sum(ok and rate >= near for rate, ok in zip(rates, met, strict=True))
    return low if held < _CONFIRMATIONS and not failed_below else None


def next_clients(
    trials: Sequence[LoadTrial], target: LoadLimit, *, largest: int, search_count: int
) -> int | None:
    """Return how many clients to try next; None if the capacity is known well enough.

    The search is that of `next_rate` on whole numbers. It also ends when two neighbouring numbers,
    one that meets the target and one that does not, were tried twice.
    Args: trials, at least one, including the runs of the levels; largest, the highest number that
    may be tried; search_count, runs of the search so far.
    """
    if search_count >= RUNS_MAX:
        return None
    met = [target.is_met(trial) for trial in trials]
    numbers = [round(trial.offered_count) for trial in trials]
    if all(met):
        return min(2 * max(numbers), largest) if max(numbers) < largest else None
    if not any(met):
        return max(1, int(min(numbers) * _DOWN)) if min(numbers) > 1 else None
    held = max(number for number, ok in zip(numbers, met, strict=True) if ok)
    failed = min(number for number, ok in zip(numbers, met, strict=True) if not ok)
    if failed == held + 1:
        fewest = min((held, failed), key=numbers.count)
        return fewest if numbers.count(fewest) < _CONFIRMATIONS else None
    low, middle, high = quantiles(numbers, met, (0.025, 0.5, 0.975))
    if high / low - 1 > WIDTH_RATIO:
        return min(max(1, round(middle)), largest)
    confirmed = sum(ok and number >= low for number, ok in zip(numbers, met, strict=True))
    return max(1, int(low)) if confirmed < _CONFIRMATIONS and failed > low else None


def _within(rate_tps: float, tried: Sequence[float], peak_tps: float) -> float | None:
    """Return the rate; None if it was tried before, or is far below or above the peak."""
    if not _LEAST_RATIO * peak_tps <= rate_tps <= _MOST_RATIO * peak_tps:
        return None
    return rate_tps if rate_tps not in tried else None
