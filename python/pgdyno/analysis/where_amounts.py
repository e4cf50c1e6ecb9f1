"""From what was measured of a run to the amounts of the parts, in ns a transaction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.where_facts import (
    ANSWERING,
    CLIENT,
    CONNECTION_WAIT,
    COPYING,
    CPU,
    NETWORK,
    NOT_INSTRUMENTED,
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


@dataclass(frozen=True, slots=True, eq=False)
class Amounts:
    """Parts in ns a transaction: `ns` has shape (rows, parts); `how` each part was made.

    Of shape (rows,), counted in no part by themselves: `queue_inside_ns` and `cpu_inside_ns`, time
    waiting for a core and on one that lies inside wait events, whose parts have it;
    `after_answer_ns`, CPU of backends while the client was at work with the answer already.
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
) -> Amounts:
    """Return the parts for every row of `sessions`, shape (rows, events), mean sessions.

    Args: exact_ns, shape (rows,), the server's own count of its time a transaction, which samples
    only split. missed_ns, time without wait event in addition to the samples; below 0,
    was not.
    """
    rows = sessions.shape[0]
    each_ns = sessions * (facts.window_seconds * 1e9 / facts.server_transaction_count)
    answering = np.zeros(rows)
    if ANSWERING in samples.events:
        answering = each_ns[:, samples.events.index(ANSWERING)]
    by_event, bare = _in_server(facts, samples, each_ns, exact_ns)
    bare = np.maximum(bare + missed_ns, 0.0)
    made = _Parts(rows)
    bound = {event for counted in facts.counted_events for event in counted.events}
    for event, ns in by_event.items():
        made.add(event, "server", ns, "counted" if event in bound else "sampled")
    _outside(made, facts, answering)
    if not samples.events:
        if exact_ns is not None:
            made.add(SERVER, "server", exact_ns, "counted")
        return made.amounts()
    if facts.backend_cpu_ns is None or facts.backend_runqueue_ns is None:
        how: How = "sampled" if exact_ns is None else "by difference"
        made.add(NOT_INSTRUMENTED, "server", bare + answering, how)
        return made.amounts()
    return _with_cores(made, facts, by_event, bare, answering)


class _Parts:
    """Collects parts; those that were not measured are left out."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._found: list[tuple[str, Side, FloatArray, How]] = []

    def add(self, name: str, side: Side, ns: FloatArray | float | None, how: How) -> None:
        """Add a part, None if it was not measured."""
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
    """Return the time in each wait event, and without one, of the server's time of a transaction.

    Where a clock of the server counted some events, their time is that, and samples only divide it
    among them. What the count of the whole leaves is divided by the samples of the others.
    """
    rows = each_ns.shape[0]
    places = [i for i, active in enumerate(is_active(samples.events)) if active]
    by_event = {samples.events[i]: each_ns[:, i].copy() for i in places}
    bound_ns = np.zeros(rows)
    bound: set[str] = set()
    for counted in facts.counted_events:
        per_transaction_ns = facts.each(counted.total_ns) or 0.0
        here = [event for event in counted.events if event in by_event] or [counted.events[0]]
        sampled = np.array([by_event.get(event, np.zeros(rows)) for event in here])
        total = sampled.sum(axis=0)
        share = np.where(total > 0, sampled / np.where(total > 0, total, 1.0), 1.0 / len(here))
        by_event |= dict(zip(here, share * per_transaction_ns, strict=True))
        bound |= set(here)
        bound_ns = bound_ns + per_transaction_ns
    free = [event for event in by_event if event not in bound]
    if exact_ns is not None:
        total = np.sum([by_event[event] for event in free] or [np.zeros(rows)], axis=0)
        left_ns = np.maximum(exact_ns - bound_ns, 0.0)
        if not free and samples.events:
            by_event[""] = left_ns
        for event in free:
            by_event[event] = by_event[event] * left_ns / np.where(total > 0, total, 1.0)
    return {e: ns for e, ns in by_event.items() if e}, by_event.get("", np.zeros(rows))


def _outside(made: _Parts, facts: TransactionFacts, answering: FloatArray) -> None:
    """Add what is not the server's time."""
    made.add(NETWORK, "network", _network(facts, answering), "sampled")
    made.add(CLIENT, "client", facts.client_cpu_ns, "counted")
    made.add(SLEEP, "client", facts.sleep_ns, "counted")
    made.add(SHELL, "client", facts.shell_ns, "counted")
    made.add(REPLY_WAIT, "client", facts.reply_wait_ns, "sampled")
    made.add(SCHEDULE_LAG, "schedule", facts.schedule_lag_ns, "counted")
    made.add(CONNECTION_WAIT, "schedule", facts.connection_wait_ns, "counted")
    made.add(POOLER_WAIT, "schedule", facts.each(facts.pooler_wait_ns), "counted")


