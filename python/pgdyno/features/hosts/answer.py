"""Reads the facts of the load hosts of a run, and makes their table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from pgdyno.analysis.findings import FactTable
from pgdyno.analysis.verdicts import Doubt
from pgdyno.features.hosts.facts import LoadHostFacts
from pgdyno.features.hosts.findings import HostFindings, host_doubts
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.quantities import percent, plain
from pgdyno.store.stored_run import StoredRun

_COLUMNS = (
    *("host", "lost", "clients", "threads", "transactions", "tps", "offered tps", "CPU s"),
    *("busiest thread", "timer lag p99 ms", "steal", "clock offset ms", "error ms", "drift ppm"),
    "start skew ms",
)


def hosts_of(stored: StoredRun) -> tuple[HostFindings, ...]:
    """Return the load hosts of a run; empty if one engine on this host made the load."""
    document = stored.document("hosts.json") or {}
    return tuple(_findings(LoadHostFacts(**part)) for part in document.get("hosts", ()))


def findings_of(stored: StoredRun) -> tuple[HostFindings, ...] | None:
    """Return the load hosts of a run; None if one engine on this host made the load."""
    return hosts_of(stored) or None


def doubts_of_hosts(stored: StoredRun, numbers: LoadNumbers) -> Iterator[Doubt]:
    """Yield the doubts about a load that several hosts made."""
    return host_doubts(hosts_of(stored), numbers.seconds)


def tables_of(stored: StoredRun) -> tuple[FactTable, ...]:
    """Return the table of the load hosts of a run."""
    return hosts_table(hosts_of(stored))


def _findings(facts: LoadHostFacts) -> HostFindings:
    """Return the facts that an answer shows; both types give them the same names."""
    return HostFindings(
        **{shown.name: getattr(facts, shown.name) for shown in fields(HostFindings)}
    )


def hosts_table(hosts: Sequence[HostFindings]) -> tuple[FactTable, ...]:
    """Return the table of the load hosts, the busiest first; nothing without hosts."""
    if not hosts:
        return ()
    by_load = sorted(hosts, key=lambda host: -(host.busy_ratio or 0.0))
    rows = tuple(
        (
            host.name,
            host.lost,
            f"{host.client_count:,}",
            f"{host.thread_count:,}",
            f"{host.transaction_count:,}",
            plain(host.tps),
            "" if host.offered_tps is None else plain(host.offered_tps),
            plain(host.cpu_ns / 1e9),
            "" if host.busy_ratio is None else percent(host.busy_ratio),
            _ms(host.timer_lag_ns_p99),
            "" if host.steal_ratio is None else percent(host.steal_ratio),
            _ms(host.clock_offset_ns),
            _ms(host.clock_error_ns),
            "" if host.clock_drift_ppm is None else plain(host.clock_drift_ppm),
            _ms(host.start_skew_ns),
        )
        for host in by_load
    )
    return (FactTable("load_hosts", "Load hosts, the busiest first", _COLUMNS, rows),)


def _ms(value_ns: int | None) -> str:
    return "" if value_ns is None else plain(value_ns / 1e6)
