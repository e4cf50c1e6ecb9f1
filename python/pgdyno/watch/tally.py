"""Adds up what a watch sees, sample by sample, in bounded memory; never a row is kept."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgdyno.observe.sql.waits import ANSWERED, UNSEEN

_ADDED_UP = ("xact_commit", "blks_hit", "blks_read")
# Beyond these the rest is added up under one name.
_STATEMENTS_MAX = 2000
_GAPS_KEPT = 500
# A sample this many intervals late leaves a gap, whatever the reason.
_GAP_INTERVALS = 3
_NORMAL_95 = 1.959964
_RULE_OF_THREE = 3.0
_SERIES_MIN = 10
# The collectors whose samples are added up.
TAKEN = ("database", "wal", "waits", "replication")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gap:
    """Time in which nothing was seen; `time_ns` is its end."""

    time_ns: int
    length_ns: int


@dataclass(slots=True)
class Series:
    """A row of numbers in time order, as the sums that its mean and interval need."""

    count: int = 0
    total_count: int = 0
    squares_count: int = 0
    neighbours_count: int = 0
    first_count: int = 0
    last_count: int = 0

    def add(self, value: int) -> None:
        """Add the next number."""
        if self.count:
            self.neighbours_count += self.last_count * value
        else:
            self.first_count = value
        self.count, self.last_count = self.count + 1, value
        self.total_count += value
        self.squares_count += value * value

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the mean; None before there are 10 numbers.

        Source: variance of the mean of a series whose neighbours depend on each other (AR(1)).
        Numbers that are all the same have the interval of the rule of three: 3/n.
        Limits: too narrow if the load changes slowly while it is watched.
        """
        n = self.count
        if n < _SERIES_MIN:
            return None
        mean = self.total_count / n
        spread = self.squares_count - n * mean * mean
        ends = mean * (2 * self.total_count - self.first_count - self.last_count)
        products = self.neighbours_count - ends + (n - 1) * mean * mean
        likeness = min(max(products / spread, 0.0), 0.99) if spread > 0 else 0.0
        error = math.sqrt(max(spread, 0.0) / (n - 1) / n * (1 + likeness) / (1 - likeness))
        half = max(_NORMAL_95 * error, _RULE_OF_THREE / n)
        return max(mean - half, 0.0), mean + half


@dataclass(slots=True)
class Sums:
    """What a span of time added up to. Waits are counts of sessions over samples."""

    span_ns: int = 0
    transactions: int = 0
    blocks_hit: int = 0
    blocks_read: int = 0
    wal_bytes: int = 0
    wal_span_ns: int = 0
    disk_read_bytes: int = 0
    disk_written_bytes: int = 0
    disk_span_ns: int = 0
    wait_samples: int = 0
    by_event: Counter[str] = field(default_factory=Counter)
    by_statement: dict[int, Counter[str]] = field(default_factory=dict)

    @property
    def tps(self) -> float | None:
        """Return transactions a second, committed on the whole server; None before a second."""
        # One of our own may be counted here and there in two different intervals.
        return max(0, self.transactions) / (self.span_ns / 1e9) if self.span_ns else None

    @property
    def active(self) -> float | None:
        """Return the mean number of sessions at work; None where they were not to be seen."""
        return self.by_event.total() / self.wait_samples if self.wait_samples else None

    @property
    def wal_bytes_per_second(self) -> float | None:
        """Return the rate of WAL."""
        return self.wal_bytes / (self.wal_span_ns / 1e9) if self.wal_span_ns else None

    @property
    def disk_bytes_per_second(self) -> tuple[float, float] | None:
        """Return the rates of reading and writing of the disk that did most; None if not seen."""
        if not self.disk_span_ns:
            return None
        seconds = self.disk_span_ns / 1e9
        return self.disk_read_bytes / seconds, self.disk_written_bytes / seconds

    @property
    def hit_ratio(self) -> float | None:
        """Return the share of blocks found in shared_buffers."""
        total = self.blocks_hit + self.blocks_read
        return self.blocks_hit / total if total else None


