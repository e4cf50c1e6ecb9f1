"""Computes the amount of each part of the latency, in ns a transaction, from a run's facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.server_clocks import bound
from pgdyno.analysis.where_facts import (
    ANSWERING,
    BETWEEN_NODES,
    CLIENT,
    CONNECTION_WAIT,
    COPYING,
    CPU,
    NETWORK,
    NOT_INSTRUMENTED,
    OTHER_NODES,
    POOLER_WAIT,
    REPLY_WAIT,
    SCHEDULE_LAG,
    SERVER,
    SHELL,
    SLEEP,
    WAITING_FOR_A_CORE,
    How,
    Side,
    TransactionFacts,
)
from pgdyno.analysis.where_sampled import Sampled, is_active

# The kernel's count says how long backends were runnable, and not when. "least" puts as much of it
# as possible outside the latency and into wait events, "most" as little as possible. "likely" is
# between them: it fills what no other part explains.
Placing = Literal["least", "likely", "most"]


@dataclass(frozen=True, slots=True, eq=False)
class Amounts:
    """Parts in ns a transaction: `ns` has shape (rows, parts); `how` each part was made.

    The other arrays have shape (rows,) and are not parts. `queue_inside_ns` and `cpu_inside_ns`:
    time waiting for a core and time on a core inside wait events, which the parts of these events
    contain. `after_answer_ns`: CPU time of backends after the client received the answer.
    """

    parts: tuple[tuple[str, Side], ...]
    how: tuple[How, ...]
    ns: FloatArray
    queue_inside_ns: FloatArray | None
    cpu_inside_ns: FloatArray | None
    after_answer_ns: FloatArray


def amounts(
    facts: TransactionFacts,
    samples: Sampled,
    sessions: FloatArray,
    exact_ns: FloatArray | None,
    *,
    missed_ns: float = 0.0,
    placing: Placing = "likely",
) -> Amounts:
    """Return the parts for every row of `sessions`, shape (rows, events), mean sessions.

    Args: exact_ns, shape (rows,), the server's count of its time a transaction, which samples only
    split, None without a count; missed_ns, time without wait event to add to the samples, or to
    subtract if below 0; placing, where the kernel's count of runnable backends is put.
    """
    rows = sessions.shape[0]
    each_ns = sessions * (facts.window_seconds * 1e9 / facts.transaction_count)
    answering = np.zeros(rows)
    if ANSWERING in samples.events:
        answering = each_ns[:, samples.events.index(ANSWERING)]
    by_event, bare = _in_server(facts, samples, each_ns, exact_ns)
    bare = np.maximum(bare + missed_ns, 0.0)
    made = _Parts(rows)
    bound = {event for counted in facts.server.events for event in counted.events}
    for event, ns in by_event.items():
        made.add(event, "server", ns, "counted" if event in bound else "sampled")
    _outside(made, facts, answering)
    if not samples.events:
        if exact_ns is not None:
            made.add(SERVER, "server", exact_ns, "counted")
        return made.amounts()
    if facts.backends.cpu_ns is None or facts.backends.runqueue_ns is None:
        how: How = "sampled" if exact_ns is None else "by difference"
        _add_uninstrumented(made, facts, bare + answering, how)
        return made.amounts()
    return _with_cores(made, facts, by_event, bare, answering, placing)


class _Parts:
    """Collects the measured parts."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._found: list[tuple[str, Side, FloatArray, How]] = []

    def add(self, name: str, side: Side, ns: FloatArray | float | None, how: How) -> None:
        """Add a part. Args: ns, None if the part was not measured; it is then left out."""
        if ns is not None:
            whole = np.broadcast_to(np.asarray(ns, dtype=np.float64), (self._rows,))
            self._found.append((name, side, whole, how))

    def total(self) -> FloatArray:
        """Return the sum of the parts so far, by row."""
        parts = [np.zeros(self._rows), *(ns for *_, ns, _ in self._found)]
        return np.asarray(np.sum(parts, axis=0))

    def amounts(
        self,
        queue_inside_ns: FloatArray | None = None,
        cpu_inside_ns: FloatArray | None = None,
        after_answer_ns: FloatArray | None = None,
    ) -> Amounts:
        """Return the parts as arrays."""
        nothing = np.zeros(self._rows)
        return Amounts(
            parts=tuple((name, side) for name, side, *_ in self._found),
            how=tuple(how for *_, how in self._found),
            ns=np.stack([ns for *_, ns, _ in self._found] or [nothing], axis=1),
            queue_inside_ns=queue_inside_ns,
            cpu_inside_ns=cpu_inside_ns,
            after_answer_ns=nothing if after_answer_ns is None else after_answer_ns,
        )


