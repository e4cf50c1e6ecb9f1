"""The work until the moment of a crash: the load, its journal, the statements of the phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.errors import ServerError
from pgdyno.features.crash.activity import Activity
from pgdyno.features.crash.load import LedgerLoad
from pgdyno.features.crash.losses import SentCommit
from pgdyno.features.crash.moments import PlannedCrash
from pgdyno.features.crash.record import CrashRecord
from pgdyno.process import signals
from pgdyno.server.connect import Connection, connect
from pgdyno.server.target import Target

_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashSetup:
    """What all crashes of a command share. `kept_in`: the folder of the result."""

    clients: int
    clock: ClockPair
    kept_in: Path
    recovery_timeout_s: float
    check_sql: Sequence[str] = ()

    def record(self, planned: PlannedCrash, arm: str, **seen: Any) -> CrashRecord:
        """Return the record of a crash, with what is known at its moment."""
        return CrashRecord(
            number=planned.number, arm=arm, phase=planned.phase, seed=planned.seed, **seen
        )


class CommittingClients:
    """Clients that commit, and a session that repeats the statements of the phase.

    Use it as a context manager: it begins with the block, and nothing of it outlives the block.
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
        self._bench, self._planned = bench, planned
        name = f"journal-{arm or 'crash'}-{planned.number}".replace(" ", "-")
        self._journal = bench.kept_in / name
        self._activity = Activity(target, planned.phase)
        self._sessions = sessions or target
        self._outlasts_crashes = outlasts_crashes
        self._began_ns = self._load_ns = 0

    def __enter__(self) -> Self:
        self._load = LedgerLoad(
            self._sessions,
            self._journal,
            clients=self._bench.clients,
            seed=self._planned.seed,
            clock=self._bench.clock,
            outlasts_crashes=self._outlasts_crashes,
        )
        try:
            self._load.await_begin()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self._began_ns = monotonic_ns()
        return self

    def __exit__(self, *details: object) -> None:
        self._load.__exit__(*details)
        self._activity.close()

    @property
    def load_ns(self) -> int:
        """Return how long the clients had worked at the moment of the crash."""
        return self._load_ns

    def until_end_of_load(self) -> None:
        """Work for the planned time."""
        self._activity.until(self._began_ns + self._planned.load_ns)

    def until_moment(self) -> bool:
        """Wait for the moment of the crash; return whether the work of the phase is running."""
        if self._planned.phase == "idle":
            self._load.stop()
            signals.sleep(self._planned.pause_ns / 1e9)
        is_running = self._activity.until_running(self._planned.pause_ns)
        self._load_ns = monotonic_ns() - self._began_ns
        return is_running or self._planned.phase in ("load", "idle")

    def go_on(self, time_s: float) -> None:
        """Work for a further time."""
        self._activity.until(monotonic_ns() + int(time_s * 1e9))
        self._load_ns = monotonic_ns() - self._began_ns

    def stop(self) -> None:
        """End the clients, and wait until their journal is complete."""
        self._load.stop()

    def longest_gap_ns(self, began_ns: int, ended_ns: int) -> int:
        """Return the longest time in which one of the clients had no commit acknowledged."""
        return self._load.longest_gap_ns(began_ns, ended_ns)

    def commits(self) -> list[SentCommit]:
        """Return what the clients sent and what they know of it, and remove the journal."""
        commits = self._load.commits()
        self._journal.unlink(missing_ok=True)
        return commits


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
