"""What the planner knows about each finished run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pgdyno.spec.planned import PlannedRun


@dataclass(frozen=True, slots=True)
class TurnValues:
    """One turn of a load in which variants took turns. `refused`: why the server refused it."""

    metrics: Mapping[str, float]
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """One finished run: its plan and its results.

    `settled_after_ns`: the time a pilot took until its throughput was steady. `metrics`: name ->
    value of the measured metrics that a design may decide by. `took_ns`: the time from the decision
    to the stored result. `failed_ns`: the time of the failed runs since the complete run before.
    `latency_ms`: name -> mean or percentile; "new-order.p90" is the figure of a transaction type.
    `achieved_ratio`: throughput over the offered load, 1 in a closed loop. `disturbed_by`: why its
    machine could not answer a question about a latency target; "" if it could, and for pilots.
    `turns`: what each turn of `run.turns` measured.
    """

    run: PlannedRun
    tps: float
    settled_after_ns: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    took_ns: int = 0
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    achieved_ratio: float = 1.0
    failed_ns: int = 0
    disturbed_by: str = ""
    turns: tuple[TurnValues, ...] = ()

    @property
    def elapsed_ns(self) -> int:
        """Return the time that this run took, with the failed runs before it."""
        return self.took_ns + self.failed_ns


History = tuple[Measured, ...]

# A question about a latency target ends if its machine spoiled at least this number and this share
# of the runs.
SPOILED_MIN, SPOILED_RATIO = 3, 0.75


def elapsed_ns(history: History) -> int:
    """Return the time that these runs took."""
    return sum(measured.elapsed_ns for measured in history)


def pilots(history: History) -> History:
    """Return the pilot runs."""
    return tuple(measured for measured in history if measured.run.purpose == "pilot")


def rounds(history: History) -> History:
    """Return the runs of rounds, which count for the answer."""
    return tuple(measured for measured in history if measured.run.purpose == "round")


def trials(history: History) -> History:
    """Return the runs that tried a load against a latency target."""
    return tuple(measured for measured in history if measured.run.purpose == "capacity")


def why_no_answer(
    ran: History, is_spoiled: Callable[[Measured], bool], *, runs: str, spoils: str
) -> str:
    """Return why this machine cannot answer a question about a latency target, or "".

    Args: is_spoiled, whether a disturbed run says nothing; runs, what they are, in words; spoils,
    what these runs show, in words.
    """
    spoiled = [run.disturbed_by for run in ran if run.disturbed_by and is_spoiled(run)]
    if len(spoiled) < SPOILED_MIN or len(spoiled) < SPOILED_RATIO * len(ran):
        return ""
    return (
        f"this machine was disturbed in {len(spoiled)} of {len(ran)} {runs}, and each of these"
        f" {spoils}. {spoiled[-1]}"
    )


def warm_ns(history: History, *, asked_ns: int | None, least_ns: int) -> int:
    """Return the length of the warm-up: `asked_ns`, or else the longest that a pilot needed.

    Args: asked_ns, from the spec, None if it has none; least_ns, the minimum in that case.
    """
    if asked_ns is not None:
        return asked_ns
    return max([least_ns, *(m.settled_after_ns or 0 for m in pilots(history))])