class Tally:
    """Totals since the beginning, and those since somebody last looked.

    Called from the observer's threads, and by code that reads stored samples again.
    """

    def __init__(self, interval_ns: int) -> None:
        self._lock = threading.Lock()
        self._late_ns = _GAP_INTERVALS * max(interval_ns, 1_000_000_000)
        self._database: dict[str, int] = {}
        self._wal: Row = {}
        self._disks: dict[str, Row] = {}
        self._recent = Sums()
        self.total = Sums()
        self.gaps: list[Gap] = []
        self.gap_count = 0
        self.reset_count = 0
        self.peak_sessions = 0
        self.active_series = Series()
        self.connections = 0
        self.replay_lag_ns: int | None = None
        self.began_ns = 0
        self.ended_ns = 0

    def take(self, collector: str, rows: Sequence[Row]) -> None:
        """Add the rows of one sample."""
        if not rows:
            return
        with self._lock:
            if collector == "database":
                self._take_database(rows)
            elif collector == "wal":
                self._take_wal(rows[0])
            elif collector == "disk":
                self._take_disks(rows)
            elif collector == "waits":
                self._take_waits(rows)
            elif collector == "replication":
                lags = [row["replay_lag_ns"] for row in rows if row["replay_lag_ns"] is not None]
                # NaN: read back from the store.
                self.replay_lag_ns = max((int(lag) for lag in lags if lag == lag), default=0)

    def look(self) -> Sums:
        """Return what was added since the last look."""
        with self._lock:
            recent, self._recent = self._recent, Sums()
            return recent

    def close(self, now_ns: int) -> None:
        """Count the gap that is not over yet: the server has not come back."""
        with self._lock:
            length_ns = now_ns - self.ended_ns
            if self.ended_ns and length_ns > self._late_ns:
                self._leave_gap(Gap(now_ns, length_ns))

    @property
    def seen_ns(self) -> int:
        """Return the time that was seen, gaps left out."""
        return self.total.span_ns

    def _take_database(self, rows: Sequence[Row]) -> None:
        now = {name: sum(int(row[name]) for row in rows) for name in _ADDED_UP}
        time_ns, interval_ns = int(rows[0]["time_ns"]), int(rows[0]["interval_ns"])
        now |= {"time_ns": time_ns, "own": sum(_own(row) for row in rows)}
        now["reset_ns"] = max(int(row["stats_reset_ns"]) for row in rows)
        before, self._database = self._database, now
        self.connections = sum(int(row["connections"]) for row in rows)
        self.began_ns, self.ended_ns = self.began_ns or time_ns, time_ns
        if not before:
            return
        elapsed_ns = time_ns - before["time_ns"]
        if interval_ns == 0 or interval_ns > self._late_ns:
            self._leave_gap(Gap(time_ns, elapsed_ns))
            return
        grown = {name: now[name] - before[name] for name in _ADDED_UP}
        if now["reset_ns"] != before["reset_ns"] or min(grown.values()) < 0:
            self.reset_count += 1
            return
        own = now["own"] - before["own"]
        for sums in (self.total, self._recent):
            sums.span_ns += elapsed_ns
            sums.transactions += grown["xact_commit"] - own
            sums.blocks_hit += grown["blks_hit"]
            sums.blocks_read += grown["blks_read"]

    def _take_wal(self, row: Row) -> None:
        before, self._wal = self._wal, row
        if not before or not row["interval_ns"]:
            return
        grown = int(row["position_bytes"]) - int(before["position_bytes"])
        if grown < 0:
            return  # Another timeline: a standby took over.
        for sums in (self.total, self._recent):
            sums.wal_bytes += grown
            sums.wal_span_ns += int(row["time_ns"]) - int(before["time_ns"])

    def _take_disks(self, rows: Sequence[Row]) -> None:
        before, self._disks = self._disks, {str(row["device"]): row for row in rows}
        grown = [
            (
                int(row["read_bytes"]) - int(earlier["read_bytes"]),
                int(row["write_bytes"]) - int(earlier["write_bytes"]),
                int(row["time_ns"]) - int(earlier["time_ns"]),
            )
            for device, row in self._disks.items()
            if (earlier := before.get(device)) is not None and row["interval_ns"]
        ]
        # One disk can lie on another, so they are not added up.
        read, written, span_ns = max(
            grown, key=lambda bytes_grown: bytes_grown[0] + bytes_grown[1], default=(0, 0, 0)
        )
        for sums in (self.total, self._recent):
            sums.disk_read_bytes += max(0, read)
            sums.disk_written_bytes += max(0, written)
            sums.disk_span_ns += span_ns

    def _leave_gap(self, gap: Gap) -> None:
        self.gap_count += 1
        self.gaps = [*self.gaps[-_GAPS_KEPT:], gap]

    def _take_waits(self, rows: Sequence[Row]) -> None:
        if any(row["backend_type"] == UNSEEN for row in rows):
            return  # Who is at work is not known: nobody would be a wrong answer.
        active = 0
        for row in rows:
            if row["backend_type"] != "client backend" or row["state"] != "active":
                continue
            count, event, statement = int(row["count"]), str(row["wait_event"]), row["query_id"]
            event = "" if event == ANSWERED else event
            active += count
            for sums in (self.total, self._recent):
                sums.by_event[event] += count
                known = sums.by_statement
                place = statement if statement in known or len(known) < _STATEMENTS_MAX else 0
                known.setdefault(place, Counter())[event] += count
        for sums in (self.total, self._recent):
            sums.wait_samples += 1
        self.active_series.add(active)
        self.peak_sessions = max(self.peak_sessions, active)


def _own(row: Row) -> int:
    """Return how many transactions were our own; results of before this was counted lack it."""
    own = row.get("own_transactions")
    return 0 if own is None or own != own else int(own)  # NaN: read back from the store.
