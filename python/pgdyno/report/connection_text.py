"""What a person is told of a run's connections: only what was asked for, or happened."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.analysis.findings import ConnectionFindings
from pgdyno.report import numbers


def connection_rows(found: ConnectionFindings) -> Iterator[tuple[str, str]]:
    """Yield label and text of every row; none for connections made once, kept and not shared."""
    if found.is_per_transaction:
        yield (
            "connecting",
            f"{_of(found.connect_ms)}; {numbers.count(found.opened_count)} connections, one for"
            " each transaction",
        )
    if found.shared_count is not None and found.wait_ms is not None:
        yield (
            "shared",
            f"{numbers.counted(found.shared_count, 'connection')}, waited for"
            f" {numbers.milliseconds(found.wait_ms['mean'])} in the mean, {_of(found.wait_ms)}",
        )
    if found.idle_opened_count is not None:
        yield (
            "idle",
            f"{numbers.count(found.idle_alive_count or 0)} of"
            f" {numbers.counted(found.idle_opened_count, 'idle connection')} answered at the end",
        )
    if found.lost_count:
        doubt = found.commits_in_doubt_count
        words = (
            f"{numbers.counted(found.lost_count, 'connection')},"
            f" {numbers.count(found.reconnected_count)} made again"
        )
        if doubt:
            words += f"; {numbers.counted(doubt, 'commit')} in doubt: sent, and never answered"
        if found.longest_gap_ms is not None and found.longest_gap_began_s is not None:
            words += (
                f"; nothing completed for {numbers.plain(found.longest_gap_ms / 1e3)} s,"
                f" {numbers.plain(found.longest_gap_began_s)} s after measuring began"
            )
        yield "lost", words


def _of(percentiles: dict[str, float]) -> str:
    names = ("p50", "p95", "p99", "max")
    return ", ".join(f"{name} {numbers.milliseconds(percentiles[name])}" for name in names)
