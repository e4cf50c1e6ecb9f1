"""When a collector is due, what it costs, and when it must slow itself down."""

from __future__ import annotations

import random
from dataclasses import dataclass

from pgdyno.observe.collector import SECOND_NS, Collector

COST_LIMIT_RATIO = 0.005
# A slowed interval is a little longer than needed, or it would be judged again and again.
MARGIN = 1.1
STEP_NS = 10_000_000
JUDGED_AFTER_NS = 10 * SECOND_NS
SLOWEST_NS = 60 * SECOND_NS
RETRY_FIRST_NS = 2 * SECOND_NS
RETRY_SLOWEST_NS = 60 * SECOND_NS


@dataclass(slots=True)
class Scheduled:
    """One collector of a thread. Times are monotonic ns.

    `random` makes gaps uniform between half and one and a half of the interval, so that samples
    cannot march in step with the load; without it samples lie on a grid and missed ones are left
    out.
    """

    collector: Collector
    interval_ns: int
    due_ns: int
    random: random.Random | None = None
    last_sample_ns: int = 0
    failure_count: int = 0
    _judged_from_ns: int = 0
    _spent_ns: int = 0

    def taken(self, now_ns: int) -> None:
        """Set when the next sample is due, after a sample."""
        self.failure_count = 0
        if self.random is not None:
            self.due_ns = now_ns + int(self.interval_ns * (0.5 + self.random.random()))
        else:
            missed = max(0, now_ns - self.due_ns) // self.interval_ns
            self.due_ns += (missed + 1) * self.interval_ns

    def failed(self, now_ns: int) -> None:
        """Set when to try again, later each time; the next sample follows a gap."""
        wait_ns = min(RETRY_FIRST_NS << min(self.failure_count, 10), RETRY_SLOWEST_NS)
        self.failure_count += 1
        self.last_sample_ns = 0
        self.due_ns = now_ns + max(wait_ns, self.interval_ns)

    def slowed_by(self, spent_ns: int, now_ns: int) -> int:
        """Add the cost of a sample; return the new interval if it had to grow, else 0.

        The first sample is not judged: it prepares statements and opens files.
        """
        if not self._judged_from_ns:
            self._judged_from_ns = now_ns
            return 0
        self._spent_ns += spent_ns
        elapsed_ns = now_ns - self._judged_from_ns
        if elapsed_ns < JUDGED_AFTER_NS:
            return 0
        ratio = self._spent_ns / elapsed_ns
        self._judged_from_ns, self._spent_ns = now_ns, 0
        if ratio <= COST_LIMIT_RATIO or self.interval_ns >= SLOWEST_NS:
            return 0
        slower_ns = self.interval_ns * ratio / COST_LIMIT_RATIO * MARGIN
        self.interval_ns = min(-(-int(slower_ns) // STEP_NS) * STEP_NS, SLOWEST_NS)
        return self.interval_ns
