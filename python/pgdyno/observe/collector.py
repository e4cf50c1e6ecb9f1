"""Interfaces of telemetry: a column (name, type, unit, meaning), a collector, a sink of samples."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from pgdyno.clock import ClockPair
from pgdyno.errors import PgdynoError

Dtype = Literal["int64", "float64", "text", "int32[]", "int64[]"]
Nature = Literal["key", "counter", "gauge"]
Scope = Literal[
    "server", "database", "waits", "host", "load host", "pooler", "node", "processes", "lab"
]


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as stored.

    A *key* distinguishes the rows of one instant (a device, a core). A *counter* grows until it is
    reset or wraps. It is stored raw, and `rates` computes its rates. A *gauge* is the state at one
    instant. `dips`: the kernel may reduce the counter a little; a decrease then counts as no
    growth. `is_nullable`: absent on some versions or machines; an int64 is then read as float64
    with NaN.
    """

    name: str
    dtype: Dtype
    unit: str
    meaning: str
    nature: Nature = "gauge"
    is_nullable: bool = False
    dips: bool = False


TIME_NS = Column("time_ns", "int64", "ns", "Unix time of the sample, on the experiment's clock")
INTERVAL_NS = Column(
    "interval_ns", "int64", "ns", "time since the sample before; 0 = none before, or a gap"
)


def key(name: str, meaning: str) -> Column:
    """Return a text column that distinguishes the rows of one instant."""
    return Column(name, "text", "name", meaning, nature="key")


def counter(name: str, unit: str, meaning: str, *, is_nullable: bool = False) -> Column:
    """Return a counter of whole numbers."""
    return Column(name, "int64", unit, meaning, "counter", is_nullable)


def gauge(name: str, unit: str, meaning: str, *, is_nullable: bool = False) -> Column:
    """Return a column of whole numbers that has the state at one instant."""
    return Column(name, "int64", unit, meaning, "gauge", is_nullable)


Value = int | float | str | None
Row = dict[str, Value]

SECOND_NS = 1_000_000_000


class Collector(Protocol):
    """Samples one source. tests/observe/contract.py tests every collector against this interface.

    One thread uses a collector. A collector may keep state between samples (open files). It returns
    raw counters, never rates. `scope` is the source of its values: any session of the *server*, a
    session in the load's *database*, the *waits* of its sessions, the server's *host*, the *load
    host*, the console of the *pooler*, another *node* of the server, *processes* by their pids, or
    the *lab* itself.
    """

    name: ClassVar[str]
    scope: ClassVar[Scope]
    meaning: ClassVar[str]
    interval_ns: ClassVar[int]
    columns: ClassVar[tuple[Column, ...]]

    def sample(self, now_ns: int) -> list[Row]:
        """Return the rows of this instant: one value for every column, None where nullable.

        Raises: NotMeasurable if this machine or server will never have the source; any other
        exception counts as temporary.
        """
        ...


@runtime_checkable
class AskedOften(Collector, Protocol):
    """A collector that asks many times a second and reads several answers at once.

    Between two samples the core works for other processes, which fill its caches with their data.
    Work after that costs about five times as much as the same work in a row.
    """

    def ask(self) -> Any:
        """Return the source's answer, unparsed. Raises: as `sample`."""
        ...

    def rows(self, answer: Any) -> list[Row]:
        """Return the rows of one answer, as `sample` does."""
        ...


class NotMeasurable(Exception):
    """The source does not exist here; the text is one sentence with the reason."""


class NoticeKind(StrEnum):
    """The kinds of the lab's warnings; `engine.records.WarningKind` has those of the engine."""

    CLOCK_SET = "clock_set"
    COLLECTOR_FAILED = "collector_failed"
    COLLECTOR_SLOWED = "collector_slowed"
    COLLECTOR_WORKS = "collector_works"
    HOST_NOT_OBSERVED = "host_not_observed"
    NETWORK_NOT_PROBED = "network_not_probed"
    NOT_MEASURABLE = "not_measurable"
    OBSERVER_ANSWERED_LATE = "observer_answered_late"
    OBSERVER_BEHIND_POOLER = "observer_behind_pooler"
    OBSERVER_FOUND_HOST = "observer_found_host"
    OBSERVER_FOUND_NODE = "observer_found_node"
    OBSERVER_FOUND_POOLER = "observer_found_pooler"
    OBSERVER_FOUND_SERVER = "observer_found_server"
    OBSERVER_KEEPS_ONE_SESSION = "observer_keeps_one_session"
    OBSERVER_LOST_HOST = "observer_lost_host"
    OBSERVER_LOST_NODE = "observer_lost_node"
    OBSERVER_LOST_POOLER = "observer_lost_pooler"
    OBSERVER_LOST_SERVER = "observer_lost_server"
    OBSERVER_WITHOUT_PG_MONITOR = "observer_without_pg_monitor"
    POOLER_NOT_OBSERVED = "pooler_not_observed"


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning for the reader of the results that did not stop the run.

    `source` names the collector that cannot measure, or the node that is lost, if it is about one.
    """

    time_ns: int
    kind: NoticeKind
    message: str
    hint: str
    source: str = ""

    def as_record(self) -> dict[str, Any]:
        """Return the keys of the engine's warning record, and the source."""
        record = {
            "time_ns": self.time_ns,
            "kind": self.kind.value,
            "message": self.message,
            "hint": self.hint,
        }
        return {**record, "source": self.source} if self.source else record


class Sink(Protocol):
    """Where samples go; called from the observer's threads."""

    def add_samples(self, collector: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep rows; each has time_ns, interval_ns and the collector's columns."""
        ...

    def add_notice(self, notice: Mapping[str, Any]) -> None:
        """Keep a notice: time_ns, kind, message, hint, and source if it is about a collector."""
        ...


class Notices:
    """Passes notices to the sink; while a problem lasts, it is not reported again."""

    def __init__(self, clock: ClockPair, sink: Sink) -> None:
        self._clock = clock
        self._sink = sink
        self._lock = threading.Lock()
        self._lasting: set[str] = set()
        self.said: list[Notice] = []

    def say(
        self, trouble: str, kind: NoticeKind, message: str, hint: str, *, source: str = ""
    ) -> None:
        """Report this unless the problem of this name was already reported and still lasts."""
        with self._lock:
            if trouble in self._lasting:
                return
            self._lasting.add(trouble)
        self._pass_on(Notice(self._clock.now_ns(), kind, message, hint, source))

    def over(self, trouble: str, kind: NoticeKind, message: str, hint: str = "") -> None:
        """Report the end of a problem if its beginning was reported."""
        with self._lock:
            if trouble not in self._lasting:
                return
            self._lasting.discard(trouble)
        self._pass_on(Notice(self._clock.now_ns(), kind, message, hint))

    def _pass_on(self, notice: Notice) -> None:
        self.said.append(notice)
        try:
            self._sink.add_notice(notice.as_record())
        except PgdynoError:
            # The store cannot write (a full disk): the writer of the records gets the same error.
            return