def _with_cores(
    made: _Parts,
    facts: TransactionFacts,
    by_event: dict[str, FloatArray],
    bare: FloatArray,
    answering: FloatArray,
) -> Amounts:
    """Return all parts, where the kernel counted how long backends were on a core or waited.

    The kernel's count is divided over where backends were runnable: without a wait event
    (`bare`), while they answered, with a statement in their socket, and inside wait events. The
    last is what the first three leave of it, and lies in the parts of these events already.
    Backends are on a core while they copy pages; at the end of another wait they may have to wait
    for one. Whatever finds no room there was outside of state active, as far as the latency has
    room for it.
    """
    cpu, queue = facts.each(facts.backend_cpu_ns), facts.each(facts.backend_runqueue_ns)
    assert cpu is not None
    assert queue is not None
    slices, exchanges = facts.each(facts.backend_slice_count), facts.round_trip_count
    copying = _sum_of(by_event, bare, is_copying=True)
    waiting = _sum_of(by_event, bare, is_copying=False)
    left = _Left(np.full_like(bare, cpu + queue))
    at_work = left.take(bare)
    outside = _Left(_outside_max(facts, bare + copying + waiting))
    answering = outside.take(left.take(np.minimum(answering, outside.ns)))
    # Every time on a core is taken to have been waited for equally long: one for each exchange.
    before = queue * min(1.0, exchanges / slices) if slices and exchanges else 0.0
    waking = left.take(np.minimum(before, outside.ns))
    in_copies = left.take(copying)
    at_ends = left.take(np.minimum(waiting, queue - waking))
    room = facts.latency.value - made.total() - bare - answering - waking
    answering = answering + left.take(np.maximum(room, 0.0))
    in_waits = left.take(waiting - at_ends)
    answering = answering + left.ns
    # Waits in the middle of work are spread evenly over it.
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
    made.add(CPU, "server", on_core - after, "counted")
    made.add(WAITING_FOR_A_CORE, "server", without_core, "counted")
    made.add(NOT_INSTRUMENTED, "server", bare - at_work, "by difference")
    return made.amounts(at_ends + inside * queued, inside * (1 - queued), after)


def _outside_max(facts: TransactionFacts, in_server: FloatArray) -> FloatArray:
    """Return how long a session can have been outside state active: the rest of its clients' time.

    Where clients do not go from one transaction to the next at once, this is not known.
    """
    if facts.between_ns is None:
        return np.full_like(in_server, np.inf)
    whole = facts.latency.value + facts.between_ns
    known = (facts.sleep_ns or 0.0) + (facts.shell_ns or 0.0) + (facts.connection_wait_ns or 0.0)
    return np.asarray(np.maximum(whole - known - in_server, 0.0))


class _Left:
    """What is left of an amount as others take theirs, by row."""

    def __init__(self, ns: FloatArray) -> None:
        self.ns = ns

    def take(self, wanted_ns: FloatArray | float) -> FloatArray:
        """Take as much as is wanted and left."""
        taken: FloatArray = np.minimum(self.ns, wanted_ns)
        self.ns = self.ns - taken
        return taken


def _sum_of(by_event: dict[str, FloatArray], like: FloatArray, *, is_copying: bool) -> FloatArray:
    kept = [ns for event, ns in by_event.items() if (event.casefold() in COPYING) == is_copying]
    return np.asarray(np.sum([np.zeros_like(like), *kept], axis=0))


def _after_max(facts: TransactionFacts, answering_cpu: FloatArray) -> FloatArray:
    """Return how much CPU can lie after the answer: no more than until the next statement came."""
    if facts.between_ns is None:
        return answering_cpu
    trips = (facts.round_trip_count or 0.0) * (facts.round_trip_ns or 0.0)
    until = facts.between_ns + trips + (facts.client_cpu_ns or 0.0) + (facts.reply_wait_ns or 0.0)
    return np.minimum(answering_cpu, until)


def _network(facts: TransactionFacts, answering: FloatArray) -> FloatArray | None:
    """Return the exchanges without what client and server are at work for them.

    Both are counted elsewhere, and so are waits for a core. Where the kernel does not tell, it is
    their CPU; how much of the client's lies within an exchange may not have been measured: then
    all of it is taken to, as system calls.
    """
    if facts.round_trip_count is None or facts.round_trip_ns is None:
        return None
    whole = facts.round_trip_count * facts.round_trip_ns
    if facts.round_trip_runnable_ns is not None:
        runnable = facts.round_trip_count * facts.round_trip_runnable_ns
        return np.full_like(answering, max(whole - runnable, 0.0))
    inside = facts.round_trip_client_cpu_ns
    client = min(facts.client_cpu_ns or 0.0, whole)
    if inside is not None:
        client = facts.round_trip_count * inside
    cpu, queue = facts.backend_cpu_ns, facts.backend_runqueue_ns
    on_core_ratio = cpu / (cpu + queue) if cpu and queue is not None else 1.0
    return np.asarray(np.maximum(whole - client - answering * on_core_ratio, 0.0))
