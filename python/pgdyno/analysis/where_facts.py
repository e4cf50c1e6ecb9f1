"""What was measured of a run's transactions, and the names of the parts of their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pgdyno.analysis.arrays import FloatArray, IntArray
from pgdyno.analysis.estimate import Estimate

CPU = "CPU"
WAITING_FOR_A_CORE = "waiting for a core"
NOT_INSTRUMENTED = "CPU or not instrumented"
SERVER = "server"
NETWORK = "network"
CLIENT = "client"
REPLY_WAIT = "waiting for the load engine"
SCHEDULE_LAG = "schedule lag"
CONNECTION_WAIT = "wait for a connection"
POOLER_WAIT = "wait for a pooled session"
SLEEP = "\\sleep of the script"
SHELL = "\\shell of the script"
# In the samples alone: a session that is not active and waits for nothing. It sends an answer, or
# has just been given a statement.
ANSWERING = "answering"

# Wait events in which a backend mostly copies pages between its memory and the page cache: on a
# core rather than asleep.
COPYING = frozenset(
    f"io:{name}"
    for name in ("datafileread", "datafilewrite", "datafileextend", "buffileread", "buffilewrite")
)

Side = Literal["server", "network", "client", "schedule"]
# How a part was made. Counted: a clock of the server, the kernel or the engine ran all the time.
How = Literal["counted", "sampled", "by difference"]


@dataclass(frozen=True, slots=True)
class CountedEvents:
    """Time that the server's own clock counted in some wait events, over the measured phase.

    `error_ns` is the half-width of its 95 % interval: above 0 if foreign time was subtracted.
    """

    events: tuple[str, ...]
    total_ns: float
    error_ns: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class WaitSamples:
    """What our own sessions waited for, at many instants of the measured phase.

    Rows (time_ns, event, session_count) as grouped from pg_stat_activity; `event` is "Type:Event",
    or "" without a wait event, of sessions in state `active`; ANSWERING of others that have no wait
    event. A session that waits for its client (Client:ClientRead) is in none. `query_id` of each
    row, 0 = not known. `sampled_at_ns` lists every instant, those with no active session too.
    `session_count` is not whole where sessions count in part.
    """

    sampled_at_ns: IntArray
    time_ns: IntArray
    event: Sequence[str]
    session_count: IntArray | FloatArray
    query_id: IntArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFacts:
    """What was measured of the transactions of one run; None where something was not measured.

    Totals over the measured phase: server_active_ms (delta of pg_stat_database.active_time, 14+),
    server_transaction_count (how many transactions of the scripts these totals are of),
    backend_cpu_ns, backend_runqueue_ns and backend_slice_count (schedstat of our backends, same
    host only: on a core, runnable without one, how often given one), pooler_wait_ns (clients that
    waited at a pooler for one of its sessions, as its console counts it).
    Per transaction: latency (mean, unit "ns"), round_trip_count, client_cpu_ns, reply_wait_ns
    (replies that waited for the load engine's thread), schedule_lag_ns and connection_wait_ns (part
    of the latency in an open loop).
    round_trip_ns: one exchange without work for the server (a bare Sync) on an idle connection;
    round_trip_client_cpu_ns: what of it the client was at work; round_trip_runnable_ns: what of it
    client and backend were on a core or waited for one (same host only).
    round_trip_error_ns: half-width of the interval of what the network takes of an exchange; None
    where exchanges were measured on an idle connection before the load.
    core_count: of the host, where these were counted.
    others_ratio: share of the server's active sessions that were not ours.
    server_active_error_ms: half-width of the interval of server_active_ms, where time of other
    sessions was taken off. counted_events: what the server's clocks counted in wait events.
    sleep_ns, shell_ns: a transaction's own \\sleep and \\shell. between_ns: from the end of a
    transaction to the begin of its client's next (closed loop). samples_with_priority: samples took
    a core at once, whatever ran there, so that no core was hidden from them.
    """

    latency: Estimate
    window_seconds: float
    server_transaction_count: int
    server_active_ms: float | None = None
    samples: WaitSamples | None = None
    round_trip_count: float | None = None
    round_trip_ns: float | None = None
    round_trip_client_cpu_ns: float | None = None
    round_trip_runnable_ns: float | None = None
    round_trip_error_ns: float | None = None
    client_cpu_ns: float | None = None
    reply_wait_ns: float | None = None
    schedule_lag_ns: float | None = None
    connection_wait_ns: float | None = None
    backend_cpu_ns: float | None = None
    backend_runqueue_ns: float | None = None
    backend_slice_count: float | None = None
    core_count: int | None = None
    pooler_wait_ns: float | None = None
    others_ratio: float | None = None
    server_active_error_ms: float = 0.0
    counted_events: tuple[CountedEvents, ...] = ()
    sleep_ns: float | None = None
    shell_ns: float | None = None
    between_ns: float | None = None
    samples_with_priority: bool = False

    def each(self, total: float | None) -> float | None:
        """Return a total of the measured phase as of one transaction."""
        return None if total is None else total / self.server_transaction_count
