"""The load of a crash: the ledger program of the engine, whose commits are in a journal."""

from __future__ import annotations

import threading
from pathlib import Path

from pgdyno.clock import ClockPair
from pgdyno.engine.commit_journal import Fate, read_commit_journal
from pgdyno.engine.job import (
    BuiltinScript,
    ClockPairModel,
    ClosedLoop,
    Connect,
    Job,
    LoadWork,
    MeasureDuration,
    ScriptSource,
)
from pgdyno.engine.records import Phase, Record
from pgdyno.engine.stream import EngineOutcome, EngineRun
from pgdyno.errors import EngineError, PgdynoError
from pgdyno.features.crash.losses import SentCommit
from pgdyno.measure.jobs import engine_target, threads_for
from pgdyno.process import signals
from pgdyno.server.target import Target

_LONGEST_NS = 24 * 3600 * 1_000_000_000
_CONNECT_NS = 30_000_000_000
_DRAIN_NS = 200_000_000
_BEGIN_POLL_S = 0.005


class LedgerLoad:
    """A running load; use it as a context manager: the engine does not outlive the block."""

    def __init__(
        self,
        target: Target,
        journal: Path,
        *,
        clients: int,
        seed: int,
        clock: ClockPair,
        outlasts_crashes: bool = False,
    ) -> None:
        """Start the engine.

        Args: journal, a new file, outside of what will crash; outlasts_crashes, whether clients
        connect again and go on after the crash.
        """
        self._journal = journal
        self._has_begun = threading.Event()
        self._outcome: EngineOutcome | None = None
        self._error: PgdynoError | None = None
        work = LoadWork(
            threads=threads_for(clients, None),
            seed=seed,
            protocol="prepared",
            scripts=(ScriptSource(name="ledger", source=BuiltinScript(builtin="ledger")),),
            arrivals=ClosedLoop(clients=clients),
            connect=Connect(timeout_ns=_CONNECT_NS, outlasts_crashes=outlasts_crashes),
            warm_ns=0,
            measure=MeasureDuration(duration_ns=_LONGEST_NS),
            drain_ns=_DRAIN_NS,
            journal=str(journal),
        )
        pair = ClockPairModel(monotonic_ns=clock.monotonic_ns, unix_ns=clock.unix_ns)
        to = engine_target(target, "pgdyno/crash/load", follows=outlasts_crashes)
        self._engine = EngineRun(Job(clock=pair, target=to, work=work))
        self._reader = threading.Thread(target=self._read, name="engine records", daemon=True)
        self._reader.start()

    def __enter__(self) -> LedgerLoad:
        return self

    def __exit__(self, *details: object) -> None:
        with signals.shielded():
            self._engine.end()
            self._reader.join()
            self._engine.__exit__(*details)

    def await_begin(self) -> None:
        """Wait until the clients work.

        Raises: EngineError with the engine's own error if the load ends before.
        """
        while not self._has_begun.is_set():
            if not self._reader.is_alive():
                if self._error is not None:
                    raise self._error
                assert self._outcome is not None
                self._outcome.raise_if_nothing_was_measured()
                raise EngineError("The load ended before it began.")
            signals.sleep(_BEGIN_POLL_S)

    def stop(self) -> None:
        """End the load, and wait until its journal is complete."""
        with signals.shielded():
            self._engine.stop()
            self._reader.join()

    def longest_gap_ns(self, began_ns: int, ended_ns: int) -> int:
        """Return the longest time in which one of the clients had no commit acknowledged."""
        journal = read_commit_journal(self._journal)
        gaps = journal.longest_gaps(began_ns=began_ns, ended_ns=ended_ns)
        return max((gap.length_ns for gap in gaps.values()), default=ended_ns - began_ns)

    def commits(self) -> list[SentCommit]:
        """Return what the clients sent, and what they know of it."""
        journal = read_commit_journal(self._journal)
        columns = (journal.client, journal.sequence, journal.xid, journal.sent_ns)
        ends = (journal.fate, journal.ended_ns)
        rows = zip(*(column.tolist() for column in (*columns, *ends)), strict=True)
        return [
            SentCommit(
                client=client,
                sequence=sequence,
                xid=xid,
                sent_ns=sent_ns,
                acknowledged_ns=ended_ns if fate == Fate.ACKNOWLEDGED else None,
                is_aborted=fate == Fate.ABORTED,
            )
            for client, sequence, xid, sent_ns, fate, ended_ns in rows
        ]

    def _read(self) -> None:
        try:
            self._outcome = self._engine.run(self._see)
        except PgdynoError as error:
            self._error = error

    def _see(self, _line: bytes, record: Record) -> None:
        if isinstance(record, Phase) and record.phase == "measure":
            self._has_begun.set()
