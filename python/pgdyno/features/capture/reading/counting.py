"""Counts what the source does while a capture goes on: counters, and looks at the sessions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import psycopg

from pgdyno.clock import monotonic_ns
from pgdyno.errors import ServerError
from pgdyno.features.capture.reading import counted
from pgdyno.features.capture.reading.connection import SourceConnection
from pgdyno.features.capture.reading.counted import Counted, Snapshot, Totals
from pgdyno.features.capture.reading.schema import Rows
from pgdyno.features.capture.reading.sources import LOOKS, LOOKS_RATIO, POLL_S_MAX, POLL_S_MIN
from pgdyno.observe.session import REPORT_SQL
from pgdyno.process import signals

_LOOKS_COMPARED = 60
_SNAPSHOTS = 60
_SNAPSHOT_S_MIN, _SNAPSHOT_S_MAX = 1.0, 60.0
_RETRY_S = 1.0
_FORCES_REPORTS = 15


@dataclass(slots=True)
class CaptureProgress:
    """What is known while a capture goes on."""

    seconds: float
    transactions_tps: float
    active_sessions: float
    statements: int


@dataclass(slots=True)
class Counting:
    """Counts for `seconds`.

    `place`: the name of the server; `home`: the schema of pg_stat_statements, empty if it cannot be
    read. `moved` is called each second; `checkpoint` when the file should be written; `lost` with
    the words for a lost connection.
    """

    source: SourceConnection
    place: str
    home: str
    seconds: float
    moved: Callable[[CaptureProgress], None] = field(repr=False)
    checkpoint: Callable[[], None] = field(repr=False)
    lost: Callable[[str], None] = field(repr=False)
    counted: Counted = field(default_factory=Counted)
    _began_ns: int = 0
    _first: Totals | None = None

    @property
    def second(self) -> float:
        """Return how many seconds have passed; 0 before it begins."""
        return (monotonic_ns() - self._began_ns) / 1e9 if self._began_ns else 0.0

    def run(self) -> None:
        """Count until the time is over.

        Raises: InterruptedByUser; ServerError if the server was lost before the first counters, and
        did not come back.
        """
        self._began_ns = monotonic_ns()
        self.source.outlast_interrupts()
        self._begin()
        self._count()

    def finish(self) -> None:
        """Read the last counters. Raises: psycopg.Error."""
        self.counted.seconds = self.second
        if self._first is None:
            # Without them the counters since the server was made would count.
            self.counted.losses.append("the capture was ended before its first counters")
            return
        self._take_snapshot()
        self.counted.totals = self._totals().since(self._first)

    def _begin(self) -> None:
        while self._first is None:
            try:
                if self.home:
                    self.counted.first = self._read_snapshot()
                self._first = self._totals()
            except psycopg.Error as error:
                if not self._is_back_after(error):
                    raise ServerError(
                        f"{self.place} was lost before the first counters, and did not come back"
                        f" within {self.seconds:g} s.",
                        hint="start the capture again when the server is up",
                    ) from error

    def _transactions(self) -> tuple[int, int]:
        """Return how many transactions of others were committed and rolled back until now."""
        source = self.source
        if source.version >= _FORCES_REPORTS:
            # Otherwise the server counts our last transactions up to a second later.
            source.fetch(REPORT_SQL)
        [(commits, rollbacks, sessions)] = source.fetch(counted.DATABASE_SQL) or [(0, 0, 0)]
        return commits - sessions - source.sent_count, rollbacks

    def _totals(self) -> Totals:
        return Totals(*self._transactions(), *self.source.fetch(counted.TABLES_SQL)[0])

    def _count(self) -> None:
        assert self._first is not None, "the first counters are read before"
        every_s = min(max(self.seconds / _SNAPSHOTS, _SNAPSHOT_S_MIN), _SNAPSHOT_S_MAX)
        next_snapshot, next_second, next_checkpoint = every_s, 1.0, 10 * every_s
        before: int | None = self._first.ended
        active: list[int] = []
        looks_s: deque[float] = deque(maxlen=_LOOKS_COMPARED)
        while self.second < self.seconds:
            try:
                self.counted.sessions.add(self._look(looks_s))
                # Short transactions are now at their next statements: this tells the order.
                for _ in range(LOOKS - 1):
                    self.counted.sessions.follow(self._look(looks_s))
                active.append(self.counted.sessions.active_counts[-1])
                if self.second >= next_second:
                    now = sum(self._transactions())
                    if before is not None:
                        self._end_second(max(0, now - before), active)
                    before, active, next_second = now, [], next_second + 1
                if self.second >= next_snapshot:
                    self._take_snapshot()
                    next_snapshot += every_s
                    if self.second >= next_checkpoint:
                        next_checkpoint *= 2
                        self.checkpoint()
            except psycopg.Error as error:
                if not self._is_back_after(error):
                    return
                before = None
            # On a busy machine looks wait for a core, too: the shortest of the last ones tells
            # what a look costs.
            cost_s = LOOKS * min(looks_s, default=0.0)
            pause_s = min(max(cost_s / LOOKS_RATIO, POLL_S_MIN), POLL_S_MAX)
            signals.sleep(max(0.0, min(pause_s, self.seconds - self.second)))

    def _look(self, looks_s: deque[float]) -> Rows:
        """Return what the sessions do now; add how long the answer took."""
        began_s = self.second
        source = self.source
        rows = source.fetch(counted.activity_sql(source.version, source.database_oid))
        looks_s.append(self.second - began_s)
        return rows

    def _end_second(self, transactions: int, active: list[int]) -> None:
        so_far = self.counted
        so_far.transactions.append(float(transactions))
        so_far.active_sessions.append(sum(active) / max(len(active), 1))
        statements = len(so_far.snapshots[-1].counters) if so_far.snapshots else 0
        self.moved(
            CaptureProgress(
                self.second, float(transactions), so_far.active_sessions[-1], statements
            )
        )

    def _read_snapshot(self) -> Snapshot:
        ended = sum(self._transactions())
        snapshot = counted.read_snapshot(self.source.fetch, self.source.version, self.home)
        return replace(snapshot, ended_count=ended)

    def _take_snapshot(self) -> None:
        if not self.home:
            return
        so_far = self.counted
        snapshot = self._read_snapshot()
        last = so_far.snapshots[-1] if so_far.snapshots else so_far.first
        so_far.resets += last is not None and last.reset_at != snapshot.reset_at
        so_far.snapshots.append(snapshot)

    def _is_back_after(self, error: psycopg.Error) -> bool:
        """Connect again; return False if the time is over before the server is back.

        Raises: the error if it did not end the connection.
        """
        if not self.source.is_lost:
            raise error
        self.source.give_up()
        lost_at = self.second
        self.lost("the connection was lost; pgdyno connects again")
        while True:
            try:
                self.source.open()
                self.source.outlast_interrupts()
                break
            except (ServerError, psycopg.Error):
                if self.second >= self.seconds:
                    self.counted.losses.append("the server did not come back")
                    return False
                signals.sleep(_RETRY_S)
        gap_s = self.second - lost_at
        self.counted.losses.append(f"the server was away for {gap_s:.0f} s: nothing was counted")
        return True
