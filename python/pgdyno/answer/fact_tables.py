"""Makes tables from one run's telemetry: statements, tables, processes, sizes, and more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pgdyno.analysis.findings import FactTable
from pgdyno.loop.counter_growth import counters_of
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.measure.statement_texts import StatementNames
from pgdyno.observe.catalogue import columns_of
from pgdyno.quantities import percent, plain
from pgdyno.store.stored_run import StoredRun

_ROWS_MAX = 15
_OBJECTS_MAX = 60
_Grown = list[tuple[Mapping[str, str], list[float]]]
_Ends = tuple[Mapping[str, str], float, float]


def fact_tables(stored: StoredRun, numbers: LoadNumbers) -> tuple[FactTable, ...]:
    """Return the fact tables of a run that have rows."""
    makers: tuple[Callable[[StoredRun, LoadNumbers], FactTable | None], ...] = (
        _statements,
        _tables,
        _indexes,
        _functions,
        _processes,
        _log,
        _servers,
    )
    tables = [made for make in makers if (made := make(stored, numbers)) is not None]
    return (*tables, *state_tables([stored]))


def state_tables(runs: Sequence[StoredRun]) -> tuple[FactTable, ...]:
    """Return the tables of sizes before and after, of a run or of a watch's segments."""
    tables = (make(runs) for make in (_sizes, _memory, _objects))
    return tuple(table for table in tables if table is not None)


def _tables(stored: StoredRun, numbers: LoadNumbers) -> FactTable | None:
    """Return the busiest tables, their growth in the measured phase."""
    names = ("seq_scans", "index_scans", "rows_inserted", "rows_updated", "rows_hot_updated",
             "rows_deleted", "heap_blks_read", "heap_blks_hit", "vacuums")  # fmt: skip
    growths = _grown(stored, numbers, "tables", names)
    rows = [(f"{key['schema']}.{key['table']}", *map(_count, grown)) for key, grown in growths]
    columns = ("table", "seq. scans", "index scans", "inserted", "updated", "HOT", "deleted",
               "blocks read", "blocks hit", "vacuums")  # fmt: skip
    return _table("tables", "Tables", columns, rows)


def _indexes(stored: StoredRun, numbers: LoadNumbers) -> FactTable | None:
    names = ("scans", "entries_read", "rows_fetched", "blks_read", "blks_hit")
    growths = _grown(stored, numbers, "indexes", names)
    rows = [(f"{key['schema']}.{key['index']}", *map(_count, grown)) for key, grown in growths]
    columns = ("index", "scans", "entries read", "rows fetched", "blocks read", "blocks hit")
    return _table("indexes", "Indexes", columns, rows)


def _servers(_stored: StoredRun, numbers: LoadNumbers) -> FactTable | None:
    """Return how evenly several servers served the load."""
    hosts = numbers.summary.connections.hosts
    total = sum(host.completed_count for host in hosts) or 1
    rows = [
        (
            f"{host.host}:{host.port}",
            _count(host.opened_count),
            _count(host.completed_count),
            percent(host.completed_count / total),
        )
        for host in hosts
    ]
    columns = ("server", "connections opened", "transactions", "share")
    return _table("servers", "Servers of the load", columns, rows, at_most=_OBJECTS_MAX)


def _functions(stored: StoredRun, numbers: LoadNumbers) -> FactTable | None:
    growths = _grown(stored, numbers, "functions", ("calls", "total_time_ns", "self_time_ns"))
    rows = [
        (key["function"], _count(calls), f"{total_ns / 1e9:,.3g}", f"{self_ns / 1e9:,.3g}")
        for key, (calls, total_ns, self_ns) in sorted(growths, key=lambda pair: -pair[1][1])
    ]
    columns = ("function", "calls", "s", "s without called functions")
    return _table("functions", "Functions", columns, rows)


def _statements(stored: StoredRun, numbers: LoadNumbers) -> FactTable | None:
    names = ("calls", "exec_time_ns", "rows", "shared_blks_hit", "shared_blks_read",
             "temp_blks_written", "wal_bytes")  # fmt: skip
    growths = _grown(stored, numbers, "statements", names)
    texts = StatementNames(stored.server_json.get("statement_texts") or {})
    rows, whole = [], []
    for key, (calls, exec_ns, *rest) in sorted(growths, key=lambda pair: -pair[1][1]):
        if texts.is_own(key["query_id"]):
            continue
        mean_ms = f"{exec_ns / calls / 1e6:.3g}" if calls else ""
        name = texts.short(key["query_id"])
        rows.append((name, _count(calls), f"{exec_ns / 1e9:,.3g}", mean_ms, *map(_count, rest)))
        whole.append(f"{texts.whole(key['query_id'])} (database {key['database']})")
    columns = ("statement", "calls", "s", "ms per call", "rows", "blocks hit",
               "blocks read", "temporary blocks", "WAL bytes")  # fmt: skip
    table = _table("pg_stat_statements", "Statements of the server", columns, rows)
    return table and replace(table, whole=tuple(whole[: len(table.rows)]))


