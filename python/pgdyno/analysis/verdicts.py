"""Whether a run can be trusted. Each rule is one function, from plain facts to a doubt or None."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pgdyno.quantities import counted, percent, plain, seconds

_MS = 1_000_000
_BUSY_RATIO_MAX = 0.9
_TIMER_LAG_NS_MIN = 1 * _MS
_TIMER_LAG_RATIO = 0.05
_ACHIEVED_RATIO_MIN = 0.99
_STEAL_RATIO_MAX = 0.01
_LITTLE_RATIO_MAX = 0.05
# With fewer transactions, those cut off at both ends of the phase cause the difference.
_LITTLE_PER_CLIENT_MIN = 40
# Above the first, a doubt shows the engine's own time; above the second, the load is wrong.
_BETWEEN_RATIO_MAX = 0.05
_BETWEEN_RATIO_NOT_VALID = 0.2
_CHECKPOINTS_MIN = 2
# The percentiles that outputs show.
_PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
_OTHERS_RATIO_MAX = 0.05
# Processes that live shorter than a second are not counted as the server's, so this is not lower.
_OTHER_PROGRAMS_RATIO_MAX = 0.1


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason not to trust a run (`not_valid`) or to trust it with care (`doubt`)."""

    kind: str
    verdict: Literal["not_valid", "doubt"]
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFacts:
    """The load of the measured time, as the engine counted it.

    `offered_tps`: None in a closed loop. Two times are sums over all clients:
    `between_transactions_ns`, from the end of a transaction to the start of the next, and
    `think_time_ns`, keying and think time, None without these.
    """

    measured_seconds: float
    client_count: int
    completed_count: int
    failed_count: int = 0
    latency_mean_ns: float | None = None
    latency_p50_ns: float | None = None
    latency_max_ns: float = 0.0
    is_closed_loop: bool = True
    offered_tps: float | None = None
    between_transactions_ns: int | None = None
    think_time_ns: int | None = None

    @property
    def busy_client_count(self) -> float:
        """Return how many clients were in a transaction on average; think time is outside."""
        if self.is_closed_loop:
            return self.client_count - (self.think_time_ns or 0) / 1e9 / self.measured_seconds
        if self.latency_mean_ns is None:
            return self.client_count
        ended = self.completed_count + self.failed_count
        return min(self.client_count, ended * self.latency_mean_ns / 1e9 / self.measured_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """The engine's threads, and what took CPU time from engine and server.

    `other_programs_ratio`: share of all cores of the server's host that programs other than server
    and pgdyno used.
    """

    thread_busy_ratio: float | None = None
    timer_lag_p99_ns: float | None = None
    steal_ratio: float | None = None
    throttled_ns: int | None = None
    other_programs_ratio: float | None = None
    is_same_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """The database during the run.

    `scale`: of pgbench's tables. `updates_branches`: each transaction of a script updates a row of
    pgbench_branches. `others_ratio`: share of the active sessions that were not the load's.
    """

    is_written: bool = False
    checkpoint_count: int | None = None
    checkpoint_timeout_seconds: float | None = None
    scale: int | None = None
    updates_branches: bool = False
    others_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseFacts:
    """How throughput changed over time; `is_one_of_many`: the run is one of several of a sweep."""

    is_one_of_many: bool = False
    is_steady: bool | None = None
    change_point_seconds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts for the rules. If a fact is None, it was not measured, and its rule is not used."""

    load: LoadFacts
    machine: MachineFacts = field(default_factory=MachineFacts)
    database: DatabaseFacts = field(default_factory=DatabaseFacts)
    course: CourseFacts = field(default_factory=CourseFacts)


def _engine_busy(facts: RunFacts) -> Doubt | None:
    busy = facts.machine.thread_busy_ratio
    if busy is None or busy < _BUSY_RATIO_MAX:
        return None
    return Doubt(
        "engine_busy",
        "not_valid",
        f"A thread of the load engine was {percent(busy)} busy (limit "
        f"{percent(_BUSY_RATIO_MAX)}): the load engine was the bottleneck, not the server.",
        "use more --threads, or a load host with more cores",
    )


def _timer_lag(facts: RunFacts) -> Doubt | None:
    lag = facts.machine.timer_lag_p99_ns
    if lag is None or facts.load.latency_p50_ns is None:
        return None
    limit = max(_TIMER_LAG_NS_MIN, _TIMER_LAG_RATIO * facts.load.latency_p50_ns)
    if lag <= limit:
        return None
    return Doubt(
        "timer_lag",
        "not_valid",
        f"The engine's timers fired {lag / _MS:.2f} ms late at p99 while a client was free "
        f"(limit {limit / _MS:.2f} ms): transactions started later than scheduled.",
        "leave a core free for the load engine, or move it to another host",
    )


def _achieved(facts: RunFacts) -> Doubt | None:
    offered = facts.load.offered_tps
    if not offered:
        return None
    achieved = facts.load.completed_count / facts.load.measured_seconds
    if achieved >= _ACHIEVED_RATIO_MIN * offered:
        return None
    return Doubt(
        "rate_not_held",
        "not_valid",
        f"{plain(achieved)} of {plain(offered)} offered tps completed "
        f"({percent(achieved / offered)}, limit {percent(_ACHIEVED_RATIO_MIN)}): the latency "
        "depends on how long such a run lasts.",
        "offer a lower --rate, or use more --clients if all were busy",
    )


NEEDED_S, NEEDED_S_IN_SWEEP = 10.0, 5.0
"""A run that is measured for less time is not valid; "in a sweep": one of several runs."""
NEEDED_S_TO_PROVE = NEEDED_S_IN_SWEEP
"""Where only valid runs prove something, shorter runs are refused before the first of them."""


def _too_short(facts: RunFacts) -> Doubt | None:
    needed = NEEDED_S_IN_SWEEP if facts.course.is_one_of_many else NEEDED_S
    # A phase of 5 s may be slightly shorter by the clock.
    if facts.load.measured_seconds >= 0.99 * needed:
        return None
    return Doubt(
        "too_short",
        "not_valid",
        f"The measured time was {seconds(facts.load.measured_seconds)}; a run needs at least "
        f"{needed:.0f} s.",
        "set a longer --duration",
    )


def _steal(facts: RunFacts) -> Doubt | None:
    if facts.machine.steal_ratio is None or facts.machine.steal_ratio <= _STEAL_RATIO_MAX:
        return None
    return Doubt(
        "steal",
        "not_valid",
        f"The hypervisor took {percent(facts.machine.steal_ratio)} of the CPU away (steal, limit "
        f"{percent(_STEAL_RATIO_MAX)}).",
        "use a machine with dedicated cores, or repeat at a quieter time",
    )


def _throttled(facts: RunFacts) -> Doubt | None:
    throttled_ns = facts.machine.throttled_ns
    if not throttled_ns:
        return None
    return Doubt(
        "throttled",
        "not_valid",
        f"The control group throttled the processes for {throttled_ns / _MS:.0f} ms: the "
        "run measured the CPU limit.",
        "raise cpu.max of the group, or use fewer --threads and --clients",
    )


def _other_programs(facts: RunFacts) -> Doubt | None:
    ratio = facts.machine.other_programs_ratio
    if ratio is None or ratio <= _OTHER_PROGRAMS_RATIO_MAX:
        return None
    return Doubt(
        "other_programs",
        "doubt",
        f"Other programs used {percent(ratio)} of the CPU of the server's host (limit "
        f"{percent(_OTHER_PROGRAMS_RATIO_MAX)}).",
        "stop them, or measure when they are idle; pgdyno doctor names them",
    )


def other_programs_in_one_arm(ratios: Sequence[float | None]) -> tuple[int, Doubt] | None:
    """Return the run of a round with the most CPU time of other programs, if another had less.

    Args: ratios, `MachineFacts.other_programs_ratio` of each run of the round.
    Returns: the run's place, and why its pair is not even; None if the runs were disturbed alike.
    """
    known = [ratio for ratio in ratios if ratio is not None]
    if len(known) < len(ratios) or len(known) < 2:
        return None
    most, least = max(known), min(known)
    if most - least <= _OTHER_PROGRAMS_RATIO_MAX:
        return None
    return known.index(most), Doubt(
        "other_programs_in_one_arm",
        "doubt",
        f"Other programs used {percent(most)} of the CPU in one run of a round, and "
        f"{percent(least)} in another.",
        "",
    )


def _little(facts: RunFacts) -> Doubt | None:
    """Return a doubt if clients = throughput x (latency + think time) does not hold.

    The law holds in a closed loop (Little 1961). If the engine measured the time between
    transactions, this time is added. The rest is lost time.
    """
    total = facts.load.completed_count + facts.load.failed_count
    think_seconds = (facts.load.think_time_ns or 0) / 1e9
    if (
        not facts.load.is_closed_loop
        or facts.load.latency_mean_ns is None
        or total < _LITTLE_PER_CLIENT_MIN * max(facts.load.busy_client_count, 1.0)
        or facts.load.failed_count > 0.01 * total  # The mean does not include their latency.
    ):
        return None
    between_ns = facts.load.between_transactions_ns
    spent_ns = total * facts.load.latency_mean_ns + (between_ns or 0)
    known = (spent_ns / 1e9 + think_seconds) / facts.load.measured_seconds
    error = abs(facts.load.client_count - known) / facts.load.client_count
    is_too_much = known > facts.load.client_count
    # A transaction counts whole where it ends, also if it began before the measured time.
    earlier = facts.load.latency_max_ns / 1e9 / facts.load.measured_seconds * is_too_much
    if error <= _LITTLE_RATIO_MAX + earlier:
        return None
    why = "more was counted than they had" if is_too_much else "clients spent time outside"
    times = "latency" + (" and think time" if facts.load.think_time_ns else "")
    times += "" if between_ns is None else " and the time between transactions"
    return Doubt(
        "littles_law",
        "not_valid",
        f"Throughput times {times} gives {known:.2f} busy clients, but {facts.load.client_count} "
        f"clients ran ({percent(error)} difference, limit {percent(_LITTLE_RATIO_MAX + earlier)}): "
        f"{why}{'' if is_too_much else ' transactions'}.",
        "report this as a fault of pgdyno"
        if is_too_much
        else ("use more --threads, or " if between_ns is None else "")
        + "look for lost connections",
    )


def _between_transactions(facts: RunFacts) -> Doubt | None:
    """Return a doubt if clients wait for the engine, because they then offer less load."""
    if facts.load.between_transactions_ns is None:
        return None
    client_ns = facts.load.client_count * facts.load.measured_seconds * 1e9
    ratio = facts.load.between_transactions_ns / client_ns
    if ratio <= _BETWEEN_RATIO_MAX:
        return None
    is_too_much = ratio > _BETWEEN_RATIO_NOT_VALID
    limit = _BETWEEN_RATIO_NOT_VALID if is_too_much else _BETWEEN_RATIO_MAX
    return Doubt(
        "between_transactions",
        "not_valid" if is_too_much else "doubt",
        f"The clients spent {percent(ratio)} of their time in the load engine, between a reply "
        f"and the next statement (limit {percent(limit)}): the engine served other clients or "
        "waited for a core, so the server got less load.",
        "reserve a core for the engine or use another host; use more --threads if cores are free",
    )


def _same_host(facts: RunFacts) -> Doubt | None:
    if not facts.machine.is_same_host:
        return None
    return Doubt(
        "same_host",
        "doubt",
        "The load engine ran on the server's host and took CPU from the server.",
        "compare the CPU of both in the report, or move the engine to another host",
    )


def _others(facts: RunFacts) -> Doubt | None:
    ratio = facts.database.others_ratio
    if ratio is None or ratio <= _OTHERS_RATIO_MAX:
        return None
    return Doubt(
        "others",
        "doubt",
        f"Other sessions used {percent(ratio)} of the server's DB time (limit "
        f"{percent(_OTHERS_RATIO_MAX)}).",
        "end the other sessions, or measure when they are idle",
    )


def _checkpoints(facts: RunFacts) -> Doubt | None:
    if not facts.database.is_written or facts.database.checkpoint_count is None:
        return None
    if facts.database.checkpoint_count >= _CHECKPOINTS_MIN:
        return None
    covered = {0: "no checkpoint", 1: "one checkpoint"}[facts.database.checkpoint_count]
    every = facts.database.checkpoint_timeout_seconds
    return Doubt(
        "checkpoints",
        "doubt",
        f"The run covers {covered}: it hardly includes the cost of checkpoints.",
        f"measure for {_CHECKPOINTS_MIN * every:.0f} s (twice checkpoint_timeout) to include it"
        if every
        else "measure for at least twice checkpoint_timeout to include it",
    )


def _clients_above_scale(facts: RunFacts) -> Doubt | None:
    scale = facts.database.scale
    if not facts.database.updates_branches or scale is None:
        return None
    # Clients hold no row lock during think time.
    at_once = math.ceil(round(facts.load.busy_client_count, 2))
    if at_once <= scale:
        return None
    thinking = "" if at_once == facts.load.client_count else f" ({at_once} at a time)"
    return Doubt(
        "clients_above_scale",
        "doubt",
        f"{facts.load.client_count} clients{thinking} update {counted(scale, 'row')} of "
        "pgbench_branches: the run measured mostly the queue for row locks.",
        f"use a scale of at least {at_once}",
    )


def _percentile_resolution(facts: RunFacts) -> Doubt | None:
    # A percentile needs one transaction beyond it: p99.9 needs 1000.
    rough = [p for p in _PERCENTILES if facts.load.completed_count * (100 - p) < 100 - 1e-6]
    if not rough or facts.load.completed_count == 0:
        return None
    names = ", ".join(f"p{p:g}" for p in rough)
    return Doubt(
        "percentile_resolution",
        "doubt",
        f"{counted(facts.load.completed_count, 'transaction')} are too few for {names}: a single "
        "transaction decides the value.",
        "measure longer",
    )


def _not_steady(facts: RunFacts) -> Doubt | None:
    if facts.course.is_steady is not False:
        return None
    return Doubt(
        "not_steady",
        "doubt",
        "Throughput was still changing when the measured time began.",
        "set a longer --warmup",
    )


def _changed(facts: RunFacts) -> Doubt | None:
    if not facts.course.change_point_seconds:
        return None
    when = ", ".join(f"{second:.0f} s" for second in facts.course.change_point_seconds)
    return Doubt(
        "change_point",
        "doubt",
        f"Throughput changed during the run, at {when}: one mean does not describe it.",
        "look at that moment on the time line, and read the values before and after it",
    )


RULES: tuple[Callable[[RunFacts], Doubt | None], ...] = (
    _engine_busy,
    _timer_lag,
    _achieved,
    _too_short,
    _steal,
    _throttled,
    _little,
    _between_transactions,
    _others,
    _other_programs,
    _changed,
    _clients_above_scale,
    _not_steady,
    _checkpoints,
    _percentile_resolution,
    _same_host,
)


MACHINE_DOUBTS = ("engine_busy", "timer_lag", "steal", "throttled")
"""Doubts that are about the machine of a run: such a run says nothing about the server."""

OUTSIDE_DOUBTS = ("steal", "throttled", "others")
"""Doubts about what others did during a run: another run of the same load may not have them."""


def doubts(facts: RunFacts) -> tuple[Doubt, ...]:
    """Return every doubt about a run, the worst first."""
    judged = [doubt for rule in RULES if (doubt := rule(facts)) is not None]
    return tuple(sorted(judged, key=lambda doubt: doubt.verdict != "not_valid"))


def is_valid(judged: tuple[Doubt, ...]) -> bool:
    """Return whether the run is valid: none of the doubts makes it not valid."""
    return all(doubt.verdict != "not_valid" for doubt in judged)
