"""The phases of an open loop and its late transactions: offered against completed."""

from __future__ import annotations

import numpy as np

from pgdyno.analysis.findings import LateFindings, PhaseFindings
from pgdyno.analysis.histogram import Histogram, late_share
from pgdyno.loop.load_numbers import LoadNumbers, as_histogram, latency_seconds
from pgdyno.spec.planned import PlannedRun
from pgdyno.spec.workload import Workload
from pgdyno.store.stored_run import StoredRun

_SEED = 20_261_120


def late_of(stored: StoredRun, numbers: LoadNumbers, workload: Workload) -> LateFindings | None:
    """Return the transactions that were not done within the latency limit; None without a limit."""
    limit_ns = workload.latency_limit_ns
    if limit_ns is None:
        return None
    # The engine keeps a limited number of ages. If there are more, the ages are a sample, but the
    # number of transactions is exact.
    never_count = numbers.counts.unfinished + numbers.counts.not_started
    ages = np.zeros(never_count, dtype=np.int64)
    share = late_share(latency_seconds(stored), limit_ns, seed=_SEED, unfinished_ages_ns=ages)
    total = numbers.counts.completed + never_count
    return LateFindings(limit_ns / 1e6, round(share.value * total), total, share)


def backlog_of(stored: StoredRun) -> int:
    """Return how many due transactions had not started when the measured phase ended."""
    intervals = stored.intervals()
    measured = np.flatnonzero(np.asarray(intervals["phase"]) == "measure")
    return int(intervals["backlog"][measured[-1]]) if measured.size else 0


def phases_of(
    stored: StoredRun, numbers: LoadNumbers, workload: Workload, planned: PlannedRun
) -> tuple[PhaseFindings, ...]:
    """Return each phase of a rate that has several; nothing for a constant rate.

    A transaction counts in the phase in which it ended, an arrival in the phase in which it was
    due. A phase is rounded to the intervals in which the engine counts, and for percentiles to
    seconds.
    """
    rate = workload.rate
    if rate is None or rate.is_constant or planned.purpose == "pilot":
        return ()
    intervals = stored.intervals()
    chosen = np.asarray(intervals["phase"]) == "measure"
    middle_ns = intervals["time_ns"][chosen] - intervals["interval_ns"][chosen] // 2
    rows = [record for record in stored.histograms("latency") if record.phase == "measure"]
    phases = []
    begin_ns = numbers.began_ns
    for phase in rate.within(planned.measure_ns):
        end_ns = begin_ns + (phase.duration_ns or 0)
        inside = np.flatnonzero(chosen)[(middle_ns >= begin_ns) & (middle_ns < end_ns)]
        if not inside.size:
            break  # The run ended early.
        spent_s = intervals["interval_ns"][inside].sum() / 1e9
        completed = int(intervals["completed"][inside].sum())
        latency = Histogram.merged(
            as_histogram(record)
            for record in rows
            if begin_ns <= record.time_ns - record.interval_ns // 2 < end_ns
        )
        has_any = latency.transaction_count > 0
        phases.append(
            PhaseFindings(
                from_tps=phase.from_tps,
                to_tps=phase.to_tps,
                begin_s=(begin_ns - numbers.began_ns) / 1e9,
                duration_s=float(spent_s),
                offered_tps=float(intervals["scheduled"][inside].sum() / spent_s),
                tps=completed / float(spent_s),
                failed=int(intervals["failed"][inside].sum()),
                p50_ms=latency.percentile_ns(50) / 1e6 if has_any else None,
                p99_ms=latency.percentile_ns(99) / 1e6 if has_any else None,
                backlog_at_end_count=int(intervals["backlog"][inside[-1]]),
            )
        )
        begin_ns = end_ns
    return tuple(phases)
