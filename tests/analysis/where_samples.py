"""Transactions and samples of their server, with known shares."""

from __future__ import annotations

import numpy as np

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.where_facts import (
    BackendTimes,
    EngineTimes,
    Exchange,
    ServerCounts,
    TransactionFacts,
    WaitSamples,
)

MS = 1_000_000
LATENCY = Estimate(10.0 * MS, 9.5 * MS, 10.5 * MS, 30, "ns", "within_run")


def samples(counts: dict[str, float], *, instants: int = 600, seed: int = 1) -> WaitSamples:
    """At each instant a Poisson number of sessions in each event, with this mean."""
    rng = np.random.default_rng(seed)
    at = np.arange(instants) * 100 * MS
    times, events, sessions = [], [], []
    for event, mean in counts.items():
        drawn = rng.poisson(mean, instants)
        times += list(at[drawn > 0])
        events += [event] * int((drawn > 0).sum())
        sessions += list(drawn[drawn > 0])
    return WaitSamples(at, np.array(times), events, np.array(sessions))


def exact(counts: dict[str, int], instants: int = 100) -> WaitSamples:
    """The same number of sessions at every instant: shares without noise."""
    at = np.arange(instants) * 100 * MS
    return WaitSamples(
        at,
        np.repeat(at, len(counts)),
        list(counts) * instants,
        np.tile(list(counts.values()), instants),
    )


# 6,000 transactions in 60 s; 48 s active: 8 ms each; three quarters of it in WALSync.
FACTS = {
    "latency": LATENCY,
    "window_seconds": 60.0,
    "transaction_count": 6000,
    "server_active_ms": 48_000.0,
}


# A latency that is long enough for all parts that a test counts.
ROOM = {"latency": LATENCY.scaled(10, "ns")}


GROUPS = {
    "server": ServerCounts,
    "backends": BackendTimes,
    "engine": EngineTimes,
    "exchange": Exchange,
}


def facts(**changed: object) -> TransactionFacts:
    """Facts from `FACTS` and these; a name such as engine_cpu_ns is the field of a group."""
    values = {**FACTS, **changed}
    for name, group in GROUPS.items():
        fields = [field for field in values if field.startswith(f"{name}_")]
        inner = {field.removeprefix(f"{name}_"): values.pop(field) for field in fields}
        values[name] = group(**inner)  # type: ignore[arg-type]
    return TransactionFacts(**values)  # type: ignore[arg-type]