def _in_server(
    facts: TransactionFacts, samples: Sampled, each_ns: FloatArray, exact_ns: FloatArray | None
) -> tuple[dict[str, FloatArray], FloatArray]:
    """Return the server's time of a transaction in each wait event, and without a wait event.

    Clocks of the server bind the samples (`bound`).
    """
    rows = each_ns.shape[0]
    places = [i for i, active in enumerate(is_active(samples.events)) if active]
    sampled = {samples.events[i]: each_ns[:, i].copy() for i in places}
    counted = [
        (counted.events, facts.each(counted.total_ns) or 0.0) for counted in facts.server.events
    ]
    by_event = bound(sampled, counted, exact_ns, rows=rows)
    bare = by_event.pop("", np.zeros(rows))
    return by_event, bare if samples.events else np.zeros(rows)


def _outside(made: _Parts, facts: TransactionFacts, answering: FloatArray) -> None:
    """Add the parts that are not the server's time."""
    made.add(NETWORK, "network", _network(facts, answering), "sampled")
    made.add(CLIENT, "client", facts.engine.cpu_ns, "counted")
    made.add(SLEEP, "client", facts.engine.sleep_ns, "counted")
    made.add(SHELL, "client", facts.engine.shell_ns, "counted")
    made.add(REPLY_WAIT, "client", facts.engine.reply_wait_ns, "sampled")
    made.add(SCHEDULE_LAG, "schedule", facts.engine.schedule_lag_ns, "counted")
    made.add(CONNECTION_WAIT, "schedule", facts.engine.connection_wait_ns, "counted")
    made.add(POOLER_WAIT, "schedule", facts.each(facts.pooler_wait_ns), "counted")


def _with_cores(
    made: _Parts,
    facts: TransactionFacts,
    by_event: dict[str, FloatArray],
    bare: FloatArray,
    answering: FloatArray,
    placing: Placing,
) -> Amounts:
    """Return all parts if the kernel counted how long backends were on a core or waited for one.

    Backends are runnable in four situations: without a wait event (`bare`), while they answer,
    with a statement in their socket, and inside wait events. The kernel's count is divided among
    these in this order. The parts of wait events already contain the fourth. Backends are on a core
    while they copy pages. At the end of another wait event they may have to wait for a core. The
    rest of the count was outside of state active, up to the latency.
    """
    cpu, queue = facts.each(facts.backends.cpu_ns), facts.each(facts.backends.runqueue_ns)
    assert cpu is not None
    assert queue is not None
    slices, exchanges = facts.each(facts.backends.slice_count), facts.engine.round_trip_count
    copying = _sum_of(by_event, bare, is_copying=True)
    waiting = _sum_of(by_event, bare, is_copying=False)
    left = _Left(np.full_like(bare, cpu + queue))
    at_work = left.take(bare)
    outside = _Left(_outside_max(facts, bare + copying + waiting))
    answering = outside.take(left.take(np.minimum(answering, outside.ns)))
    # Assumption: all time slices waited equally long for a core. Each exchange begins with one.
    before = queue * min(1.0, exchanges / slices) if slices and exchanges else 0.0
    waking = left.take(np.minimum(before, outside.ns))
    in_copies = left.take(copying)
    at_ends = left.take(np.minimum(waiting, queue - waking))
    if placing == "likely":
        room = facts.latency.value - made.total() - bare - answering - waking
        answering = answering + left.take(np.maximum(room, 0.0))
    in_waits = left.take(waiting - at_ends if placing != "most" else 0.0)
    answering = answering + left.ns
    # Waits for a core in the middle of work are spread evenly over the work.
    work = at_work + answering + in_copies + in_waits
    queued = np.where(work > 0, (queue - waking - at_ends) / np.where(work > 0, work, 1.0), 0.0)
    inside = in_copies + in_waits
    on_core = (at_work + answering) * (1 - queued)
    without_core = waking + (at_work + answering) * queued
    total = made.total() + on_core + without_core + bare - at_work
    after_max = np.minimum(
        _after_max(facts, answering * (1 - queued)),
        _outside_max(facts, bare + copying + waiting),
    )
    after = np.clip(total - facts.latency.value, 0.0, after_max)
    if placing != "likely":
        after = after_max if placing == "least" else np.zeros_like(after_max)
    made.add(CPU, "server", on_core - after, "counted")
    made.add(WAITING_FOR_A_CORE, "server", without_core, "counted")
    _add_uninstrumented(made, facts, bare - at_work, "by difference")
    return made.amounts(at_ends + inside * queued, inside * (1 - queued), after)


