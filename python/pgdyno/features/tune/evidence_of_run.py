"""Finds evidence in a stored run that a setting limits its load.

A search for settings begins with this. The strength of a piece is a ratio from 0 to 1, by
convention: for example 4 times the share of pages that were not in shared_buffers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pgdyno.features.tune.evidence import Evidence
from pgdyno.loop.counter_growth import counters_of, grown
from pgdyno.observe.rates import Deltas
from pgdyno.quantities import format_bytes, percent
from pgdyno.settings.rule import snapshot
from pgdyno.settings.value import amount
from pgdyno.store.stored_run import StoredRun

_PAGE_BYTES = 8192
# Kind of evidence -> how the names of its wait events begin; names differ between versions.
_WAITS = {
    "wal_flush": ("IO:WalSync", "IO:WALSync", "IO:WalWrite", "IO:WALWrite", "LWLock:WALWrite"),
    "read_waits": ("IO:DataFileRead", "IO:DataFilePrefetch", "IO:AioIoCompletion"),
    "lock_waits": ("Lock:",),
}
# If a scan reads fewer rows than this, reading the whole table may be the fastest way.
_ROWS_PER_SCAN_MIN, _ROWS_PER_SCAN_STRONG = 1_000.0, 10_000.0
# If the statements return or change a larger share of the rows that were read, an index saves
# nothing.
_USED_RATIO_MAX = 0.1
_CHANGES = ("rows_inserted", "rows_updated", "rows_deleted")


def evidence_of(run: StoredRun) -> tuple[Evidence, ...]:
    """Return everything that the telemetry of a run shows, the strongest first.

    Scans, pages and changes are counted for each table, and temporary files for each statement if
    the server counts them, so that one statement does not hide another.
    """
    span_ns = run.measured_span_ns()
    tables = counters_of(run, "tables")
    evidence = [
        *(_of_wal(run, span_ns) if _has_changes(run, tables) else ()),
        *_of_temporary_files(run, span_ns),
        *_of_pages(run, tables, span_ns),
        *_of_scans(run, tables),
        *_of_waits(run),
        *_of_jit(run),
    ]
    return tuple(sorted(evidence, key=lambda piece: -piece.strength_ratio))


def checkpoint_every_ns(run: StoredRun) -> int | None:
    """Return the time between two checkpoints that the load forced; None if there are not two."""
    begin_ns, end_ns = run.measured_span_ns()
    forced = grown(_one(run, "checkpointer"), "checkpoints_requested", begin_ns, end_ns)
    return round((end_ns - begin_ns) / forced) if forced is not None and forced >= 2 else None


def next_checkpoint_ns(run: StoredRun, settings: Mapping[str, str], major: int) -> int | None:
    """Return the time from one checkpoint to the next under this load; None if it is not known.

    A checkpoint begins when WAL reaches about half of max_wal_size, or at checkpoint_timeout.
    """
    begin_ns, end_ns = run.measured_span_ns()
    written = grown(_one(run, "wal"), "bytes", begin_ns, end_ns)
    rules = snapshot(major)
    size = amount(rules["max_wal_size"], settings["max_wal_size"])
    timeout_ms = amount(rules["checkpoint_timeout"], settings["checkpoint_timeout"])
    if written is None or size is None or timeout_ms is None:
        return None
    filled_ns = size / 2 / written * (end_ns - begin_ns) if written else math.inf
    return round(min(filled_ns, timeout_ms * 1e6))


def _of_wal(run: StoredRun, span_ns: tuple[int, int]) -> Iterator[Evidence]:
    wal, checkpoints = _one(run, "wal"), _one(run, "checkpointer")
    written = grown(wal, "bytes", *span_ns)
    images = grown(wal, "full_page_images", *span_ns)
    if written and images is not None:
        # Images are compressed or have holes, so this is an upper limit.
        ratio = min(1.0, images * _PAGE_BYTES / written)
        yield Evidence("full_page_images", ratio, f"up to {percent(ratio)} of the WAL")
    full = grown(wal, "buffers_full", *span_ns)
    writes = grown(wal, "writes", *span_ns)
    if full and writes:
        ratio = min(1.0, full / writes)
        yield Evidence("wal_buffers_full", ratio, f"{percent(ratio)} of the writes of WAL")
    forced = _total(checkpoints, "checkpoints_requested")
    if forced:
        yield Evidence(
            "forced_checkpoints", min(1.0, 0.5 + 0.25 * forced), f"{forced:.0f} in the run"
        )
    by_backends = _total(checkpoints, "buffers_backend")
    by_all = by_backends + sum(
        _total(checkpoints, name) for name in ("buffers_checkpoint", "buffers_clean")
    )
    if by_backends and by_all:
        ratio = by_backends / by_all
        yield Evidence("backend_writes", ratio / 2, f"{percent(ratio)} of the pages written")


def _has_changes(run: StoredRun, tables: Sequence[Deltas]) -> bool:
    """Return whether the load changed rows; if no table was observed, whether it may."""
    if tables:
        return any(_total(table, name) for table in tables for name in _CHANGES)
    return not all(script["reads_only"] for script in run.hello.get("scripts", ()))


def _of_temporary_files(run: StoredRun, span_ns: tuple[int, int]) -> Iterator[Evidence]:
    # The counters of the database are used only if no statement of the load was counted.
    database = _ours(run)
    temporary = grown(database, "temp_bytes", *span_ns)
    statements = _statements_of_load(run)
    if statements:
        temporary = _PAGE_BYTES * sum(
            grown(statement, "temp_blks_written", *span_ns) or 0.0 for statement in statements
        )
    if temporary:
        seconds = (span_ns[1] - span_ns[0]) / 1e9
        words = f"{format_bytes(round(temporary / seconds))}/s"
        yield Evidence("temporary_bytes", 1.0, words)


def _of_pages(
    run: StoredRun, tables: Sequence[Deltas], span_ns: tuple[int, int]
) -> Iterator[Evidence]:
    """Yield the share of pages that were not in shared_buffers, with the table that misses most."""
    misses = [
        (sum(_total(table, name) for name in ("heap_blks_read", "index_blks_read")), place)
        for place, table in enumerate(tables)
    ]
    read: float | None = sum(count for count, _ in misses)
    hit: float | None = sum(
        _total(table, name) for table in tables for name in ("heap_blks_hit", "index_blks_hit")
    )
    whose = ""
    if not tables:
        database = _ours(run)
        read, hit = (grown(database, name, *span_ns) for name in ("blks_read", "blks_hit"))
    elif read:
        whose = f", most of them of {tables[max(misses)[1]].key['table']}"
    if read and hit is not None:
        ratio = read / (read + hit)
        words = f"{percent(ratio)} of the pages read{whose}"
        yield Evidence("buffer_misses", min(1.0, 4 * ratio), words)


def _of_scans(run: StoredRun, tables: Sequence[Deltas]) -> Iterator[Evidence]:
    """Yield the table that is read from end to end, if its rows are read for few results."""
    scans = [(_total(table, "seq_scans"), _total(table, "seq_rows"), table) for table in tables]
    large = [(rows / count, rows, table) for count, rows, table in scans if count]
    if not large:
        return
    rows_per_scan, rows, table = max(large, key=lambda scan: scan[1])
    # Rows that an index found are those of other statements.
    by_index = sum(_total(table, "index_rows") for table in tables)
    used = sum(_total(statement, "rows") for statement in _statements_of_load(run)) - by_index
    if rows_per_scan < _ROWS_PER_SCAN_MIN or used > _USED_RATIO_MAX * rows:
        return
    words = f"{rows_per_scan:,.0f} rows of {table.key['table']} in each scan"
    yield Evidence("sequential_scans", min(1.0, rows_per_scan / _ROWS_PER_SCAN_STRONG), words)


def _of_jit(run: StoredRun) -> Iterator[Evidence]:
    """Yield the share of the time of the load's statements in which they were compiled."""
    statements = _statements_of_load(run)
    compiled = sum(_total(statement, "jit_time_ns") for statement in statements)
    executed = sum(_total(statement, "exec_time_ns") for statement in statements)
    if compiled and executed:
        ratio = min(1.0, compiled / executed)
        yield Evidence("jit_time", ratio, f"{percent(ratio)} of the time of the statements")


