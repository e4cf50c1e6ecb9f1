"""The hosts that made a load, and the doubts that follow from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdyno.analysis.verdicts import Doubt
from pgdyno.quantities import percent

_SKEW_NS_MAX, _SKEW_RATIO_MAX = 10_000_000, 0.01
_STEAL_RATIO_MAX = 0.01
_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFindings:
    """One load host in the measured phase.

    `start_skew_ns`: its last thread began this much after the common instant; the clock's error is
    not part of it. `busy_ratio`: of its busiest thread. `lost`: why it was lost, "" if it was not.
    """

    name: str
    client_count: int
    thread_count: int
    transaction_count: int
    tps: float
    offered_tps: float | None
    clock_offset_ns: int
    clock_error_ns: int
    clock_drift_ppm: float | None
    start_skew_ns: int | None
    cpu_ns: int
    worker_cpu_ns: int | None
    busy_ratio: float | None
    timer_lag_ns_p99: int | None
    steal_ratio: float | None
    core_count: int
    is_local: bool
    lost: str


def start_skew_ns(hosts: Sequence[HostFindings]) -> int | None:
    """Return how far the starts and the common instant spread; None if it is not known."""
    known = [host.start_skew_ns for host in hosts if host.start_skew_ns is not None]
    return max(known) - min(0, *known) if known else None


def host_doubts(hosts: Sequence[HostFindings], measured_seconds: float) -> Iterator[Doubt]:
    """Yield the doubts about a load that several hosts made."""
    lost = [host for host in hosts if host.lost]
    if lost:
        named = "; ".join(
            f"{host.name} after {host.transaction_count:,} transactions ({host.lost})"
            for host in lost
        )
        yield Doubt(
            "host_lost",
            "not_valid",
            f"The run is degraded: {len(lost)} of {len(hosts)} load hosts were lost while it ran:"
            f" {named}. The others went on, with fewer clients than planned.",
            "look at that host, then measure again",
        )
    limit_ns = min(_SKEW_NS_MAX, _SKEW_RATIO_MAX * measured_seconds * 1e9)
    skew_ns = start_skew_ns(hosts)
    if skew_ns is not None and skew_ns > limit_ns:
        yield Doubt(
            "start_skew",
            "doubt",
            f"The load hosts began {skew_ns / _MS:.1f} ms apart (limit {limit_ns / _MS:.1f} ms): "
            "at the start, not all clients were at work.",
            "measure for longer, or use hosts that are less busy",
        )
    unsure = max(hosts, key=lambda host: host.clock_error_ns, default=None)
    if unsure is not None and unsure.clock_error_ns > limit_ns:
        yield Doubt(
            "clock_error",
            "doubt",
            f"The clock of load host {unsure.name} is known to {unsure.clock_error_ns / _MS:.1f} ms"
            f" only (limit {limit_ns / _MS:.1f} ms), so the common start is not certain.",
            "use hosts that are nearer to this one",
        )
    for host in hosts:
        # The steal of this host is judged with its telemetry.
        if not host.is_local and (host.steal_ratio or 0.0) > _STEAL_RATIO_MAX:
            yield Doubt(
                "host_steal",
                "not_valid",
                f"The hypervisor took {percent(host.steal_ratio or 0.0)} of the CPU of load host "
                f"{host.name} (limit {percent(_STEAL_RATIO_MAX)}).",
                "use a host whose CPUs no other virtual machine uses",
            )
