"""A column of telemetry or of the store: name, type, unit, meaning; and what a collector is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

Dtype = Literal["int64", "float64", "text", "int32[]", "int64[]"]
Nature = Literal["key", "counter", "gauge"]
Scope = Literal["server", "database", "waits", "host", "load host", "pooler", "processes", "lab"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as stored.

    A *key* tells rows of one instant apart (a device, a core). A *counter* grows until it is reset
    or wraps, and is stored raw: `rates` makes rates of it. A *gauge* is the state at one instant.
    A counter that the kernel keeps in 32 bits begins again at `wraps_at`, in the column's unit. If
    a counter `dips`, the kernel may reduce it a little: a decrease is read as no growth.
    `is_nullable`: absent on some versions or machines; an int64 is then read as float64 with NaN.
    """

    name: str
    dtype: Dtype
    unit: str
    meaning: str
    nature: Nature = "gauge"
    is_nullable: bool = False
    wraps_at: int = 0
    dips: bool = False


TIME_NS = Column("time_ns", "int64", "ns", "Unix time of the sample, on the experiment's clock")
INTERVAL_NS = Column(
    "interval_ns", "int64", "ns", "time since the sample before; 0 = none before, or a gap"
)


def key(name: str, meaning: str) -> Column:
    """Return a text column that tells the rows of one instant apart."""
    return Column(name, "text", "name", meaning, nature="key")


def counter(
    name: str, unit: str, meaning: str, *, is_nullable: bool = False, wraps_at: int = 0
) -> Column:
    """Return a counter of whole numbers."""
    return Column(name, "int64", unit, meaning, "counter", is_nullable, wraps_at)


def gauge(name: str, unit: str, meaning: str, *, is_nullable: bool = False) -> Column:
    """Return the state of something at one instant, a whole number."""
    return Column(name, "int64", unit, meaning, "gauge", is_nullable)


Value = int | float | str | None
Row = dict[str, Value]

SECOND_NS = 1_000_000_000


class Collector(Protocol):
    """Samples one source. tests/observe/contract.py tests every collector against this.

    A collector is used by one thread. It may keep state between samples (open files), and gives
    counters raw: never a rate. `scope` is the source it reads: any session of the *server*, only a
    session in the load's *database*, the *waits* of its sessions, the server's *host*, the *load
    host*, the *pooler*'s console, *processes* by their pids, the *lab* itself.
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

    A core that works for others in between has its caches full of their data each time. Work at
    such a moment costs about five times as much as the same work in a row.
    """

    def ask(self) -> Any:
        """Return the source's answer, unparsed. Raises: as `sample`."""
        ...

    def rows(self, answer: Any) -> list[Row]:
        """Return the rows of one answer, as `sample` does."""
        ...


class NotMeasurable(Exception):
    """The source does not exist here; the text is one sentence with the reason."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning for the reader of the results that did not stop the run."""

    time_ns: int
    kind: str
    message: str
    hint: str

    def as_record(self) -> dict[str, Any]:
        """Return the keys of the engine's warning record."""
        return asdict(self)


class Sink(Protocol):
    """Where samples go; called from the observer's threads."""

    def add_samples(self, collector: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep rows; each has time_ns, interval_ns and the collector's columns."""
        ...

    def add_notice(self, notice: Mapping[str, Any]) -> None:
        """Keep a notice: time_ns, kind, message, hint."""
        ...
