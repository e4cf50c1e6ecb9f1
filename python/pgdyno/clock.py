"""The one clock: integer nanoseconds, monotonic, with one pair that maps them to Unix time.

Every record and every telemetry sample of an experiment is stamped through the same pair, so that
all of them lie on one axis even when the wall clock is stepped during the run.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

# CPUCLOCK_SCHED of the kernel, in the low bits of a process's clock.
_CPU_TIME = 2
# Together 0.3 ms with a fast clock. The shortest try is the one that nothing interrupted.
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
    """Return what one reading of the clock costs here, in ns: the least of some tries, made once.

    Limits: the call from Python, some 20 to 40 ns, is included, so it is an upper bound of what a
    server pays. Source: pg_test_timing reads the clock in a loop, too.
    """
    tries = []
    for _ in range(_READING_TRIES):
        began_ns = monotonic_ns()
        for _ in range(_READINGS):
            time.monotonic_ns()
        tries.append((monotonic_ns() - began_ns) // _READINGS)
    return max(min(tries), 1)


def process_cpu_ns(pid: int) -> int:
    """Return the CPU time of a process on this host, its ended threads' included; 0 if it is gone.

    One system call, and the first number of schedstat where a process has one thread.
    Source: clock_getcpuclockid(3).
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | _CPU_TIME)
    except OSError:
        return 0


def read_pair() -> ClockPair:
    """Read both clocks as close together as three tries allow."""
    best_gap_ns, best = 1 << 62, ClockPair(0, 0)
    for _ in range(3):
        before_ns = monotonic_ns()
        unix_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after_ns = monotonic_ns()
        if after_ns - before_ns < best_gap_ns:
            best_gap_ns = after_ns - before_ns
            best = ClockPair(monotonic_ns=(before_ns + after_ns) // 2, unix_ns=unix_ns)
    return best
