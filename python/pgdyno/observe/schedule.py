"""When each collector samples next, and what it costs: CPU time here and in its backend."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Collector, Column, Row, Scope, counter, key


@dataclass(slots=True)
class CollectorCost:
    """Totals of one collector; `backend_cpu_ns` is 0 if the CPU time of its backend is unknown."""

    cpu_ns: int = 0
    backend_cpu_ns: int = 0
    sample_count: int = 0


class OwnCost:
    """Adds up the cost of the collectors; it is a collector, too, so results contain the cost."""

    name: ClassVar[str] = "observer"
    scope: ClassVar[Scope] = "lab"
    meaning: ClassVar[str] = "Cost of telemetry, by collector"
    interval_ns: ClassVar[int] = 5 * SECOND_NS
    columns: ClassVar[tuple[Column, ...]] = (
        key("collector", "name of the collector"),
        counter("cpu_ns", "ns", "CPU time of its thread in the lab"),
        counter("backend_cpu_ns", "ns", "CPU time of its backend; 0 if it cannot be read"),
        counter("samples", "samples", "samples taken, failed ones included"),
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: dict[str, CollectorCost] = {}

    def add(
        self, collector: str, *, cpu_ns: int, backend_cpu_ns: int, sample_count: int = 1
    ) -> None:
        """Add the cost of some samples."""
        with self._lock:
            spent = self._spent.setdefault(collector, CollectorCost())
            spent.cpu_ns += cpu_ns
            spent.backend_cpu_ns += backend_cpu_ns
            spent.sample_count += sample_count

    def sample(self, now_ns: int) -> list[Row]:  # noqa: ARG002 - the interface of every collector
        """Return one row for each collector."""
        with self._lock:
            return [
                {
                    "collector": name,
                    "cpu_ns": spent.cpu_ns,
                    "backend_cpu_ns": spent.backend_cpu_ns,
                    "samples": spent.sample_count,
                }
                for name, spent in sorted(self._spent.items())
            ]


COST_LIMIT_RATIO = 0.005
# The new interval is a little longer than necessary, so that it need not be raised again soon.
MARGIN = 1.1
STEP_NS = 10_000_000
JUDGED_AFTER_NS = 10 * SECOND_NS
SLOWEST_NS = 60 * SECOND_NS
RETRY_FIRST_NS = 2 * SECOND_NS
RETRY_SLOWEST_NS = 60 * SECOND_NS


@dataclass(slots=True)
class CollectorSchedule:
    """One collector of a thread. Times are monotonic ns.

    With `random`, gaps are uniform between 0.5 and 1.5 intervals, so that samples cannot keep pace
    with a period of the load. Without `random`, samples lie on a grid, and missed samples are left
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
        """Set the time of the next try, with a longer wait after each failure; a gap follows."""
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
