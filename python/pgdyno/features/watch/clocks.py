"""The server's clocks of wait events over a watch: their growth, and the share of clients in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pgdyno.analysis.server_clocks import CLOCKS, ShareSums, clocks_of

Row = Mapping[str, Any]
# In pg_stat_database and pg_stat_wal; 0 or null while the setting that times them is off.
IO_CLOCKS = ("blk_read_time_ns", "blk_write_time_ns")
WAL_CLOCKS = ("write_time_ns", "sync_time_ns")
# An I/O worker (18 and later) reads for a session that waits; the clock is that of this session.
_WORKER = "io worker"


def is_at_work(row: Row) -> bool:
    """Return whether a row of a sample is about sessions of clients that are active."""
    return bool(row["backend_type"] == "client backend" and row["state"] == "active")


class EventClocks:
    """The time that clocks of the server counted, over the span in which they were read."""

    def __init__(self) -> None:
        self.has_io_view = False
        self._grown_ns: Counter[str] = Counter()
        self._span_ns: Counter[str] = Counter()
        self._shares = {clock.events: ShareSums() for clock in CLOCKS}

    def take(self, clock: str, grown_ns: int, span_ns: int) -> None:
        """Add the growth of a clock; below 0 it was reset, and nothing is added."""
        if grown_ns >= 0:
            self._grown_ns[clock] += grown_ns
            self._span_ns[clock] += span_ns

    def take_sample(self, rows: Sequence[Row]) -> None:
        """Add a sample to the shares of clients' sessions in the events that a clock counts."""
        for events, sums in self._shares.items():
            inside = [
                row
                for row in rows
                if row["wait_event"] in events and row["backend_type"] != _WORKER
            ]
            if inside:
                ours = sum(int(row["count"]) for row in inside if is_at_work(row))
                sums.add(ours, sum(int(row["count"]) for row in inside))

    def counted(self, by_event: Mapping[str, int]) -> list[tuple[tuple[str, ...], float, float]]:
        """Return the events of each clock that runs: mean sessions, half-width of their error.

        A clock counts for all sessions, so samples tell the share of the sessions of clients.
        Args: by_event, how often samples saw a client's session in each wait event.
        """
        counted = []
        for clock in clocks_of(has_io_view=self.has_io_view):
            if grown_ns := self._grown_ns[clock.column]:
                share, error = self._shares[clock.events].share()
                sessions = grown_ns / self._span_ns[clock.column]
                seen = tuple(name for name in clock.events if by_event.get(name))
                events = seen or clock.events[-1:]
                counted.append((events, sessions * share, sessions * error))
        return counted
