"""From one stored run to what designs decide by: one number a metric."""

from __future__ import annotations

import math
from collections.abc import Callable

from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.loop.spans import deltas_of, grown
from pgdyno.observe.processes.backends import LOAD, BackendsCollector
from pgdyno.store.stored_run import StoredRun

UNITS = {
    "tps": "tps",
    "p50": "ms",
    "p99": "ms",
    "mean": "ms",
    "cpu_per_tx": "ms",
    "wal_per_tx": "B",
    "duration": "s",
}


def metrics_of(stored: StoredRun, numbers: LoadNumbers) -> dict[str, float]:
    """Return every metric that this run measured, in its unit of `UNITS`, above 0 and finite."""
    makers: dict[str, Callable[[], float | None]] = {
        "tps": lambda: numbers.tps.value,
        "p50": lambda: numbers.latency.percentiles["p50"].value,
        "p99": lambda: numbers.latency.percentiles["p99"].value,
        "mean": lambda: numbers.latency.mean.value,
        "cpu_per_tx": lambda: _cpu_per_tx(stored, numbers),
        "wal_per_tx": lambda: _wal_per_tx(stored, numbers),
        "duration": lambda: numbers.latency.mean.value / 1000,
    }
    assert makers.keys() == UNITS.keys()
    found = {name: maker() for name, maker in makers.items()}
    return {
        name: value
        for name, value in found.items()
        if value is not None and math.isfinite(value) and value > 0
    }


def _cpu_per_tx(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    """Return CPU of the load's backends a transaction in ms; None on another host."""
    backends = deltas_of(stored, "backends", BackendsCollector.columns, LOAD)
    spent_ns = grown(backends, "run_ns", *numbers.span_ns)
    if spent_ns is None or numbers.counts.completed == 0:
        return None
    return spent_ns / numbers.counts.completed / 1e6


def _wal_per_tx(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    """Return WAL a transaction in bytes, over the whole load: its totals are exact."""
    totals = (stored.document("server.json") or {}).get("totals") or {}
    written = totals.get("wal.bytes")
    transactions = numbers.summary.transactions_committed_all_phases
    return written / transactions if written and transactions else None
