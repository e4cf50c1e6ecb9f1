"""From what was measured of a run to the amounts of the parts, in ns a transaction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgdyno.analysis.arrays import FloatArray
from pgdyno.analysis.where_facts import (
    ANSWERING,
    CLIENT,
    CONNECTION_WAIT,
    CPU,
    NETWORK,
    NOT_INSTRUMENTED,
    POOLER_WAIT,
    REPLY_WAIT,
    SCHEDULE_LAG,
    SERVER,
    WAITING_FOR_A_CORE,
    Side,
    TransactionFacts,
)
from pgdyno.analysis.where_sampled import Sampled, is_active


@dataclass(frozen=True, slots=True, eq=False)
class Amounts:
    """Parts in ns a transaction: `ns` has shape (rows, parts).

    `runqueue_inside_events_ns`, shape (rows,): time runnable without a core that lies inside wait
    events, at whose ends sessions wait for one, and is counted there. `after_answer_ns`, shape
    (rows,): CPU of backends while the client was at work with the answer already, and in no part.
    """

    parts: tuple[tuple[str, Side], ...]
    ns: FloatArray
    runqueue_inside_events_ns: FloatArray | None
    after_answer_ns: FloatArray


def amounts(
    facts: TransactionFacts,
    found: Sampled,
    sessions: FloatArray,
    exact_ns: float | None,
    *,
    missed_ns: float = 0.0,
) -> Amounts:
    """Return the parts for every row of `sessions`, shape (rows, events), mean sessions.

    Args: exact_ns, the server's own count of its time a transaction, which samples only split.
    missed_ns, time without wait event that was there beside what was sampled; below 0, was not.
    """
    rows = sessions.shape[0]
    each_ns = sessions * (facts.window_seconds * 1e9 / facts.server_transaction_count)
    if exact_ns is not None and found.events:
        # What is no active time of the server is not in its count either.
        active = is_active(found.events)
        total = each_ns[:, active].sum(axis=1, keepdims=True)
        each_ns[:, active] *= exact_ns / np.where(total > 0, total, exact_ns or 1.0)
    by_event = dict(zip(found.events, each_ns.T, strict=True))
    bare = by_event.pop("", np.zeros(rows))
    answering = by_event.pop(ANSWERING, np.zeros(rows))
    parts: dict[tuple[str, Side], FloatArray] = {(e, "server"): ns for e, ns in by_event.items()}
    network = _network(facts, answering)
    outside: tuple[tuple[str, Side, FloatArray | float | None], ...] = (
        (NETWORK, "network", network),
        (CLIENT, "client", facts.client_cpu_ns),
        (REPLY_WAIT, "client", facts.reply_wait_ns),
        (SCHEDULE_LAG, "schedule", facts.schedule_lag_ns),
        (CONNECTION_WAIT, "schedule", facts.connection_wait_ns),
        (POOLER_WAIT, "schedule", facts.each(facts.pooler_wait_ns)),
    )
    for name, side, ns in outside:
        if ns is not None:
            parts[name, side] = np.broadcast_to(ns, (rows,))
    inside, after = None, np.zeros(rows)
    if not found.events:
        if exact_ns is not None:
            parts[SERVER, "server"] = np.full(rows, exact_ns)
    elif facts.backend_cpu_ns is None or facts.backend_runqueue_ns is None:
        parts[NOT_INSTRUMENTED, "server"] = np.maximum(bare + answering + missed_ns, 0.0)
    else:
        on_core, waiting, rest, inside = _runnable(facts, bare + answering + missed_ns)
        excess = sum(parts.values()) + on_core + waiting + rest - facts.latency.value
        # In state active nobody has the answer yet.
        after = np.clip(excess, 0.0, np.maximum(on_core - bare, 0.0))
        parts[CPU, "server"] = on_core - after
        parts[WAITING_FOR_A_CORE, "server"] = waiting
        parts[NOT_INSTRUMENTED, "server"] = rest
    return Amounts(tuple(parts), np.stack(list(parts.values()), axis=1), inside, after)


def _runnable(
    facts: TransactionFacts, without_event: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return CPU, waiting for a core, not instrumented, and waiting inside wait events.

    A session is runnable while it has no wait event, which is sampled; while its next statement
    lies in its socket and it has no core yet, when it still seems to wait for its client; and at
    the end of every other wait, which its wait event still covers. Of the second, there is one for
    each exchange, and every time on a core is taken to have been waited for equally long, but it
    is no more than the first leaves of what the kernel counted. The third is what is left then.
    Of the first there may be less than time on a core, for some of that is within wait events,
    too: at the begin and the end of each, and whenever one does anything but wait.
    """
    cpu, queue = facts.each(facts.backend_cpu_ns), facts.each(facts.backend_runqueue_ns)
    assert cpu is not None
    assert queue is not None
    slices, exchanges = facts.each(facts.backend_slice_count), facts.round_trip_count
    before = queue * min(1.0, exchanges / slices) if slices and exchanges else 0.0
    sampled = np.maximum(without_event - cpu, 0.0)
    waiting = np.minimum(sampled + before, queue)
    rest = np.maximum(sampled - queue, 0.0)
    return np.full_like(without_event, cpu), waiting, rest, queue - waiting


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
    client = min(
        facts.client_cpu_ns or 0.0, whole if inside is None else facts.round_trip_count * inside
    )
    cpu, queue = facts.backend_cpu_ns, facts.backend_runqueue_ns
    on_core_ratio = cpu / (cpu + queue) if cpu and queue is not None else 1.0
    return np.asarray(np.maximum(whole - client - answering * on_core_ratio, 0.0))
