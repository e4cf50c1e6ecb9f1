"""What is known of each host after a run: its share of the work, its clock, its CPU."""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from pgdyno.engine.job import LoadWork, OpenLoop, Part
from pgdyno.engine.records import Interval, Summary
from pgdyno.features.hosts.clocks import ClockOffset, drift_ppm

# Fields of the first line of /proc/stat: user nice system idle iowait irq softirq steal.
_STEAL = 7


class LoadHostFacts(BaseModel):
    """One host in one run. `start_skew_ns`: its last thread began this much after the instant.

    `offered_tps`: None in a closed loop. `lost`: why the host was lost, "" if it was not. Counts
    are of the measured phase.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    thread_count: int
    client_count: int
    transaction_count: int
    measured_ns: int
    clock_offset_ns: int
    clock_error_ns: int
    clock_drift_ppm: float | None = None
    clock_drift_error_ppm: float | None = None
    start_skew_ns: int | None = None
    cpu_ns: int = 0
    worker_cpu_ns: int | None = None
    busy_ratio: float | None = None
    timer_lag_ns_p99: int | None = None
    steal_ratio: float | None = None
    core_count: int = 1
    offered_tps: float | None = None
    is_local: bool = False
    lost: str = ""

    @property
    def tps(self) -> float:
        """Return the completed transactions per second of the measured phase."""
        return self.transaction_count * 1e9 / self.measured_ns if self.measured_ns else 0.0


class Shared(Protocol):
    """What `run.Share` knows of one host."""

    host: Any
    before: ClockOffset
    after: ClockOffset | None
    facts_before: dict[str, Any]
    facts_after: dict[str, Any]


class Sent(Protocol):
    """What `merge.Stream` knows of one host."""

    summary: Summary | None
    measured: list[Interval]
    begins_ns: dict[int, int]


def facts_of(
    share: Shared, sent: Sent, part: Part, *, start_ns: int | None, work: LoadWork
) -> LoadHostFacts:
    """Return the facts of one host.

    Args: part, its threads; start_ns, the instant of the common start in Unix time, None if there
    was none.
    """
    summary = sent.summary
    own = range(part.first_thread, part.first_thread + part.threads)
    clients = work.arrivals.clients
    facts: dict[str, Any] = {
        "name": share.host.name,
        "thread_count": part.threads,
        "client_count": sum(len(range(thread, clients, work.threads)) for thread in own),
        "transaction_count": 0,
        "measured_ns": 0,
        "clock_offset_ns": share.before.offset_ns,
        "clock_error_ns": share.before.error_ns,
        "core_count": share.host.core_count,
        "is_local": share.host.is_local,
        "lost": share.host.lost,
    }
    if share.after is not None:
        drift, error = drift_ppm(share.before, share.after)
        facts |= {"clock_drift_ppm": drift, "clock_drift_error_ppm": error}
    if summary is not None:
        facts |= _of_summary(summary, start_ns)
        if isinstance(work.arrivals, OpenLoop) and facts["measured_ns"]:
            facts["offered_tps"] = summary.counts.scheduled * 1e9 / facts["measured_ns"]
    elif sent.measured:
        last = sent.measured[0]
        facts["transaction_count"] = last.counts.completed
        # Phase 3 is the measured one.
        facts["measured_ns"] = last.time_ns - sent.begins_ns.get(3, last.time_ns)
        facts["cpu_ns"] = last.cpu_ns
    if share.facts_after:
        facts |= _used(share.facts_before, share.facts_after)
    return LoadHostFacts(**facts)


def _of_summary(summary: Summary, start_ns: int | None) -> dict[str, Any]:
    threads = summary.engine.threads
    span = summary.span("measure")
    began_ns = [thread.began_ns for thread in threads if thread.began_ns is not None]
    measured_ns = span.ended_ns - span.began_ns if span is not None else 0
    is_known = start_ns is not None and bool(began_ns)
    return {
        "transaction_count": summary.counts.completed,
        "measured_ns": measured_ns,
        "start_skew_ns": max(began_ns) - (start_ns or 0) if is_known else None,
        "cpu_ns": summary.engine.cpu_user_ns + summary.engine.cpu_system_ns,
        "busy_ratio": max((thread.busy_ratio for thread in threads), default=None),
        "timer_lag_ns_p99": max((thread.timer_lag_ns_p99 for thread in threads), default=None),
    }


def _used(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    ticks = [b - a for a, b in zip(before["cpu_ticks"], after["cpu_ticks"], strict=True)]
    total = sum(ticks)
    return {
        "worker_cpu_ns": after["worker_cpu_ns"] - before["worker_cpu_ns"],
        "steal_ratio": ticks[_STEAL] / total if total > 0 else None,
    }
