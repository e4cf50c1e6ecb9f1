"""The rate of an open loop: one number, or phases that hold, ramp or spike."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgdyno.errors import SpecError
from pgdyno.spec.units import duration_exactly, duration_ns

# The engine counts every arrival: at a higher rate it would do nothing else.
RATE_TPS_MAX = 10_000_000
FORM = "RATE, RATE:TIME or FROM-TO:TIME, separated by commas"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_PHASE = re.compile(rf"\s*({_NUMBER})\s*(?:-\s*({_NUMBER})\s*)?(?::\s*([^\s:]+)\s*)?")


@dataclass(frozen=True, slots=True)
class RatePhase:
    """One phase: the rate changes linearly from one value to the other, or holds if both are equal.

    `duration_ns`: None if the phase lasts to the end of the run.
    """

    from_tps: float
    to_tps: float
    duration_ns: int | None = None

    @property
    def text(self) -> str:
        """Return the phase as users write it, such as "500-4000:60s"."""
        ends = f"{self.from_tps:.17g}" + (
            f"-{self.to_tps:.17g}" if self.to_tps != self.from_tps else ""
        )
        return ends if self.duration_ns is None else f"{ends}:{duration_exactly(self.duration_ns)}"


@dataclass(frozen=True, slots=True)
class Rate:
    """Transactions to offer per second: phases in a row, from the start of the measured phase."""

    phases: tuple[RatePhase, ...]

    @property
    def is_constant(self) -> bool:
        """True if the rate is constant."""
        first = self.phases[0]
        return len(self.phases) == 1 and first.from_tps == first.to_tps

    @property
    def length_ns(self) -> int | None:
        """Return how long all phases last; None if the last phase has no end."""
        lengths = [phase.duration_ns for phase in self.phases]
        return sum(length for length in lengths if length is not None) if lengths[-1] else None

    @property
    def text(self) -> str:
        """Return the rate as users write it, such as "500:30s,500-4000:60s"."""
        return ",".join(phase.text for phase in self.phases)

    @property
    def warm_tps(self) -> float:
        """Return the rate during warm-up: the first rate of the phases, or the highest if it is 0.

        If a ramp begins with cold caches, they look like slowness at low rates.
        """
        highest = max(max(phase.from_tps, phase.to_tps) for phase in self.phases)
        return self.phases[0].from_tps or highest

    def within(self, length_ns: int) -> tuple[RatePhase, ...]:
        """Return the phases over this length of time; the last phase fills the rest."""
        left_ns = length_ns
        phases = []
        for phase in self.phases:
            spent_ns = left_ns if phase.duration_ns is None else min(phase.duration_ns, left_ns)
            left_ns -= spent_ns
            phases.append(RatePhase(phase.from_tps, phase.to_tps, spent_ns))
        last = self.phases[-1]
        if left_ns > 0:
            phases.append(RatePhase(last.to_tps, last.to_tps, left_ns))
        return tuple(phases)

    def mean_tps(self, length_ns: int) -> float:
        """Return the mean rate over this length of time."""
        if self.is_constant:
            return self.phases[0].from_tps
        area = sum(
            (phase.from_tps + phase.to_tps) / 2 * (phase.duration_ns or 0)
            for phase in self.within(length_ns)
        )
        return area / length_ns


def rate_from(given: object) -> Rate:
    """Parse a number, or a text such as `500:30s,500-4000:60s,200`.

    Raises: SpecError that names the wrong piece and the reason.
    """
    if isinstance(given, Rate):
        return given
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise SpecError(f"a rate must be a number or text, got {given!r}.", hint=FORM)
    if not isinstance(given, str):
        given = f"{given:f}".rstrip("0").rstrip(".")
    pieces = given.split(",")
    phases = tuple(_phase(piece, is_last=i == len(pieces) - 1) for i, piece in enumerate(pieces))
    if not any(phase.from_tps or phase.to_tps for phase in phases):
        raise SpecError(
            f"rate {given!r} offers no transactions: at least one phase must be above 0.",
            hint="remove the rate for a closed loop",
        )
    return Rate(phases)


def _phase(piece: str, *, is_last: bool) -> RatePhase:
    match = _PHASE.fullmatch(piece)
    if match is None:
        raise SpecError(f"rate: {piece.strip()!r} is not a phase of a rate.", hint=FORM)
    begin, end, time = float(match[1]), float(match[2] or match[1]), match[3]
    if max(begin, end) > RATE_TPS_MAX:
        raise SpecError(
            f"rate: {piece.strip()!r} exceeds {RATE_TPS_MAX:,} per second.",
            hint="offer a smaller rate",
        )
    if time is None:
        if match[2] is not None:
            raise SpecError(
                f"rate: the ramp {piece.strip()!r} needs a time.", hint=f"{piece.strip()}:60s"
            )
        if not is_last:
            raise SpecError(
                f"rate: {piece.strip()!r} needs a time, because another phase follows.",
                hint=f"{piece.strip()}:30s",
            )
        return RatePhase(begin, end)
    try:
        length_ns = duration_ns(time)
    except SpecError as error:
        raise SpecError(f"rate: {piece.strip()!r}: {error.message}", hint=FORM) from error
    if length_ns <= 0:
        raise SpecError(f"rate: the time of {piece.strip()!r} must be above 0.", hint=FORM)
    return RatePhase(begin, end, length_ns)
