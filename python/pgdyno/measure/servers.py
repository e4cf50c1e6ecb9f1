"""The servers of one experiment: which are there, and how one is made ready for a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, Literal, Protocol

from pgdyno.clock import ClockPair, monotonic_ns
from pgdyno.engine.job import Job
from pgdyno.measure.changes import Journal
from pgdyno.measure.checkup import new_checkup
from pgdyno.measure.under_test import UnderTest
from pgdyno.spec.planned import PlannedVariant

# What the time of a run is spent on: the load, the reset before it, loading data, and changing
# settings with or without a restart. `start`: everything before the load, so it overlaps the rest.
Part = Literal["load", "reset", "loading", "restart", "reload", "start"]


class HostFleet(Protocol):
    """Connected load hosts."""

    @property
    def hosts(self) -> Sequence[Any]:
        """The hosts; each has a `name`."""

    def threads_for(self, connections: int, asked: int | None) -> int:
        """Return the number of threads of a whole load, at most one for each connection."""

    def load(self, job: Job, clock: ClockPair, *, log: IO[bytes]) -> Any:
        """Return the load of one run on all hosts, with the interface of `EngineRun`."""

    def loading(self, job: Job, clock: ClockPair) -> Any:
        """Return the loading of a dataset from all hosts, with the interface of `EngineRun`."""


class Spent:
    """What the time of one run was spent on, in nanoseconds by part."""

    def __init__(self) -> None:
        self.began_ns = monotonic_ns()
        self.by_part_ns: Counter[str] = Counter()

    @contextmanager
    def on(self, part: Part) -> Iterator[None]:
        """Count the time of a block, also of one that fails."""
        began_ns = monotonic_ns()
        try:
            yield
        finally:
            self.add(part, monotonic_ns() - began_ns)

    def add(self, part: Part, time_ns: int) -> None:
        """Count time that was measured elsewhere."""
        self.by_part_ns[part] += time_ns

    @contextmanager
    def on_load(self) -> Iterator[None]:
        """Count the time of the load, and the time until it began."""
        self.by_part_ns["start"] = monotonic_ns() - self.began_ns
        with self.on("load"):
            yield


class Servers(ABC):
    """Every server of one experiment; `excluded`: id of a variant that cannot be measured -> why.

    `journal` keeps what is changed on a server that is not ours, before it is changed. `spent`:
    what the time of the present run is spent on. `fleet`: the load hosts; None: the load comes from
    this host. `checkup`: the examination of the server before each run.
    """

    def __init__(self) -> None:
        self.excluded: dict[str, str] = {}
        self.journal: Journal = _no_journal
        self.spent = Spent()
        self.fleet: HostFleet | None = None
        self.checkup = new_checkup()

    def begin_run(self) -> None:
        """Begin to count the time of a run."""
        self.spent = Spent()

    @abstractmethod
    def ready(
        self, variant: PlannedVariant | None, round_number: int = 0, *, restarts: bool = False
    ) -> UnderTest:
        """Return the server in the state that a run of the variant starts from.

        What a variant needs that was not there at the start is made when it is first used.
        Args: round_number, 0 for runs outside the rounds; restarts, restart it in any case.
        Raises: ServerError when it cannot be brought there.
        """

    def switch(self, running: PlannedVariant, after: PlannedVariant) -> None:
        """Give the server another variant's settings while a load runs, without a restart.

        Args: running, the variant that the server was made ready for.
        Raises: ServerError if the server refuses the settings; those before remain.
        """
        raise AssertionError(f"this server cannot change from {running.id} to {after.id}")

    def are_lost(self) -> bool:
        """Return whether no variant can be measured any more, because no server answers.

        A failed run says nothing about its variant then, and the experiment can go on later.
        """
        return False


def _no_journal(_entry: Mapping[str, Any]) -> None:
    raise AssertionError("a change needs a journal")


class OneServer(Servers):
    """A server without variants."""

    def __init__(self, under_test: UnderTest) -> None:
        super().__init__()
        self._under_test = under_test

    def ready(
        self,
        variant: PlannedVariant | None,
        round_number: int = 0,  # noqa: ARG002
        *,
        restarts: bool = False,  # noqa: ARG002
    ) -> UnderTest:
        """Return the one server."""
        assert variant is None, "an experiment without variants has one server"
        return self._under_test
