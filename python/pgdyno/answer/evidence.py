"""Evidence in a stored run for changing a setting; a search begins with this evidence."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pgdyno.loop.counter_growth import counters_of, grown
from pgdyno.observe.rates import Deltas
from pgdyno.quantities import format_bytes, percent
from pgdyno.store.stored_run import StoredRun
from pgdyno.tune.evidence import Seen

_PAGE_BYTES = 8192
_WAITS = {
    "wal_flush": ("IO:WalSync", "IO:WALSync", "IO:WalWrite", "IO:WALWrite", "LWLock:WALWrite"),
    "read_waits": ("IO:DataFileRead", "IO:DataFilePrefetch", "IO:AioIoCompletion"),
    "lock_waits": ("Lock:",),
}


def evidence_of(run: StoredRun) -> tuple[Seen, ...]:
    """Return everything that the telemetry of a run shows, the strongest first."""
    span_ns = run.measured_span_ns()
    evidence = [*_of_wal(run, span_ns), *_of_database(run, span_ns), *_of_waits(run)]
    return tuple(sorted(evidence, key=lambda piece: -piece.strength_ratio))


def _of_wal(run: StoredRun, span_ns: tuple[int, int]) -> Iterator[Seen]:
    wal, checkpoints = _one(run, "wal"), _one(run, "checkpointer")
    written = grown(wal, "bytes", *span_ns)
    images = grown(wal, "full_page_images", *span_ns)
    if written and images is not None:
        # Images are compressed or have holes, so this is an upper limit.
        ratio = min(1.0, images * _PAGE_BYTES / written)
        yield Seen("full_page_images", ratio, f"up to {percent(ratio)} of the WAL")
    full = grown(wal, "buffers_full", *span_ns)
    writes = grown(wal, "writes", *span_ns)
    if full and writes:
        ratio = min(1.0, full / writes)
        yield Seen("wal_buffers_full", ratio, f"{percent(ratio)} of the writes of WAL")
    forced = _total(checkpoints, "checkpoints_requested")
    if forced:
        yield Seen("forced_checkpoints", min(1.0, 0.5 + 0.25 * forced), f"{forced:.0f} in the run")
    by_backends = _total(checkpoints, "buffers_backend")
    by_all = by_backends + sum(
        _total(checkpoints, name) for name in ("buffers_checkpoint", "buffers_clean")
    )
    if by_backends and by_all:
        ratio = by_backends / by_all
        yield Seen("backend_writes", ratio / 2, f"{percent(ratio)} of the pages written")


def _of_database(run: StoredRun, span_ns: tuple[int, int]) -> Iterator[Seen]:
    rows = [growth for growth in counters_of(run, "database") if growth.key.get("scope") == "ours"]
    database = rows[0] if rows else None
    temporary = grown(database, "temp_bytes", *span_ns)
    if temporary:
        seconds = (span_ns[1] - span_ns[0]) / 1e9
        words = f"{format_bytes(round(temporary / seconds))}/s"
        yield Seen("temporary_bytes", 1.0, words)
    read, hit = (grown(database, name, *span_ns) for name in ("blks_read", "blks_hit"))
    if read and hit is not None:
        ratio = read / (read + hit)
        yield Seen("buffer_misses", min(1.0, 4 * ratio), f"{percent(ratio)} of the pages read")
    returned, fetched = (grown(database, n, *span_ns) for n in ("tup_returned", "tup_fetched"))
    if returned and fetched is not None and returned > 10 * max(fetched, 1.0):
        times = returned / max(fetched, 1.0)
        words = f"{times:,.0f} rows read for each row found by an index"
        yield Seen("sequential_scans", min(1.0, times / 200), words)


def _of_waits(run: StoredRun) -> Iterator[Seen]:
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
            yield Seen(evidence, share / total, f"{percent(share / total)} of the samples")


def _one(run: StoredRun, collector: str) -> Deltas | None:
    growths = counters_of(run, collector)
    return growths[0] if growths else None


def _total(growth: Deltas | None, counter: str) -> float:
    if growth is None or counter not in growth.by_column:
        return 0.0
    return float(np.nansum(growth.by_column[counter]))
