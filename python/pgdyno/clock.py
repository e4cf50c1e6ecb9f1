"""The only clock: monotonic, in whole nanoseconds.

One pair of readings, of the monotonic clock and of the wall clock, converts the time of every
record and every telemetry sample of an experiment to Unix time. Therefore all these times can be
compared, even if somebody sets the wall clock during the run.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache

# The kernel's constant CPUCLOCK_SCHED. The low bits of the id of a CPU clock contain it.
_CPU_TIME = 2
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# All tries together take 0.3 ms with a fast clock. The shortest try is taken as undisturbed.
_READING_TRIES, _READINGS = 5, 1000


@dataclass(frozen=True, slots=True)
class ClockPair:
    """One instant, read from both clocks. Unix time = monotonic + (unix_ns - monotonic_ns)."""

    monotonic_ns: int
    unix_ns: int

    def now_ns(self) -> int:
        """Return the present in Unix nanoseconds, converted from CLOCK_MONOTONIC by this pair."""
        return self.unix_at(monotonic_ns())

    def unix_at(self, instant_ns: int) -> int:
        """Convert an instant of `monotonic_ns` to Unix nanoseconds by this pair."""
        return self.unix_ns + (instant_ns - self.monotonic_ns)


def monotonic_ns() -> int:
    """Return CLOCK_MONOTONIC in nanoseconds, the clock the engine reads too."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def thread_cpu_ns() -> int:
    """Return how long the calling thread has used a core, in ns."""
    return time.thread_time_ns()


@cache
def reading_ns() -> int:
    """Return how long one reading of this host's clock takes, in ns: the shortest of five tries.

    Source: pg_test_timing, which reads the clock in a loop, too.
    Limits: the result includes the call from Python, 20 to 40 ns. Therefore a server needs at most
    this time.
    """
    tries = []
    for _ in range(_READING_TRIES):
        began_ns = monotonic_ns()
        for _ in range(_READINGS):
            time.monotonic_ns()
        tries.append((monotonic_ns() - began_ns) // _READINGS)
    return max(min(tries), 1)


def process_cpu_ns(pid: int) -> int:
    """Return the CPU time that a process of this host has used, in ns; 0 if the process has ended.

    The time of threads that have ended is included. If the process has one thread, the result is
    the first number in /proc/PID/schedstat. One call is one system call.
    Source: clock_getcpuclockid(3).
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | _CPU_TIME)
    except OSError:
        return 0


def resident_bytes() -> int:
    """Return the memory that this process uses now, in bytes; 0 if the kernel does not say it."""
    try:
        with open("/proc/self/statm", "rb") as sizes:  # noqa: PTH123 - called very often
            return int(sizes.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def read_pair() -> ClockPair:
    """Read both clocks three times, and return the pair with the smallest gap between readings."""
    best_gap_ns, best = 1 << 62, ClockPair(0, 0)
    for _ in range(3):
        before_ns = monotonic_ns()
        unix_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after_ns = monotonic_ns()
        if after_ns - before_ns < best_gap_ns:
            best_gap_ns = after_ns - before_ns
            best = ClockPair(monotonic_ns=(before_ns + after_ns) // 2, unix_ns=unix_ns)
    return best
