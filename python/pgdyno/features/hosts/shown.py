"""The load hosts of a run, as blocks and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.features.hosts.answer import start_skew_ns
from pgdyno.features.hosts.facts import LoadHostFacts
from pgdyno.quantities import count, milliseconds, percent, plain
from pgdyno.report.blocks import (
    BlockSection,
    DocumentKeys,
    LabelledLine,
    TableBlock,
    TableColumn,
)

_COLUMNS = (
    TableColumn("load host"),
    *map(TableColumn, ("clients", "transactions", "tps", "CPU s", "busiest thread")),
    TableColumn("offset", "ms"),
    TableColumn("skew", "ms"),
    *(
        TableColumn(name, unit, is_words=True, meaning=f"{name} {unit}".rstrip())
        for name, unit in (
            ("lost", ""),
            ("threads", ""),
            ("offered", "tps"),
            ("timer lag p99", "ms"),
            ("steal", ""),
            ("clock error", "ms"),
            ("drift", "ppm"),
        )
    ),
)


def host_sections(hosts: Sequence[LoadHostFacts]) -> Iterator[BlockSection]:
    """Yield who made the load, how far apart they began, how well clocks are known."""
    if not hosts:
        return
    lost = [host.name for host in hosts if host.lost]
    skew_ns, error_ns = start_skew_ns(hosts), max(host.clock_error_ns for host in hosts)
    words = [str(len(hosts))]
    if lost:
        words.append(f"LOST: {', '.join(lost)}")
    if skew_ns is not None:
        words.append(f"began within {milliseconds(skew_ns / 1e6)}")
    words.append(f"clocks known to {milliseconds(error_ns / 1e6)}")
    by_load = sorted(hosts, key=lambda host: -(host.busy_ratio or 0.0))
    table = TableBlock(
        "Load hosts, the busiest first",
        _COLUMNS,
        tuple(map(_row, by_load)),
        short_row_count=len(hosts),
        heading="each load host, the busiest first",
        style="cards",
    )
    lead = f"{', '.join(words)}."
    line = LabelledLine("load hosts", ", ".join(words))
    keys = DocumentKeys({"hosts": [_document(host) for host in hosts]})
    yield BlockSection("Load hosts", "hosts", "Load hosts", lead, (line, table, keys))


def _row(host: LoadHostFacts) -> tuple[str, ...]:
    return (
        host.name,
        count(host.client_count),
        count(host.transaction_count),
        plain(host.tps),
        plain(host.cpu_ns / 1e9),
        "" if host.busy_ratio is None else percent(host.busy_ratio),
        _ms(host.clock_offset_ns),
        _ms(host.start_skew_ns),
        host.lost,
        count(host.thread_count),
        "" if host.offered_tps is None else plain(host.offered_tps),
        _ms(host.timer_lag_ns_p99),
        "" if host.steal_ratio is None else percent(host.steal_ratio),
        _ms(host.clock_error_ns),
        "" if host.clock_drift_ppm is None else plain(host.clock_drift_ppm),
    )


def _ms(value_ns: int | None) -> str:
    return "" if value_ns is None else plain(value_ns / 1e6)


def _document(host: LoadHostFacts) -> dict[str, object]:
    """Return a load host as it is in the JSON document."""
    return {
        "name": host.name,
        "clients": host.client_count,
        "threads": host.thread_count,
        "transactions": host.transaction_count,
        "tps": host.tps,
        "offered_tps": host.offered_tps,
        "clock_offset_ms": _of_ns(host.clock_offset_ns, 1e6),
        "clock_error_ms": _of_ns(host.clock_error_ns, 1e6),
        "clock_drift_ppm": host.clock_drift_ppm,
        "start_skew_ms": _of_ns(host.start_skew_ns, 1e6),
        "cpu_seconds": _of_ns(host.cpu_ns, 1e9),
        "worker_cpu_seconds": _of_ns(host.worker_cpu_ns, 1e9),
        "busiest_thread_ratio": host.busy_ratio,
        "timer_lag_ms_p99": _of_ns(host.timer_lag_ns_p99, 1e6),
        "steal_ratio": host.steal_ratio,
        "lost": host.lost or None,
    }


def _of_ns(value_ns: float | None, ns: float) -> float | None:
    """Return a time in the unit that has this many nanoseconds."""
    return None if value_ns is None else value_ns / ns
