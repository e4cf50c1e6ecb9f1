"""Growth of counters: between samples, and over a phase whose ends lie between samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgdyno.observe.catalogue import ROWS_MAX, columns_of
from pgdyno.observe.collector import Column
from pgdyno.observe.processes.backends import LOAD, BackendsCollector
from pgdyno.observe.processes.proc_files import TICK_NS
from pgdyno.observe.rates import Arrays, Deltas, deltas, since_zero
from pgdyno.store.stored_run import StoredRun

# Samples come once a second, and the load's sessions end with the phase. So up to one second of a 5
# s phase lies after the last sample.
_COVERED_RATIO_MIN = 0.6
# If both ends are a larger share of a CPU time, it is not shown.
_TICK_RATIO_MAX = 0.1


def counters_of(stored: StoredRun, collector: str) -> list[Deltas]:
    """Return the differences of a collector's counters, for each key that grew."""
    rows = stored.telemetry(collector)
    return [] if rows is None else growth_of(rows, collector)


def growth_of(rows: Arrays, collector: str) -> list[Deltas]:
    """Return the differences of the counters in rows of a collector, as `counters_of` does.

    If a collector lists only the largest keys, a new key began at 0 only if the sample before had
    room for it.
    """
    rows_max = ROWS_MAX.get(collector, 0)
    whole = since_zero(rows, columns_of(collector), rows_max) if rows_max else rows
    return [delta for delta in deltas(whole, columns_of(collector)) if delta.time_ns.size]


def load_backends(stored: StoredRun) -> Deltas | None:
    """Return the growth of the counters of the load's backends, from their first instant.

    They began after the last sample without them, with all counters at 0. Without this, a run of
    2 s would lose the half before the first sample with them.
    """
    return deltas_of(stored, "backends", BackendsCollector.columns, LOAD, from_zero=True)


def is_seen_by_ticks(run_ns: float) -> bool:
    """Return whether the CPU time of backends is long enough for the clock of the kernel.

    The kernel adds the time of a process that runs at its ticks. So a tick may be missing or too
    much at both ends.
    """
    return _TICK_RATIO_MAX * run_ns >= 2 * TICK_NS


def deltas_of(
    stored: StoredRun, name: str, columns: Sequence[Column], key: str, *, from_zero: bool = False
) -> Deltas | None:
    """Return the differences of one collector's counters for one key, such as a device.

    Args: from_zero, the counters of this key were 0 at the last sample without it.
    """
    rows = stored.telemetry(name)
    if rows is None:
        return None
    # Read only this key's rows: a host may have a hundred cores, and an experiment hundreds of
    # runs.
    names = [column.name for column in columns if column.nature == "key" and column.name in rows]
    wanted = np.zeros(len(rows["time_ns"]), dtype=bool)
    for key_name in names:
        wanted |= np.asarray(rows[key_name]) == key
    of_key = {column: values[wanted] for column, values in rows.items()}
    growths = deltas(_after_zero(of_key, columns) if from_zero else of_key, columns)
    return growths[0] if growths else None


def _after_zero(rows: Arrays, columns: Sequence[Column]) -> Arrays:
    """Return the rows of one key, after a row of zeros at the last sample without the key."""
    if not len(rows["time_ns"]) or rows["interval_ns"][0] == 0:
        return rows  # There was no sample before.
    counters = {column.name for column in columns if column.nature == "counter"}
    extended = {}
    for name, values in rows.items():
        before = values[:1]
        if name == "time_ns":
            before = before - rows["interval_ns"][:1]
        elif name in counters:
            before = np.zeros_like(before)
        extended[name] = np.concatenate((before, values))
    return extended


def grown(growth: Deltas | None, counter: str, began_ns: int, ended_ns: int) -> float | None:
    """Return by how much a counter grew between two instants.

    If the samples end before the span does, their rate is used for the rest.
    Returns: None if the samples cover less than 60 % of the span, or if a sample is missing.
    """
    if growth is None or growth.time_ns.size == 0 or counter not in growth.by_column:
        return None  # Older results lack newer counters.
    first_ns = max(began_ns, int(growth.time_ns[0] - growth.interval_ns[0]))
    last_ns = min(ended_ns, int(growth.time_ns[-1]))
    if last_ns - first_ns < _COVERED_RATIO_MIN * (ended_ns - began_ns):
        return None
    total = growth.total(counter, first_ns, last_ns)
    return None if math.isnan(total) else total * (ended_ns - began_ns) / (last_ns - first_ns)
