"""Notices when a wall clock is set while a run lasts.

Our own times do not depend on it: engine and collectors use the monotonic clock. But the server
counts `active_time` by its wall clock, and dates its log by it.
"""

from __future__ import annotations

from typing import Any

from pgdyno.clock import ClockPair, monotonic_ns, read_pair
from pgdyno.observe.round_trips import ServerClock

CLOCK_SET = "clock_set"
# Smaller differences come from reading two clocks one after the other on a busy machine.
_STEP_NS = 50_000_000
# More than clocks are adjusted by, which is at most 0.05 %.
_SLEW_RATIO = 0.001


class ClockWatch:
    """Compares this host's wall clock with the clock of the experiment at each `look`."""

    def __init__(self, clock: ClockPair) -> None:
        self._clock = clock
        self._seen_ns = self._began_ns = monotonic_ns()
        self._ahead_ns = _ahead_ns(clock)
        self._steps_ns: list[int] = []

    def look(self) -> None:
        """Note a step since the last look."""
        now_ns = monotonic_ns()
        allowed_ns = _STEP_NS + _SLEW_RATIO * (now_ns - self._seen_ns)
        # Take the reading that is nearer to the last: a pause may have spoiled the other.
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

        Args: before and after, the server's clock against the experiment's, before and after the
        run; None if not known.
        """
        self.look()
        words = [f"that of this host by {_seconds(step_ns)}" for step_ns in self._steps_ns]
        if before is not None and after is not None:
            moved_ns = after.ahead_ns - before.ahead_ns
            allowed_ns = _SLEW_RATIO * (monotonic_ns() - self._began_ns)
            allowed_ns += _STEP_NS + before.uncertainty_ns + after.uncertainty_ns
            if abs(moved_ns) > allowed_ns:
                words.append(f"that of the server by {_seconds(moved_ns)}")
        if not words:
            return None
        return {
            "time_ns": self._clock.now_ns(),
            "kind": CLOCK_SET,
            "message": (
                f"Somebody set a wall clock during the run: {', '.join(words)}. No number here "
                "depends on it; the server time is sampled, because the server counts it by its "
                "wall clock."
            ),
            "hint": "let the clock be slewed, not set, during a measurement",
        }


def _ahead_ns(clock: ClockPair) -> int:
    pair = read_pair()
    return (pair.unix_ns - pair.monotonic_ns) - (clock.unix_ns - clock.monotonic_ns)


def _seconds(step_ns: int) -> str:
    return f"{step_ns / 1e9:+.1f} s"
