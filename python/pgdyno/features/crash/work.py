"""The work until the moment of a crash: the load, its journal, the statements of the phase."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.engine import job
from pgdyno.engine.commit_journal import Fate, read_commit_journal
from pgdyno.engine.records import Phase, Record
from pgdyno.engine.stream import EngineOutcome, EngineRun
from pgdyno.errors import EngineError, PgdynoError, ServerError
from pgdyno.features.crash.activity import Activity
from pgdyno.features.crash.losses import SentCommit
from pgdyno.features.crash.moments import PlannedCrash
from pgdyno.features.crash.record import CrashRecord
from pgdyno.features.crash.request import CrashRequest
from pgdyno.measure.jobs import engine_target, threads_for
from pgdyno.process import signals
from pgdyno.server.connect import Connection, connect
from pgdyno.server.target import Target

_POLL_S = 0.02
_LONGEST_NS = 24 * 3600 * 1_000_000_000
_CONNECT_NS = 30_000_000_000
_DRAIN_NS = 200_000_000
_BEGIN_POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class CrashSetup:
    """What all crashes of a command share. `kept_in`: the folder of the result."""

    request: CrashRequest
    clock: ClockPair
    kept_in: Path


class CommittingClients:
    """Clients that commit, and a session that repeats the statements of the phase.

    The clients are the ledger program of the engine, whose commits are in a journal. Use it as a
    context manager: nothing of it outlives the block.
    """

    def __init__(
        self,
        bench: CrashSetup,
        planned: PlannedCrash,
        target: Target,
        *,
        arm: str,
        sessions: Target | None = None,
        outlasts_crashes: bool = True,
    ) -> None:
        """Connect the session of the phase.

        Args: target, where this session connects; sessions, where the clients connect, if not
        there; outlasts_crashes, whether clients connect again after the crash.
        """
        self._planned, self._arm = planned, arm
        name = f"journal-{arm or 'crash'}-{planned.number}".replace(" ", "-")
        # Outside of what will crash.
        self._journal = bench.kept_in / name
        self._activity = Activity(target, planned.phase)
        self._job = _job(
            bench, planned, sessions or target, self._journal, outlasts_crashes=outlasts_crashes
        )
        self._began_ns = self._load_ns = 0
        self._has_begun = threading.Event()
        self._outcome: EngineOutcome | None = None
        self._error: PgdynoError | None = None

    def __enter__(self) -> Self:
        self._engine = EngineRun(self._job)
        self._reader = threading.Thread(target=self._read, name="engine records", daemon=True)
        self._reader.start()
        try:
            self._await_begin()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self._began_ns = monotonic_ns()
        return self

    def __exit__(self, *details: object) -> None:
        with signals.shielded():
            self._engine.end()
            self._reader.join()
            self._engine.__exit__(*details)
        self._activity.close()

    def until_end_of_load(self) -> None:
        """Work for the planned time."""
        self._activity.until(self._began_ns + self._planned.load_ns)

    def until_moment(self) -> bool:
        """Wait for the moment of the crash; return whether the work of the phase is running."""
        if self._planned.phase == "idle":
            self.stop()
            signals.sleep(self._planned.pause_ns / 1e9)
        is_running = self._activity.until_running(self._planned.pause_ns)
        self._load_ns = monotonic_ns() - self._began_ns
        return is_running or self._planned.phase in ("load", "idle")

    def go_on(self, time_s: float) -> None:
        """Work for a further time."""
        self._activity.until(monotonic_ns() + int(time_s * 1e9))
        self._load_ns = monotonic_ns() - self._began_ns

    def record(self, *, hit: bool, **seen: Any) -> CrashRecord:
        """Return the record of the crash, with what is known at its moment.

        Args: hit, whether the work of the phase was running; seen, further fields.
        """
        return CrashRecord(
            number=self._planned.number,
            arm=self._arm,
            phase=self._planned.phase,
            seed=self._planned.seed,
            load_ns=self._load_ns,
            hit=hit,
            **seen,
        )

    def stop(self) -> None:
        """End the clients, and wait until their journal is complete."""
        with signals.shielded():
            self._engine.stop()
            self._reader.join()

    def longest_gap_ns(self, crashed_ns: int, ended_ns: int) -> int:
        """Return the longest time in which one of the clients had no commit acknowledged.

        Args: crashed_ns and ended_ns, Unix times; the time begins with the load.
        """
        began_ns = crashed_ns - self._load_ns
        journal = read_commit_journal(self._journal)
        gaps = journal.longest_gaps(began_ns=began_ns, ended_ns=ended_ns)
        return max((gap.length_ns for gap in gaps.values()), default=ended_ns - began_ns)

    def commits(self) -> list[SentCommit]:
        """Return what the clients sent and what they know of it, and remove the journal."""
        journal = read_commit_journal(self._journal)
        columns = (journal.client, journal.sequence, journal.xid, journal.sent_ns)
        ends = (journal.fate, journal.ended_ns)
        rows = zip(*(column.tolist() for column in (*columns, *ends)), strict=True)
        commits = [
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
        self._journal.unlink(missing_ok=True)
        return commits

    def _await_begin(self) -> None:
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

    def _read(self) -> None:
        try:
            self._outcome = self._engine.run(self._see)
        except PgdynoError as error:
            self._error = error

    def _see(self, _line: bytes, record: Record) -> None:
        if isinstance(record, Phase) and record.phase == "measure":
            self._has_begun.set()


def _job(
    bench: CrashSetup,
    planned: PlannedCrash,
    target: Target,
    journal: Path,
    *,
    outlasts_crashes: bool,
) -> job.Job:
    """Return the job of the engine: the ledger program, until it is stopped."""
    clients, clock = bench.request.clients, bench.clock
    work = job.LoadWork(
        threads=threads_for(clients, None),
        seed=planned.seed,
        protocol="prepared",
        scripts=(job.ScriptSource(name="ledger", source=job.BuiltinScript(builtin="ledger")),),
        arrivals=job.ClosedLoop(clients=clients),
        connect=job.Connect(timeout_ns=_CONNECT_NS, outlasts_crashes=outlasts_crashes),
        warm_ns=0,
        measure=job.MeasureDuration(duration_ns=_LONGEST_NS),
        drain_ns=_DRAIN_NS,
        journal=str(journal),
    )
    pair = job.ClockPairModel(monotonic_ns=clock.monotonic_ns, unix_ns=clock.unix_ns)
    to = engine_target(target, "pgdyno/crash/load", follows=outlasts_crashes)
    return job.Job(clock=pair, target=to, work=work)


def connected(
    target: Target,
    *,
    timeout_s: float,
    is_ready: Callable[[Connection], bool] = lambda _: True,
) -> Connection:
    """Return a connection as soon as the server answers and is ready.

    Raises: after `timeout_s`, the ServerError of the last try, or TimeoutError if it answers.
    """
    deadline_ns = monotonic_ns() + int(timeout_s * 1e9)
    while True:
        try:
            connection = connect(target, verb="crash")
        except ServerError:
            if monotonic_ns() > deadline_ns:
                raise
        else:
            while not is_ready(connection):
                if monotonic_ns() > deadline_ns:
                    connection.close()
                    raise TimeoutError
                signals.sleep(_POLL_S)
            return connection
        signals.sleep(_POLL_S)
