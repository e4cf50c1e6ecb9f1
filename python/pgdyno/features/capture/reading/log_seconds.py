"""Transactions of a log second by second, in bounded memory."""

from __future__ import annotations

from pgdyno.features.capture.observed import Arrivals

# A longer curve is made of longer intervals.
_ARRIVALS_MAX = 4_000
_COUNTED_MAX = 4 * _ARRIVALS_MAX


class Seconds:
    """Transactions and the time of their statements in each interval, at first in each second."""

    def __init__(self) -> None:
        self._interval_s = 1
        self._interval_us = 1_000_000
        self._counts: dict[int, list[int]] = {}

    def add(self, ended_us: int, busy_us: int) -> None:
        """Count a transaction."""
        place = ended_us // self._interval_us
        counted = self._counts.get(place)
        if counted is not None:
            counted[0] += 1
            counted[1] += busy_us
            return
        self._counts[place] = [1, busy_us]
        if len(self._counts) > _COUNTED_MAX:
            self._interval_s *= 2
            self._interval_us *= 2
            self._counts = _joined(self._counts, 0, 2)

    @property
    def total(self) -> int:
        """Return how many transactions there were."""
        return sum(count for count, _ in self._counts.values())

    def arrivals(self, sample_ratio: float) -> Arrivals:
        """Return the curve of a log with this share of the transactions."""
        first, last = min(self._counts), max(self._counts)
        length = max(1, -(-(last - first + 1) // _ARRIVALS_MAX))
        interval_s = length * self._interval_s
        counts = _joined(self._counts, first, length)
        curve = [counts.get(place, (0, 0)) for place in range((last - first) // length + 1)]
        return Arrivals(
            interval_s=interval_s,
            transactions=tuple(count / sample_ratio for count, _ in curve),
            active_sessions=tuple(busy / 1e6 / interval_s / sample_ratio for _, busy in curve),
        )


def _joined(counts: dict[int, list[int]], first: int, length: int) -> dict[int, list[int]]:
    """Return the counts of intervals that are as long as several."""
    made: dict[int, list[int]] = {}
    for place, (count, busy_us) in counts.items():
        longer = made.setdefault((place - first) // length, [0, 0])
        longer[0] += count
        longer[1] += busy_us
    return made
