"""Makes windows of speed and waits from stored runs: each run of a sweep, or minute of a watch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from pgdyno.analysis.hazel import WAIT_TYPES, Hazel, Window, hazel
from pgdyno.loop.journal import Visit
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.observe.rates import Arrays, deltas
from pgdyno.observe.sql.statements import StatementsCollector
from pgdyno.store.stored_run import StoredRun

MINUTE_NS = 60_000_000_000
_COUNTED = ("calls", "rows")


def hazel_of_sweep(measured: Sequence[tuple[Visit, LoadNumbers]]) -> Hazel | None:
    """Return the correlations by both methods for one line of a sweep; every run is a window.

    pg_stat_statements counts the statements; without it, the load engine does.
    """
    windows = []
    for visit, numbers in measured:
        waits = visit.stored.waits()
        window = _window(
            visit.planned.cell.clients,
            waits,
            visit.stored.telemetry(StatementsCollector.name),
            numbers.span_ns,
            is_counted=np.asarray(waits["ours"]) == 1,
        )
        if window is None:
            continue
        if window.rows_per_minute is None:
            trips_per_transaction = numbers.summary.traffic.round_trips / max(
                numbers.counts.completed, 1
            )
            calls = numbers.tps.value * trips_per_transaction * 60
            window = Window(
                load_count=window.load_count,
                calls_per_minute=calls,
                rows_per_minute=None,
                waiting=window.waiting,
                active_count=window.active_count,
            )
        windows.append(window)
    return hazel(windows)


def hazel_of_watch(segments: Sequence[StoredRun]) -> Hazel | None:
    """Return the correlations by both methods for a watch; every whole minute is a window.

    Nobody set the load of a watch, so the load is the number of active sessions, rounded up to a
    power of two.
    Returns: None if pg_stat_statements did not count statements.
    """
    windows = [window for segment in segments for window in _minutes(segment)]
    return hazel(windows)


def _minutes(segment: StoredRun) -> Iterator[Window]:
    waits = segment.waits()
    time_ns = np.asarray(waits["time_ns"], dtype=np.int64)
    if not time_ns.size:
        return
    statements = segment.telemetry(StatementsCollector.name)
    backends = np.asarray(waits["backend_type"]).astype(str)
    is_counted = backends == "client backend"
    for began_ns in range(int(time_ns[0]), int(time_ns[-1]) - MINUTE_NS + 1, MINUTE_NS):
        span_ns = (began_ns, began_ns + MINUTE_NS)
        window = _window(0, waits, statements, span_ns, is_counted=is_counted)
        if window is None or window.rows_per_minute is None:
            continue
        level = 1 << max(0, int(np.ceil(np.log2(max(window.active_count, 1.0)))))
        yield Window(
            load_count=level,
            calls_per_minute=window.calls_per_minute,
            rows_per_minute=window.rows_per_minute,
            waiting=window.waiting,
            active_count=window.active_count,
        )


def _window(
    load_count: int,
    waits: Arrays,
    statements: Arrays | None,
    span_ns: tuple[int, int],
    *,
    is_counted: npt.NDArray[np.bool_],
) -> Window | None:
    """Return one stretch of time; None without a sample of waits in it."""
    time_ns = np.asarray(waits["time_ns"], dtype=np.int64)
    inside = (time_ns >= span_ns[0]) & (time_ns < span_ns[1])
    instants = len(np.unique(time_ns[inside]))
    if not instants:
        return None
    active = inside & is_counted & (np.asarray(waits["state"]) == "active")
    count = np.asarray(waits["count"], dtype=np.float64)[active]
    kinds = [str(event).partition(":")[0] for event in np.asarray(waits["wait_event"])[active]]
    by_kind = np.asarray(kinds, dtype=str)
    calls, rows = _statements_per_minute(statements, span_ns)
    return Window(
        load_count=load_count,
        calls_per_minute=calls or 0.0,
        rows_per_minute=rows,
        waiting={kind: float(count[by_kind == kind].sum()) / instants for kind in WAIT_TYPES},
        active_count=float(count.sum()) / instants,
    )


def _statements_per_minute(
    statements: Arrays | None, span_ns: tuple[int, int]
) -> tuple[float | None, float | None]:
    """Return calls and rows a minute over all statements, None if they were not counted."""
    if statements is None or not len(statements["time_ns"]):
        return None, None
    sums = dict.fromkeys(_COUNTED, 0.0)
    covered_ns = 0
    for growth in deltas(statements, StatementsCollector.columns):
        inside = (growth.time_ns > span_ns[0]) & (growth.time_ns <= span_ns[1])
        covered_ns = max(covered_ns, int(growth.interval_ns[inside].sum()))
        for name in _COUNTED:
            sums[name] += float(np.nansum(growth.by_column[name][inside]))
    if not covered_ns:
        return None, None
    return sums["calls"] * MINUTE_NS / covered_ns, sums["rows"] * MINUTE_NS / covered_ns
