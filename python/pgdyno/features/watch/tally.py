"""Adds up the samples of a watch in bounded memory; it keeps no rows.

`Tally` has the totals. `Stretches` has the samples of sessions, from which intervals are made.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgdyno.analysis.at_work import AtWork, CountedTime, at_work, drawn_from_groups, own_time
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.where_sampled import Sampled
from pgdyno.analysis.within_run import mean_of
from pgdyno.features.watch.clocks import IO_CLOCKS, WAL_CLOCKS, EventClocks, is_at_work
from pgdyno.observe.sql.waits import ANSWERED, PARALLEL_WORKER, UNSEEN

_ADDED_UP = ("xact_commit", "blks_hit", "blks_read")
# PostgreSQL 14 and later. The lab times its own statements, with and without the round trip.
_ACTIVE = ("active_time_ns", "own_active_ns", "own_active_least_ns")
# Statements beyond this number are added up under one name.
_STATEMENTS_MAX = 2000
_GAPS_KEPT = 500
# A sample that is late by this number of intervals leaves a gap.
_GAP_INTERVALS = 3
_RULE_OF_THREE = 3.0
_STRETCHES_MAX = 240
# The collectors whose samples are added up.
TAKEN = ("database", "wal", "waits", "replication", "io")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SampleGap:
    """A time without samples. `time_ns` is its end."""

    time_ns: int
    length_ns: int


@dataclass(slots=True)
class _Stretch:
    """Several samples together: their number, and the sessions at work in them."""

    taken_count: int = 0
    by_event: Counter[str] = field(default_factory=Counter)
    by_statement: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: _Stretch) -> _Stretch:
        return _Stretch(
            self.taken_count + other.taken_count,
            self.by_event + other.by_event,
            self.by_statement + other.by_statement,
        )


class Stretches:
    """Samples of sessions at work in time order, added up over stretches of equal length.

    If there are too many stretches, two neighbours become one. So the memory has a limit.
    """

    def __init__(self) -> None:
        self._each = 1
        self._kept: list[_Stretch] = []

    def begin(self) -> None:
        """Begin the next sample."""
        if not self._kept or self._kept[-1].taken_count == self._each:
            if len(self._kept) == _STRETCHES_MAX:
                pairs = zip(self._kept[::2], self._kept[1::2], strict=True)
                self._kept = [first + second for first, second in pairs]
                self._each *= 2
            self._kept.append(_Stretch())
        self._kept[-1].taken_count += 1

    def add(self, event: str, statement: int, count: int) -> None:
        """Add sessions at work to the last sample.

        Args: event, what they wait for; statement, a query id; count, number of sessions.
        """
        self._kept[-1].by_event[event] += count
        self._kept[-1].by_statement[str(statement)] += count

    def first_seen_ratio(self, statement: str) -> float:
        """Return the share of the samples before the stretch that first has a statement."""
        before_count, taken_count = 0, sum(stretch.taken_count for stretch in self._kept)
        for stretch in self._kept:
            if statement in stretch.by_statement:
                return before_count / taken_count
            before_count += stretch.taken_count
        return 1.0

    def mean(self, seconds: float) -> Estimate | None:
        """Return the mean number of sessions at work; None without a sample.

        The half-width is at least 3/n for n samples (rule of three), because equal numbers may have
        missed something.
        Limits: the interval is too narrow if the load changes slowly during the watch.
        """
        if not self._kept:
            return None
        taken = np.array([stretch.taken_count for stretch in self._kept], dtype=np.float64)
        seen = np.array([stretch.by_event.total() for stretch in self._kept], dtype=np.float64)
        value, count = float(seen.sum() / taken.sum()), float(taken.sum())
        # The last stretch is shorter than the others.
        whole = (seen / taken)[taken == self._each]
        made = mean_of(whole, whole.size / max(seconds, 1e-9), 1.0, "sessions")
        if made.low is None or made.high is None:
            return Estimate(value, None, None, count, "sessions", "none")
        below = max(made.value - made.low, _RULE_OF_THREE / count)
        above = max(made.high - made.value, _RULE_OF_THREE / count)
        ends = max(value - below, 0.0), value + above
        return Estimate(value, *ends, count, "sessions", "within_run")

    def events(self, seconds: float, *, seed: int) -> Sampled:
        """Return mean sessions by wait event, with replicates for intervals."""
        return self._drawn([stretch.by_event for stretch in self._kept], seconds, seed)

    def statements(self, seconds: float, *, seed: int) -> Sampled:
        """Return mean sessions by query id (as text), with replicates for intervals."""
        return self._drawn([stretch.by_statement for stretch in self._kept], seconds, seed)

    def _drawn(self, groups: Sequence[Counter[str]], seconds: float, seed: int) -> Sampled:
        names = sorted(set[str]().union(*groups))
        counts = np.array([[group[name] for name in names] for group in groups], dtype=np.float64)
        taken = np.array([stretch.taken_count for stretch in self._kept], dtype=np.float64)
        return drawn_from_groups(names, counts, taken, seconds=seconds, seed=seed)


@dataclass(slots=True)
class Sums:
    """The sums over a span of time. Waits are numbers of sessions, added up over samples.

    `scale_ratio`: the server's count of sessions at work over that of the samples so far.
    `has_seen_workers`: samples saw parallel workers. `counts_workers`: the server counts them, so
    that they are not among the transactions (PostgreSQL 18 and later).
    """

    span_ns: int = 0
    transactions: int = 0
    has_seen_workers: bool = False
    counts_workers: bool = False
    active_ns: int = 0
    own_active_ns: int = 0
    own_active_least_ns: int = 0
    active_span_ns: int = 0
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
    scale_ratio: float = 1.0

    @property
    def tps(self) -> float | None:
        """Return commits per second of the whole server; None without a time."""
        # Server and lab may count a transaction of the lab in different intervals.
        return max(0, self.transactions) / (self.span_ns / 1e9) if self.span_ns else None

    @property
    def has_uncounted_workers(self) -> bool:
        """Return whether parallel workers are among the transactions."""
        return self.has_seen_workers and not self.counts_workers

    @property
    def active(self) -> float | None:
        """Return the mean number of sessions at work; None if they are not visible."""
        if not self.wait_samples:
            return None
        return self.scale_ratio * self.by_event.total() / self.wait_samples

    @property
    def wal_bytes_per_second(self) -> float | None:
        """Return WAL bytes per second; None without a time."""
        return self.wal_bytes / (self.wal_span_ns / 1e9) if self.wal_span_ns else None

    @property
    def disk_bytes_per_second(self) -> tuple[float, float] | None:
        """Return bytes read and written per second of the busiest disk; None if not visible."""
        if not self.disk_span_ns:
            return None
        seconds = self.disk_span_ns / 1e9
        return self.disk_read_bytes / seconds, self.disk_written_bytes / seconds

    @property
    def hit_ratio(self) -> float | None:
        """Return the share of blocks found in shared_buffers, 0..1."""
        total = self.blocks_hit + self.blocks_read
        return self.blocks_hit / total if total else None


class Tally:
    """Sums since the begin of the watch, and sums since the last call of `look`.

    The observer's threads call it, and code that reads stored samples.
    """

    def __init__(self, interval_ns: int) -> None:
        self._lock = threading.Lock()
        self._late_ns = _GAP_INTERVALS * max(interval_ns, 1_000_000_000)
        self._database: dict[str, int] = {}
        self._wal: Row = {}
        self._disks: dict[str, Row] = {}
        self._recent = Sums()
        self.total = Sums()
        self.gaps: list[SampleGap] = []
        self.gap_count = 0
        self.reset_count = 0
        self.peak_sessions = 0
        # This role may not see the sessions of others.
        self.has_hidden = False
        self.stretches = Stretches()
        self.clocks = EventClocks()
        self.connections = 0
        self.replay_lag_ns: int | None = None
        self.began_ns = 0
        self.ended_ns = 0

    def take(self, collector: str, rows: Sequence[Row]) -> None:
        """Add the rows of one sample. Rows of collectors outside `TAKEN` are ignored."""
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
            elif collector == "io":
                self.clocks.has_io_view = True
            elif collector == "replication":
                lags = [row["replay_lag_ns"] for row in rows if row["replay_lag_ns"] is not None]
                # Stored samples have NaN for null.
                self.replay_lag_ns = max((int(lag) for lag in lags if lag == lag), default=0)

    def look(self) -> Sums:
        """Return the sums since the last call."""
        with self._lock:
            recent, self._recent = self._recent, Sums()
            return recent

    def close(self, now_ns: int) -> None:
        """Count a gap that lasts until now, because the server has not come back."""
        with self._lock:
            length_ns = now_ns - self.ended_ns
            if self.ended_ns and length_ns > self._late_ns:
                self._leave_gap(SampleGap(now_ns, length_ns))

    @property
    def seen_ns(self) -> int:
        """Return the watched time without gaps."""
        return self.total.span_ns

    def at_work(self) -> AtWork | None:
        """Return the sessions at work, by the server's count if it can be used."""
        with self._lock:
            total, counted = self.total, None
            sampled = self.stretches.mean(total.span_ns / 1e9)
            if total.active_span_ns:
                own_ns, error_ns = own_time(total.own_active_ns, total.own_active_least_ns)
                counted = CountedTime(total.active_ns, own_ns, error_ns, total.active_span_ns)
            bare = total.by_event[""] / total.wait_samples if total.wait_samples else 0.0
            seen = total.by_event.total()
            return at_work(sampled, seen_count=seen, bare_count=bare, counted=counted)

    def counted_events(self) -> list[tuple[tuple[str, ...], float, float]]:
        """Return events that a clock of the server counted: mean sessions, half-width of error."""
        with self._lock:
            return self.clocks.counted(self.total.by_event)

    def _take_database(self, rows: Sequence[Row]) -> None:
        now = {name: sum(int(row[name]) for row in rows) for name in _ADDED_UP}
        time_ns, interval_ns = int(rows[0]["time_ns"]), int(rows[0]["interval_ns"])
        workers = _sum_known(rows, "parallel_transactions")
        for sums in (self.total, self._recent):
            sums.counts_workers = any(_known(row, "parallel_transactions") for row in rows)
        now |= {"workers": workers, "own": _sum_known(rows, "own_transactions"), "time_ns": time_ns}
        now |= {name: _sum_known(rows, name) for name in (*_ACTIVE, *IO_CLOCKS)}
        now["reset_ns"] = max(int(row["stats_reset_ns"]) for row in rows)
        before, self._database = self._database, now
        self.connections = sum(int(row["connections"]) for row in rows)
        self.began_ns, self.ended_ns = self.began_ns or time_ns, time_ns
        if not before:
            return
        elapsed_ns = time_ns - before["time_ns"]
        if interval_ns == 0 or interval_ns > self._late_ns:
            self._leave_gap(SampleGap(time_ns, elapsed_ns))
            return
        grown = {name: now[name] - before[name] for name in _ADDED_UP}
        if now["reset_ns"] != before["reset_ns"] or min(grown.values()) < 0:
            self.reset_count += 1
            return
        own = now["own"] - before["own"]
        for sums in (self.total, self._recent):
            sums.span_ns += elapsed_ns
            sums.transactions += grown["xact_commit"] - own - (workers - before["workers"])
            sums.blocks_hit += grown["blks_hit"]
            sums.blocks_read += grown["blks_read"]
        active_ns, own_ns, least_ns = (now[name] - before[name] for name in _ACTIVE)
        if now["active_time_ns"] and active_ns >= 0:
            for name in IO_CLOCKS:
                self.clocks.take(name, now[name] - before[name], elapsed_ns)
            for sums in (self.total, self._recent):
                sums.active_span_ns += elapsed_ns
                sums.active_ns += active_ns
                sums.own_active_ns += own_ns
                sums.own_active_least_ns += least_ns

    def _take_wal(self, row: Row) -> None:
        before, self._wal = self._wal, row
        if not before or not row["interval_ns"]:
            return
        grown = int(row["position_bytes"]) - int(before["position_bytes"])
        if grown < 0:
            return  # The timeline changed: a standby was promoted.
        elapsed_ns = int(row["time_ns"]) - int(before["time_ns"])
        for name in WAL_CLOCKS:
            clock_ns = _sum_known([row], name) - _sum_known([before], name)
            self.clocks.take(name, clock_ns, elapsed_ns)
        for sums in (self.total, self._recent):
            sums.wal_bytes += grown
            sums.wal_span_ns += elapsed_ns

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
        # A disk can be a part of another disk, so their rates are not added up.
        read, written, span_ns = max(
            grown, key=lambda bytes_grown: bytes_grown[0] + bytes_grown[1], default=(0, 0, 0)
        )
        for sums in (self.total, self._recent):
            sums.disk_read_bytes += max(0, read)
            sums.disk_written_bytes += max(0, written)
            sums.disk_span_ns += span_ns

    def _leave_gap(self, gap: SampleGap) -> None:
        self.gap_count += 1
        self.gaps = [*self.gaps[-_GAPS_KEPT:], gap]

    def _take_waits(self, rows: Sequence[Row]) -> None:
        if any(row["backend_type"] == UNSEEN for row in rows):
            self.has_hidden = True
            return  # To count none would be wrong.
        active = 0
        has_workers = any(row["backend_type"] == PARALLEL_WORKER for row in rows)
        self.stretches.begin()
        self.clocks.take_sample(rows)
        for row in rows:
            if not is_at_work(row):
                continue
            count, event, statement = int(row["count"]), str(row["wait_event"]), row["query_id"]
            event = "" if event == ANSWERED else event
            active += count
            for sums in (self._recent, self.total):
                sums.by_event[event] += count
                known = sums.by_statement
                place = statement if statement in known or len(known) < _STATEMENTS_MAX else 0
                known.setdefault(place, Counter())[event] += count
            self.stretches.add(event, place, count)
        for sums in (self.total, self._recent):
            sums.has_seen_workers |= has_workers
            sums.wait_samples += 1
        self.peak_sessions = max(self.peak_sessions, active)


def _sum_known(rows: Sequence[Row], name: str) -> int:
    """Return the sum of a column; 0 if the server or an older result does not have it."""
    return sum(int(row[name]) for row in rows if _known(row, name))


def _known(row: Row, name: str) -> bool:
    """Return whether a row has a value; stored samples have NaN for null."""
    value = row.get(name)
    return value is not None and value == value
