"""Offset and drift of a host's clock, from probes: pure arithmetic.

A probe is sent at `sent_ns` and answered at `answered_ns` on our clock; the host received it at
`received_ns` and replied at `replied_ns` on its own. Its offset is host clock minus our clock.
Source: RFC 5905, section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PROBES_BEFORE = 100
PROBES_AFTER = 20


@dataclass(frozen=True, slots=True)
class Probe:
    """One exchange with a host: the outer instants are of our clock, the inner of the host's."""

    sent_ns: int
    received_ns: int
    replied_ns: int
    answered_ns: int

    @property
    def round_trip_ns(self) -> int:
        """Return the time on the way, there and back."""
        return (self.answered_ns - self.sent_ns) - (self.replied_ns - self.received_ns)

    @property
    def offset_ns(self) -> int:
        """Return the offset if both ways take the same time."""
        return ((self.received_ns - self.sent_ns) + (self.replied_ns - self.answered_ns)) // 2


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The offset of a clock at an instant of our clock; the true one differs by `error_ns` at most.

    The bound follows from the round trip alone: no way takes less than no time.
    """

    at_ns: int
    offset_ns: int
    error_ns: int


def offset_from(probes: Sequence[Probe]) -> ClockOffset:
    """Return the offset by the probe with the shortest round trip; `probes` is not empty."""
    best = min(probes, key=lambda probe: probe.round_trip_ns)
    at_ns = (best.sent_ns + best.answered_ns) // 2
    return ClockOffset(at_ns, best.offset_ns, (max(0, best.round_trip_ns) + 1) // 2)


def drift_ppm(before: ClockOffset, after: ClockOffset) -> tuple[float, float]:
    """Return how fast the offset grows, in millionths, and the largest error of this figure."""
    passed_ns = max(1, after.at_ns - before.at_ns)
    grown_ns = after.offset_ns - before.offset_ns
    return grown_ns / passed_ns * 1e6, (before.error_ns + after.error_ns) / passed_ns * 1e6
