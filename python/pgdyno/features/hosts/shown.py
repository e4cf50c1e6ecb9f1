"""The load hosts of a run, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno import quantities
from pgdyno.features.hosts.findings import HostFindings, start_skew_ns
from pgdyno.report.text_page import TextPage, right_aligned


def host_lines(page: TextPage, hosts: Sequence[HostFindings]) -> Iterator[str]:
    """Yield who made the load, how far apart they began, how well clocks are known."""
    if not hosts:
        return
    lost = [host.name for host in hosts if host.lost]
    skew_ns, error_ns = start_skew_ns(hosts), max(host.clock_error_ns for host in hosts)
    words = [str(len(hosts))]
    if lost:
        words.append(f"LOST: {', '.join(lost)}")
    if skew_ns is not None:
        words.append(f"began within {quantities.milliseconds(skew_ns / 1e6)}")
    words.append(f"clocks known to {quantities.milliseconds(error_ns / 1e6)}")
    yield from page.row("load hosts", ", ".join(words))
    rows: list[tuple[str, ...]] = [
        (
            "load host",
            "clients",
            "transactions",
            "tps",
            "CPU s",
            "busiest thread",
            "offset ms",
            "skew ms",
        )
    ]
    for host in hosts:
        skew = "" if host.start_skew_ns is None else quantities.plain(host.start_skew_ns / 1e6)
        busy = "" if host.busy_ratio is None else quantities.percent(host.busy_ratio)
        counts = (quantities.count(host.client_count), quantities.count(host.transaction_count))
        rows.append(
            (
                host.name,
                *counts,
                quantities.plain(host.tps),
                quantities.plain(host.cpu_ns / 1e9),
                busy,
                quantities.plain(host.clock_offset_ns / 1e6),
                skew,
            )
        )
    yield from right_aligned(rows)


def hosts_document(hosts: Sequence[HostFindings]) -> dict[str, object]:
    """Return the key of a load from several hosts."""
    if not hosts:
        return {}
    return {
        "hosts": [
            {
                "name": host.name,
                "clients": host.client_count,
                "threads": host.thread_count,
                "transactions": host.transaction_count,
                "tps": host.tps,
                "offered_tps": host.offered_tps,
                "clock_offset_ms": host.clock_offset_ns / 1e6,
                "clock_error_ms": host.clock_error_ns / 1e6,
                "clock_drift_ppm": host.clock_drift_ppm,
                "start_skew_ms": None if host.start_skew_ns is None else host.start_skew_ns / 1e6,
                "cpu_seconds": host.cpu_ns / 1e9,
                "worker_cpu_seconds": None
                if host.worker_cpu_ns is None
                else host.worker_cpu_ns / 1e9,
                "busiest_thread_ratio": host.busy_ratio,
                "steal_ratio": host.steal_ratio,
                "lost": host.lost or None,
            }
            for host in hosts
        ]
    }
