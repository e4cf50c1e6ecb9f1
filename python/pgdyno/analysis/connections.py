"""What is known of the connections of one run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionFindings:
    """How the load was connected, and what became of it.

    `connect_ms` and `wait_ms` are "p50", "p95", "p99" and "max" of single durations: from socket to
    session, and, where clients share connections, from the start of a transaction to the
    connection it waited for (with "mean"). The longest gap is the longest time of the measured
    phase without a completed transaction, and when it began in that phase; None when it is shorter
    than one count interval, which is as fine as it is looked for.
    """

    opened_count: int
    connect_ms: dict[str, float]
    is_per_transaction: bool
    shared_count: int | None
    wait_ms: dict[str, float] | None
    idle_opened_count: int | None
    idle_alive_count: int | None
    lost_count: int
    reconnected_count: int
    commits_in_doubt_count: int
    longest_gap_ms: float | None
    longest_gap_began_s: float | None
