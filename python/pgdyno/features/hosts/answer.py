"""The load hosts of a stored run, and the doubts that follow from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.analysis.verdicts import Doubt
from pgdyno.features.hosts.facts import LoadHostFacts
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.quantities import percent
from pgdyno.store.stored_run import StoredRun

_SKEW_NS_MAX, _SKEW_RATIO_MAX = 10_000_000, 0.01
_STEAL_RATIO_MAX = 0.01
_MS = 1e6


def hosts_of(stored: StoredRun) -> tuple[LoadHostFacts, ...] | None:
    """Return the load hosts of a run; None if one engine on this host made the load."""
    document = stored.document("hosts.json") or {}
    return tuple(LoadHostFacts(**part) for part in document.get("hosts", ())) or None


def start_skew_ns(hosts: Sequence[LoadHostFacts]) -> int | None:
    """Return how far the starts and the common instant spread; None if it is not known."""
    known = [host.start_skew_ns for host in hosts if host.start_skew_ns is not None]
    return max(known) - min(0, *known) if known else None


def doubts_of_hosts(stored: StoredRun, numbers: LoadNumbers) -> Iterator[Doubt]:
    """Yield the doubts about a load that several hosts made."""
    hosts = hosts_of(stored) or ()
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
    limit_ns = min(_SKEW_NS_MAX, _SKEW_RATIO_MAX * numbers.seconds * 1e9)
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
