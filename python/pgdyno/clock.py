"""The only clock: monotonic, in integer nanoseconds, with one pair that maps it to Unix time.

The same pair converts the time of every record and every telemetry sample of an experiment.
Therefore all of them are on one axis, even if the wall clock is set during the run.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

# CPUCLOCK_SCHED of the kernel, in the low bits of a process's clock.
_CPU_TIME = 2
# All tries together take 0.3 ms with a fast clock. Nothing interrupted the shortest try.
_READING_TRIES, _READINGS = 5, 1000


@dataclass(frozen=True, slots=True)
class ClockPair:
    """One instant, read from both clocks; unix = monotonic + (unix_ns - monotonic_ns)."""

    monotonic_ns: int
    unix_ns: int

    def now_ns(self) -> int:
        """Return the present as Unix nanoseconds on this pair's axis (CLOCK_MONOTONIC based)."""
        return self.unix_at(monotonic_ns())

    def unix_at(self, instant_ns: int) -> int:
        """Return an instant of `monotonic_ns` as Unix nanoseconds on this pair's axis."""
        return self.unix_ns + (instant_ns - self.monotonic_ns)


def monotonic_ns() -> int:
    """Return CLOCK_MONOTONIC in nanoseconds, the clock the engine reads too."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@cache
def reading_ns() -> int:
    """Return the time of one reading of this host's clock, in ns: the shortest of a few tries.

    Source: pg_test_timing, which reads the clock in a loop, too.
    Limits: it includes the call from Python, 20 to 40 ns, so it is an upper bound for a server.
    """
    tries = []
    for _ in range(_READING_TRIES):
        began_ns = monotonic_ns()
        for _ in range(_READINGS):
            time.monotonic_ns()
        tries.append((monotonic_ns() - began_ns) // _READINGS)
    return max(min(tries), 1)


def process_cpu_ns(pid: int) -> int:
    """Return the CPU time of a process on this host, with its ended threads; 0 if it has ended.

    It takes one system call. For a process with one thread it is the first number of schedstat.
    Source: clock_getcpuclockid(3).
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | _CPU_TIME)
    except OSError:
        return 0


def read_pair() -> ClockPair:
    """Return both clocks, read as close together as possible in three tries."""
    best_gap_ns, best = 1 << 62, ClockPair(0, 0)
    for _ in range(3):
        before_ns = monotonic_ns()
        unix_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after_ns = monotonic_ns()
        if after_ns - before_ns < best_gap_ns:
            best_gap_ns = after_ns - before_ns
            best = ClockPair(monotonic_ns=(before_ns + after_ns) // 2, unix_ns=unix_ns)
    return best
