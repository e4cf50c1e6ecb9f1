"""Variants that take turns within one load: changes the settings, and notes what was read when."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

import psycopg

from pgdyno.clock import ClockPair
from pgdyno.engine.records import Interval, Phase, Record
from pgdyno.errors import ServerError, SpecError
from pgdyno.measure.servers import Servers
from pgdyno.measure.under_test import UnderTest
from pgdyno.process import signals
from pgdyno.server.connect import Connection, connect
from pgdyno.spec.planned import PlannedRun

TURNS = "turns.json"
"""The document of a run: each turn with its variant, its window, and its WAL."""
# A session reads a changed configuration between two statements. So a turn counts only after this
# time and this number of latencies, but at the latest after half of it. If the change itself takes
# longer, the turn ends later, because it counts for at least half of its length.
_SETTLE_NS = 200_000_000
_SETTLE_LATENCIES = 1.5
_WAL = "SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() - '0/0' END"


class Turns:
    """The turns of one load; use it as a context manager. A run without turns has none to do."""

    def __init__(
        self,
        planned: PlannedRun,
        servers: Servers,
        under_test: UnderTest,
        *,
        clock: ClockPair,
        name: str,
    ) -> None:
        """Args: planned, whose cell has the variant at the begin; name, of the run."""
        assert planned.cell.variant is not None or not planned.turns, "turns are of variants"
        self._planned = planned
        self._servers, self._clock, self._name = servers, clock, name
        self._under_test = under_test
        self._began_ns = 0
        self._settled_ns = 0
        self._latency_sum_ns = self._ended_count = 0
        self._done: list[dict[str, Any]] = []
        self._wal: Connection | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._planned.turns:
            there = connect(self._under_test.observe, verb="observe", run=self._name)
            self._wal = self._stack.enter_context(there)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def see(self, record: Record) -> None:
        """Change the settings if the next turn is due. Args: record, of the engine."""
        if not self._planned.turns:
            return
        if isinstance(record, Phase) and record.phase == "measure":
            if record.event == "begin":
                self._began_ns = record.time_ns
                self._begin()
            else:
                self._end(record.time_ns)
        elif isinstance(record, Interval) and record.phase == "measure" and self._done:
            self._latency_sum_ns += record.latency_sum_ns
            self._ended_count += record.counts.completed
            from_ns, turn_ns = self._done[-1]["from_ns"], self._planned.turn_ns
            due_ns = self._began_ns + len(self._done) * turn_ns
            if not from_ns and record.time_ns >= self._settled_ns:
                self._done[-1] |= {"from_ns": record.time_ns, "wal_bytes": self._written()}
            elif from_ns and record.time_ns >= max(due_ns, from_ns + turn_ns // 2):
                self._end(record.time_ns)
                if len(self._done) < len(self._planned.turns):
                    self._begin()

    def document(self) -> dict[str, Any]:
        """Return each turn: variant, window, WAL that was written, and why it was refused."""
        return {"turns": self._done}

    def _begin(self) -> None:
        turn = self._planned.turns[len(self._done)]
        running, refused = self._planned.cell.variant, ""
        assert running is not None
        try:
            # A signal ends the load cleanly; it must not end a change in the middle.
            with signals.shielded():
                self._servers.switch(running, turn)
        except (ServerError, SpecError) as error:
            refused = error.message
        latency_ns = self._latency_sum_ns / self._ended_count if self._ended_count else 0.0
        wait_ns = _SETTLE_NS + round(_SETTLE_LATENCIES * latency_ns)
        half_ns = self._planned.turn_ns // 2
        due_ns = self._began_ns + len(self._done) * self._planned.turn_ns
        now_ns = self._clock.now_ns()
        self._settled_ns = max(now_ns + _SETTLE_NS, min(now_ns + wait_ns, due_ns + half_ns))
        self._latency_sum_ns = self._ended_count = 0
        self._done.append({"variant": turn.id, "from_ns": 0, "to_ns": 0, "refused": refused})

    def _end(self, now_ns: int) -> None:
        """End the present turn; what it wrote since its window began is known now."""
        if not self._done or self._done[-1]["to_ns"]:
            return
        turn, after = self._done[-1], self._written()
        before = turn.get("wal_bytes")
        written = None if before is None or after is None else after - before
        turn |= {"to_ns": now_ns, "wal_bytes": written}

    def _written(self) -> int | None:
        """Return the WAL position in bytes, None if it cannot be read."""
        if self._wal is None:
            return None
        try:
            row = self._wal.execute(_WAL).fetchone()
        except psycopg.Error:
            return None
        return None if row is None or row[0] is None else int(row[0])