def _add_uninstrumented(made: _Parts, facts: TransactionFacts, bare: FloatArray, how: How) -> None:
    """Add the time without a wait event that nothing explains here; other nodes may explain it."""
    others_ms = facts.each(facts.server.other_nodes_ms)
    if others_ms is None:
        made.add(NOT_INSTRUMENTED, "server", bare, how)
        return
    elsewhere = np.minimum(bare, others_ms * 1e6)
    made.add(OTHER_NODES, "server", elsewhere, "counted")
    made.add(BETWEEN_NODES, "server", bare - elsewhere, "by difference")


def _outside_max(facts: TransactionFacts, in_server: FloatArray) -> FloatArray:
    """Return the longest time of a session outside state active: the rest of its clients' time.

    If clients do not start the next transaction at once, this time is not known.
    """
    if facts.engine.between_ns is None:
        return np.full_like(in_server, np.inf)
    whole = facts.latency.value + facts.engine.between_ns
    known = (
        (facts.engine.sleep_ns or 0.0)
        + (facts.engine.shell_ns or 0.0)
        + (facts.engine.connection_wait_ns or 0.0)
    )
    return np.asarray(np.maximum(whole - known - in_server, 0.0))


class _Left:
    """An amount by row, from which parts are taken until nothing is left."""

    def __init__(self, ns: FloatArray) -> None:
        self.ns = ns

    def take(self, wanted_ns: FloatArray | float) -> FloatArray:
        """Return the wanted amount, or the rest if less is left, and subtract it."""
        taken: FloatArray = np.minimum(self.ns, wanted_ns)
        self.ns = self.ns - taken
        return taken


def _sum_of(by_event: dict[str, FloatArray], like: FloatArray, *, is_copying: bool) -> FloatArray:
    kept = [ns for event, ns in by_event.items() if (event.casefold() in COPYING) == is_copying]
    return np.asarray(np.sum([np.zeros_like(like), *kept], axis=0))


def _after_max(facts: TransactionFacts, answering_cpu: FloatArray) -> FloatArray:
    """Return the largest CPU time after the answer: at most the time to the next statement."""
    if facts.engine.between_ns is None:
        return answering_cpu
    trips = (facts.engine.round_trip_count or 0.0) * (facts.exchange.ns or 0.0)
    until = (
        facts.engine.between_ns
        + trips
        + (facts.engine.cpu_ns or 0.0)
        + (facts.engine.reply_wait_ns or 0.0)
    )
    return np.minimum(answering_cpu, until)


def _network(facts: TransactionFacts, answering: FloatArray) -> FloatArray | None:
    """Return the time of the exchanges without the work of client and server.

    Other parts contain this work and its waits for a core. If the kernel did not count these, their
    CPU time is subtracted. If the client's CPU time within an exchange was not measured, all of its
    CPU time is taken, because most of it is system calls.
    """
    if facts.engine.round_trip_count is None or facts.exchange.ns is None:
        return None
    whole = facts.engine.round_trip_count * facts.exchange.ns
    if facts.exchange.runnable_ns is not None:
        runnable = facts.engine.round_trip_count * facts.exchange.runnable_ns
        return np.full_like(answering, max(whole - runnable, 0.0))
    inside = facts.exchange.client_cpu_ns
    client = min(facts.engine.cpu_ns or 0.0, whole)
    if inside is not None:
        client = facts.engine.round_trip_count * inside
    cpu, queue = facts.backends.cpu_ns, facts.backends.runqueue_ns
    on_core_ratio = cpu / (cpu + queue) if cpu and queue is not None else 1.0
    return np.asarray(np.maximum(whole - client - answering * on_core_ratio, 0.0))