def _processes(stored: StoredRun, numbers: LoadNumbers) -> FactTable | None:
    # The kernel counts in clock ticks, and not all processes are read at the same time. So shares
    # are right, but sums are not.
    modes = _grown(stored, numbers, "process_usage", ("cpu_user_ns", "cpu_system_ns"))
    user_share = {key["backend_type"]: user / (user + system) for key, (user, system) in modes}
    rows = []
    for key, (run_ns, wait_ns) in _grown(stored, numbers, "backends", ("run_ns", "wait_ns")):
        share = user_share.get(key["backend_type"])
        by_mode = ["", ""] if share is None else [_s(run_ns * share), _s(run_ns * (1 - share))]
        rows.append((key["backend_type"], _s(run_ns), *by_mode, _s(wait_ns)))
    columns = ("process", "CPU s", "user s", "system s", "waiting for a core s")
    return _table("processes", "Processes of the server", columns, rows)


def _s(ns: float) -> str:
    return f"{ns / 1e9:,.3g}"


def _memory(runs: Sequence[StoredRun]) -> FactTable | None:
    """Return the memory of one process of each kind, in its first and in its last sample."""
    resident = {
        tuple(key.values()): ends for key, *ends in _ends(runs, "footprint", "resident_bytes")
    }
    rows = [
        (key["backend_type"], *map(_mb, (first, last, *resident[tuple(key.values())])))
        for key, first, last in _ends(runs, "footprint", "proportional_bytes")
    ]
    columns = ("process", "MB first (shared memory divided)", "last", "MB resident: first", "last")
    return _table("footprint", "Memory of one process", columns, rows)


def _sizes(runs: Sequence[StoredRun]) -> FactTable | None:
    rows = [
        (f"{key['kind']} {key['name']}", _mb(first), _mb(last), _mb(last - first))
        for key, first, last in _ends(runs, "sizes", "size_bytes")
    ]
    return _table("sizes", "Sizes", ("what", "MB before", "after", "grown by"), rows)


def _objects(runs: Sequence[StoredRun]) -> FactTable | None:
    rows = [
        (f"{key['kind']}: {key['object']}", key["note"], "" if np.isnan(last) else _mb(last))
        for key, _, last in _ends(runs, "objects", "size_bytes", at_end=True)
    ]
    columns = ("what", "note", "MB")
    return _table("objects", "Findings in the database", columns, rows, at_most=_OBJECTS_MAX)


def _log(stored: StoredRun, numbers: LoadNumbers) -> FactTable | None:
    """Return how often each kind of event was logged in the measured phase."""
    arrays = stored.telemetry("log")
    if arrays is None:
        return None
    began_ns, ended_ns = numbers.span_ns
    counted: Counter[tuple[str, str]] = Counter()
    longest: dict[tuple[str, str], float] = {}
    rows = zip(
        arrays["happened_ns"], arrays["kind"], arrays["sqlstate"], arrays["duration_ns"],
        strict=True,
    )  # fmt: skip
    for happened_ns, kind, sqlstate, duration_ns in rows:
        if began_ns <= happened_ns <= ended_ns:
            counted[str(kind), str(sqlstate)] += 1
            if not np.isnan(duration_ns):
                key = str(kind), str(sqlstate)
                longest[key] = max(longest.get(key, 0.0), float(duration_ns))
    shown = [
        (" ".join(key).strip().replace("_", " "), str(count),
         f"{longest[key] / 1e6:,.3g}" if key in longest else "")
        for key, count in counted.most_common()
    ]  # fmt: skip
    return _table("log", "The server's log", ("event", "times", "longest ms"), shown)


def _grown(
    stored: StoredRun, numbers: LoadNumbers, collector: str, names: tuple[str, ...]
) -> _Grown:
    """Return the growth of counters in the measured phase by key, without keys that did not grow.

    Slow collectors rarely sample at the start of the phase, so every interval that overlaps the
    phase counts.
    """
    pairs = []
    for growth in counters_of(stored, collector):
        inside = (growth.time_ns > numbers.began_ns) & (
            growth.time_ns - growth.interval_ns < numbers.ended_ns
        )
        grown = [float(np.nansum(growth.by_column[name][inside])) for name in names]
        if any(grown):
            pairs.append((growth.key, grown))
    return sorted(pairs, key=lambda pair: -sum(pair[1]))


def _ends(
    runs: Sequence[StoredRun], collector: str, column: str, *, at_end: bool = False
) -> list[_Ends]:
    """Return a gauge's first and last value by key, in the order of the rows.

    Args: at_end, whether only the keys of the last sample are returned.
    """
    keys = [column.name for column in columns_of(collector) if column.nature == "key"]
    first: dict[tuple[str, ...], float] = {}
    last: dict[tuple[str, ...], tuple[int, float]] = {}
    for run in runs:
        arrays = run.telemetry(collector)
        if arrays is None:
            continue
        columns = [arrays[name].tolist() for name in (*keys, column, "time_ns")]
        for *words, value, time_ns in zip(*columns, strict=True):
            label = tuple(map(str, words))
            first.setdefault(label, float(value))
            last[label] = time_ns, float(value)
    last_ns = max((time_ns for time_ns, _ in last.values()), default=0)
    return [
        (dict(zip(keys, label, strict=True)), first[label], value)
        for label, (time_ns, value) in last.items()
        if time_ns == last_ns or not at_end
    ]


def _table(
    key: str,
    title: str,
    columns: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    *,
    at_most: int = _ROWS_MAX,
) -> FactTable | None:
    if not rows:
        return None
    left = len(rows) - at_most
    note = f"and {left} more" if left > 0 else ""
    return FactTable(key, title, columns, tuple(rows[:at_most]), note)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _mb(size_bytes: float) -> str:
    return plain(size_bytes / 1e6)