def _statements_of_load(run: StoredRun) -> list[Deltas]:
    """Return the counters of the load's statements; empty without pg_stat_statements."""
    known = run.server_json.get("query_ids") or {}
    ids = {number for lines in known.values() for numbers in lines.values() for number in numbers}
    return [
        growth for growth in counters_of(run, "statements") if int(growth.key["query_id"]) in ids
    ]


def _ours(run: StoredRun) -> Deltas | None:
    """Return the counters of the database that the load uses."""
    rows = [growth for growth in counters_of(run, "database") if growth.key.get("scope") == "ours"]
    return rows[0] if rows else None


def _of_waits(run: StoredRun) -> Iterator[Evidence]:
    """Yield the share of samples in which a session of the load waited for each kind of event."""
    waits = run.waits()
    if not len(waits["time_ns"]):
        return
    ours = np.asarray(waits["ours"]) == 1
    events = np.asarray(waits["wait_event"])[ours].astype(str)
    counts = np.asarray(waits["count"])[ours] if "count" in waits else np.ones(ours.sum())
    total = float(counts.sum())
    for evidence, names in _WAITS.items():
        share = sum(float(counts[np.char.startswith(events, name)].sum()) for name in names)
        if total and share / total > 0:
            yield Evidence(evidence, share / total, f"{percent(share / total)} of the samples")


def _one(run: StoredRun, collector: str) -> Deltas | None:
    """Return the counters of a collector that has one row for the whole server."""
    growths = counters_of(run, collector)
    return growths[0] if growths else None


def _total(growth: Deltas | None, counter: str) -> float:
    """Return the sum of all growths of a counter, 0 if it was not observed."""
    if growth is None or counter not in growth.by_column:
        return 0.0
    return float(np.nansum(growth.by_column[counter]))
