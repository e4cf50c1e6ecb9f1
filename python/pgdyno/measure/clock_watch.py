"""Detects when somebody sets a wall clock during a run.

The engine and the collectors use the monotonic clock, so such a step does not change their times.
But the server uses its wall clock for `active_time` and for its log. Steps of less than 50 ms, and
steps forward and back between two looks, are not seen.
"""

from __future__ import annotations

from typing import Any

from pgdyno.clock import ClockPair, monotonic_ns, read_pair
from pgdyno.observe.collector import NoticeKind
from pgdyno.observe.round_trips import ServerClock

# On a busy machine the two clocks are not read at the same moment. This makes smaller differences.
_STEP_NS = 50_000_000
# A clock that time synchronisation adjusts gradually moves less: at most 0.05 % by the kernel.
_SLEW_RATIO = 0.001


class ClockWatch:
    """Compares this host's wall clock with the clock of the experiment at each `look`."""

    def __init__(self, clock: ClockPair) -> None:
        self._clock = clock
        self._seen_ns = self._began_ns = monotonic_ns()
        self._ahead_ns = _ahead_ns(clock)
        self._steps_ns: list[int] = []

    def look(self) -> None:
        """Record a step of this host's wall clock, if there was one since the last look."""
        now_ns = monotonic_ns()
        allowed_ns = _STEP_NS + _SLEW_RATIO * (now_ns - self._seen_ns)
        # Read twice and take the reading that is nearer to the last one. If this process paused
        # during the other reading, that one is wrong.
        near = min(
            (_ahead_ns(self._clock) for _ in range(2)),
            key=lambda ahead_ns: abs(ahead_ns - self._ahead_ns),
        )
        if abs(near - self._ahead_ns) > allowed_ns:
            self._steps_ns.append(near - self._ahead_ns)
        self._seen_ns, self._ahead_ns = now_ns, near

    def notice(
        self, before: ServerClock | None, after: ServerClock | None
    ) -> dict[str, Any] | None:
        """Return the notice about this run; None if no clock was set.

        Args: before and after, how far the server's clock was ahead of the clock of the experiment
        before and after the run; None if not known.
        """
        self.look()
        words = [f"the clock of this host by {_seconds(step_ns)}" for step_ns in self._steps_ns]
        if before is not None and after is not None:
            moved_ns = after.ahead_ns - before.ahead_ns
            allowed_ns = _SLEW_RATIO * (monotonic_ns() - self._began_ns)
            allowed_ns += _STEP_NS + before.uncertainty_ns + after.uncertainty_ns
            if abs(moved_ns) > allowed_ns:
                words.append(f"the clock of the server by {_seconds(moved_ns)}")
        if not words:
            return None
        return {
            "time_ns": self._clock.now_ns(),
            "kind": NoticeKind.CLOCK_SET.value,
            "message": (
                f"A wall clock was set during the run: {', '.join(words)}. No result here uses a "
                "wall clock. The time in the server comes from samples, because the server's own "
                "count uses its wall clock."
            ),
            "hint": "configure time synchronization to adjust the clock gradually (slew)",
        }


def _ahead_ns(clock: ClockPair) -> int:
    """Return how far this host's wall clock is ahead of the clock of the experiment, in ns."""
    pair = read_pair()
    return (pair.unix_ns - pair.monotonic_ns) - (clock.unix_ns - clock.monotonic_ns)


def _seconds(step_ns: int) -> str:
    return f"{step_ns / 1e9:+.1f} s"
