"""The work during the load at the moment of a crash, such as a checkpoint or CREATE INDEX.

The statements of a phase are sent again and again until the crash, without waiting for answers, so
most crashes hit one of them in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psycopg
from psycopg import pq

from pgdyno.clock import monotonic_ns
from pgdyno.features.crash.moments import Phase
from pgdyno.process import signals
from pgdyno.server.connect import connect
from pgdyno.server.dataset.inspection import schemas_of
from pgdyno.server.target import Target


@dataclass(frozen=True, slots=True)
class StatementLoop:
    """Statements that are sent in turn, with a pause before each turn."""

    statements: Sequence[str]
    pause_ns: int = 0


_LONGEST_WAIT_NS = 500_000_000
_STEP_NS = 1_000_000
# Clients of the load have smaller numbers.
FIRST_IDLE_ACCOUNT = 1000
# A switch fills a file of 16 MB each time. An index locks out writers, who need time, too.
ACTIVITIES: Mapping[Phase, StatementLoop] = {
    "checkpoint": StatementLoop(["CHECKPOINT"]),
    "WAL switch": StatementLoop(["SELECT pg_catalog.pg_switch_wal()"], pause_ns=40_000_000),
    "CREATE INDEX": StatementLoop(
        [
            "CREATE INDEX pgdyno_ledger_crash ON pgdyno_ledger (payload, amount)",
            "DROP INDEX pgdyno_ledger_crash",
        ],
        pause_ns=10_000_000,
    ),
    # It rewrites pages that a checkpoint has just written: these are the pages that can be torn.
    "UPDATE": StatementLoop(
        [
            "CHECKPOINT",
            "UPDATE pgdyno_ledger_balances SET balance = balance"
            f" WHERE client >= {FIRST_IDLE_ACCOUNT}",
        ]
    ),
    "VACUUM": StatementLoop(["VACUUM pgdyno_ledger_balances, pgdyno_ledger"]),
    "DDL": StatementLoop(
        [
            "CREATE TABLE pgdyno_ledger_crash AS SELECT * FROM pgdyno_ledger LIMIT 500",
            "ALTER TABLE pgdyno_ledger_crash ADD COLUMN more text DEFAULT 'more'",
            "ALTER TABLE pgdyno_ledger_crash ALTER COLUMN amount TYPE numeric",
            "DROP TABLE pgdyno_ledger_crash",
        ],
    ),
}


class Activity:
    """The statements of one phase in a session that nobody waits for."""

    def __init__(self, target: Target, phase: Phase) -> None:
        repeated = ACTIVITIES.get(phase)
        self.sent_count = 0
        self._statements = repeated.statements if repeated is not None else ()
        self._pause_ns = repeated.pause_ns if repeated is not None else 0
        self._session = connect(target, verb="crash", run=phase) if self._statements else None
        if self._session is not None:
            self._session.use_path(schemas_of(self._session, ["pgdyno_ledger"]))
        self._send_from_ns = 0

    @property
    def is_running(self) -> bool:
        """Return whether the server is working at a statement now."""
        if self._session is None:
            return False
        self._take_answers()
        return self._session.pgconn.transaction_status == pq.TransactionStatus.ACTIVE

    def until(self, end_ns: int) -> None:
        """Repeat the statements until this moment of the monotonic clock."""
        while (now_ns := monotonic_ns()) < end_ns:
            rest_s = (end_ns - now_ns) / 1e9
            if self._session is None:
                signals.sleep(rest_s)
                continue
            self._take_answers()
            pgconn = self._session.pgconn
            if pgconn.transaction_status == pq.TransactionStatus.IDLE:
                if now_ns < self._send_from_ns:
                    signals.sleep(min(rest_s, (self._send_from_ns - now_ns) / 1e9))
                    continue
                statement = self._statements[self.sent_count % len(self._statements)]
                pgconn.send_query(statement.encode())
                self.sent_count += 1
            elif pgconn.transaction_status != pq.TransactionStatus.ACTIVE:
                return  # The server is gone; the crash itself says why.
            signals.wait_readable([pgconn.socket], rest_s)

    def until_running(self, then_ns: int) -> bool:
        """Wait for a statement to be in progress, then `then_ns`; True if one is at the end.

        If one is in progress now, this returns at once.
        """
        deadline_ns = monotonic_ns() + _LONGEST_WAIT_NS
        if self._session is not None and not self.is_running:
            while not self.is_running and monotonic_ns() < deadline_ns:
                self.until(monotonic_ns() + _STEP_NS)
            signals.sleep(then_ns / 1e9)
        return self.is_running

    def close(self) -> None:
        """Drop the session, whose server may be gone."""
        if self._session is not None:
            with suppress(psycopg.Error):
                self._session.close()

    def _take_answers(self) -> None:
        assert self._session is not None
        pgconn = self._session.pgconn
        if pgconn.transaction_status != pq.TransactionStatus.ACTIVE:
            return
        with suppress(psycopg.Error):
            pgconn.consume_input()
            while not pgconn.is_busy() and pgconn.get_result() is not None:
                self._send_from_ns = monotonic_ns() + self._pause_ns
