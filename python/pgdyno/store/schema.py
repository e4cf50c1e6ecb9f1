"""Every column of every table in the store: name, type, unit, meaning.

The tables of the engine are declared here. Collectors (`observe`) declare their own tables, so each
column is described once. The Parquet files have the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pgdyno.observe.catalogue import collector_named, every_collector
from pgdyno.observe.collector import INTERVAL_NS, TIME_NS, Collector, Column


@dataclass(frozen=True, slots=True)
class Table:
    """One kind of rows. `path` is the file in the folder of a run, without suffix."""

    name: str
    path: str
    meaning: str
    columns: tuple[Column, ...]


_PHASE = Column("phase", "text", "name", "phase of the run the rows belong to")

_COUNTS: tuple[tuple[str, str], ...] = (
    ("scheduled", "due transactions; = started + skipped + not_started"),
    ("started", "started transactions; = completed + failed + unfinished"),
    ("completed", "committed transactions"),
    ("failed", "transactions that ended with an error after all tries"),
    ("skipped", "transactions not started because they were late by more than the latency limit"),
    ("not_started", "due transactions not started when scheduling ended"),
    ("unfinished", "transactions started and not ended"),
    ("late", "completed transactions above the latency limit"),
    ("retried", "completed transactions with more than one try"),
    ("retries", "tries after the first, of all transactions"),
)
COUNT_NAMES = tuple(name for name, _ in _COUNTS)

INTERVALS = Table(
    "intervals",
    "intervals",
    "Load in each interval, over all threads of the engine",
    (
        Column("time_ns", "int64", "ns", "Unix time of the end of the interval"),
        Column("interval_ns", "int64", "ns", "length of the interval"),
        _PHASE,
        *(Column(name, "int64", "transactions", meaning) for name, meaning in _COUNTS),
        Column(
            "completed_by_script",
            "int64[]",
            "transactions",
            "completed transactions of each script in order",
        ),
        Column("latency_sum_ns", "int64", "ns", "sum of the latencies of completed transactions"),
        Column("in_flight", "int64", "transactions", "started and not ended, at the end"),
        Column("backlog", "int64", "transactions", "due and not started, at the end (open loop)"),
        Column("connections", "int64", "connections", "open connections, at the end"),
        Column("cpu_ns", "int64", "ns", "CPU time of the engine, user and system"),
    ),
)

HISTOGRAMS = Table(
    "histograms",
    "histograms",
    "Distributions of durations in each interval; buckets by the formula of the contract",
    (
        Column("time_ns", "int64", "ns", "Unix time of the end of the interval"),
        Column("interval_ns", "int64", "ns", "length of the interval"),
        _PHASE,
        Column(
            "measured", "text", "name", "kind of duration: latency, service, lag, statement, ..."
        ),
        Column("script", "int64", "index", "script in the order of the job; -1 = all scripts"),
        Column("statement", "int64", "index", "statement of the script; -1 = whole transaction"),
        Column("count", "int64", "values", "number of durations"),
        Column("sum_ns", "int64", "ns", "sum of the durations"),
        Column("min_ns", "int64", "ns", "shortest duration"),
        Column("max_ns", "int64", "ns", "longest duration"),
        # Older results have 64 bits. 32 halve most of what the report of a long run reads.
        Column("buckets", "int32[]", "index", "buckets with at least one value, ascending"),
        Column("counts", "int32[]", "values", "values in each of these buckets"),
    ),
)


_OF_ENGINE = {table.name: table for table in (INTERVALS, HISTOGRAMS)}


@cache
def tables() -> Mapping[str, Table]:
    """Return name -> table: the tables of the engine, then one for each collector."""
    return _OF_ENGINE | {name: _of(made) for name, made in every_collector().items()}


def _of(collector: type[Collector]) -> Table:
    name = collector.name
    path = "waits" if name == "waits" else f"telemetry/{name}"
    return Table(name, path, collector.meaning, (TIME_NS, INTERVAL_NS, *collector.columns))


@cache
def table(name: str) -> Table:
    """Return the table of this name. Raises: AssertionError for an unknown name."""
    if name in _OF_ENGINE:
        return _OF_ENGINE[name]
    try:
        return _of(collector_named(name))
    except KeyError:
        raise AssertionError(f"no table {name!r} in store/schema.py") from None
