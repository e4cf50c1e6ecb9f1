"""What the planner knows of the runs so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.spec.planned import PlannedRun


@dataclass(frozen=True, slots=True)
class Measured:
    """One finished run: its plan, its throughput, and for a pilot how long it took to settle.

    `metrics`: what a design may decide by, by name, those that could be measured. `took_ns`: all
    that the run cost, from the decision to the stored result. `latency_ms`: mean and percentiles by
    name, those of a transaction type as "new-order.p90"; `achieved_ratio`: what was done of the
    load that was offered, 1 in a closed loop.
    """

    run: PlannedRun
    tps: float
    settled_after_ns: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    took_ns: int = 0
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    achieved_ratio: float = 1.0


History = tuple[Measured, ...]


def pilots(history: History) -> History:
    """Return the pilot runs."""
    return tuple(measured for measured in history if measured.run.purpose == "pilot")


def rounds(history: History) -> History:
    """Return the runs that count."""
    return tuple(measured for measured in history if measured.run.purpose == "round")


def trials(history: History) -> History:
    """Return the runs that tried a load against a latency target."""
    return tuple(measured for measured in history if measured.run.purpose == "capacity")


def warm_ns(history: History, *, asked_ns: int | None, least_ns: int) -> int:
    """Return the warm-up of every run: what was asked, else the longest any pilot needed."""
    if asked_ns is not None:
        return asked_ns
    return max([least_ns, *(m.settled_after_ns or 0 for m in pilots(history))])
