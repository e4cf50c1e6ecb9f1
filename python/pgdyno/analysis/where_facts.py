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
# Only of a distributed server. A session of the coordinator waits without a wait event while other
# nodes work for it: their work was counted, and the rest of this time is the way between the nodes.
OTHER_NODES = "other nodes"
BETWEEN_NODES = "between nodes, or not instrumented"
WITHOUT_EVENT = (CPU, WAITING_FOR_A_CORE, OTHER_NODES, BETWEEN_NODES, NOT_INSTRUMENTED)
"""The parts of a session's time in state active without a wait event."""
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
    `with_priority`: the sampler had priority over all other processes, so it could see sessions on
    every core.
    """

    sampled_at_ns: IntArray
    time_ns: IntArray
    event: Sequence[str]
    session_count: IntArray | FloatArray
    query_id: IntArray | None = None
    with_priority: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCounts:
    """What the server's own counters say, over the measured phase.

    active_ms: growth of pg_stat_database.active_time (14+). active_error_ms: half-width of its
    interval, if time of other sessions was subtracted. events: wait events that the server's clocks
    counted. others_ratio: share of the server's active sessions that were not the load's.
    other_nodes_ms: growth of active_time on all other nodes of a distributed server; None if the
    server has none. Nodes that work at the same time for one statement count twice.
    """

    active_ms: float | None = None
    active_error_ms: float = 0.0
    events: tuple[CountedEvents, ...] = ()
    others_ratio: float | None = None
    other_nodes_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendTimes:
    """What the kernel counted of the load's backends (schedstat), over the measured phase.

    Only on the same host: time on a core, time runnable without a core, number of time slices.
    core_count: cores of the host.
    """

    cpu_ns: float | None = None
    runqueue_ns: float | None = None
    slice_count: float | None = None
    core_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTimes:
    """What the load engine counted, per transaction.

    reply_wait_ns: replies waited for the engine's thread. schedule_lag_ns and connection_wait_ns:
    part of the latency in an open loop. sleep_ns, shell_ns: \\sleep and \\shell of the script.
    between_ns: from the end of a transaction to the start of its client's next transaction (closed
    loop).
    """

    round_trip_count: float | None = None
    cpu_ns: float | None = None
    reply_wait_ns: float | None = None
    schedule_lag_ns: float | None = None
    connection_wait_ns: float | None = None
    sleep_ns: float | None = None
    shell_ns: float | None = None
    between_ns: float | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange without work for the server: a bare Sync.

    runnable_ns: time in which client or backend was on a core or waited for one (same host only).
    client_cpu_ns: CPU time of the client. error_ns: half-width of the interval of the network's
    time; None if exchanges were measured on an idle connection before the load.
    """

    ns: float | None = None
    runnable_ns: float | None = None
    client_cpu_ns: float | None = None
    error_ns: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFacts:
    """The facts about the transactions of one run; None if a fact was not measured.

    latency: mean, unit "ns". transaction_count: number of script transactions in the totals of the
    server, its backends and the pooler. pooler_wait_ns: wait of clients for a session of a pooler,
    from the pooler's console, over the measured phase.
    """

    latency: Estimate
    window_seconds: float
    transaction_count: int
    samples: WaitSamples | None = None
    server: ServerCounts = ServerCounts()
    backends: BackendTimes = BackendTimes()
    engine: EngineTimes = EngineTimes()
    exchange: Exchange = Exchange()
    pooler_wait_ns: float | None = None

    def each(self, total: float | None) -> float | None:
        """Return a total of the measured phase, divided by the number of transactions."""
        return None if total is None else total / self.transaction_count
