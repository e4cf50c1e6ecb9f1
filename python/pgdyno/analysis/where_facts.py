"""The measured facts about a run's transactions, and the names of the parts of their time."""

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
# Only in samples: a session that is not active and has no wait event. It sends an answer, or has
# just received a statement.
ANSWERING = "answering"

# In these wait events a backend mostly copies pages between its memory and the page cache. So it is
# on a core and does not sleep.
COPYING = frozenset(
    f"io:{name}"
    for name in ("datafileread", "datafilewrite", "datafileextend", "buffileread", "buffilewrite")
)

Side = Literal["server", "network", "client", "schedule"]
# How a part was made. "counted": by a clock of the server, the kernel or the engine.
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
    """The wait events of the load's sessions at many instants of the measured phase.

    Each row (time_ns, event, session_count) is a group of pg_stat_activity. `event` of a session in
    state `active`: "Type:Event", or "" without a wait event. `event` of other sessions without a
    wait event: ANSWERING. No row has a session that waits for its client (Client:ClientRead).
    `query_id` of each row: 0 = not known. `sampled_at_ns`: every instant, including those without
    an active session. `session_count` may be a fraction if only a share of a session counts.
    """

    sampled_at_ns: IntArray
    time_ns: IntArray
    event: Sequence[str]
    session_count: IntArray | FloatArray
    query_id: IntArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFacts:
    """The facts about the transactions of one run; None if a fact was not measured.

    Totals over the measured phase: server_active_ms (growth of pg_stat_database.active_time, 14+),
    server_transaction_count (number of script transactions in these totals), backend_cpu_ns,
    backend_runqueue_ns and backend_slice_count (schedstat of the load's backends, same host only:
    time on a core, time runnable without a core, number of time slices), pooler_wait_ns (wait of
    clients for a session of a pooler, from the pooler's console).
    Per transaction: latency (mean, unit "ns"), round_trip_count, client_cpu_ns, reply_wait_ns
    (replies that waited for the load engine's thread), schedule_lag_ns and connection_wait_ns (part
    of the latency in an open loop).
    round_trip_ns: one exchange without work for the server (a bare Sync) on an idle connection.
    round_trip_client_cpu_ns: CPU time of the client in this exchange. round_trip_runnable_ns: time
    in this exchange in which client or backend was on a core or waited for one (same host only).
    round_trip_error_ns: half-width of the interval of the network's time in an exchange; None
    if exchanges were measured on an idle connection before the load.
    core_count: cores of the host on which these times were counted.
    others_ratio: share of the server's active sessions that were not the load's.
    server_active_error_ms: half-width of the interval of server_active_ms, if time of other
    sessions was subtracted. counted_events: wait events that the server's clocks counted.
    sleep_ns, shell_ns: \\sleep and \\shell of a transaction. between_ns: from the end of a
    transaction to the start of its client's next transaction (closed loop). samples_with_priority:
    the sampler had priority over all other processes, so it could see sessions on every core.
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
        """Return a total of the measured phase, divided by the number of transactions."""
        return None if total is None else total / self.server_transaction_count
