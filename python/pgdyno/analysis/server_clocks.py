"""The server's clocks of some wait events, and how they bind the samples of these events."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pgdyno.analysis.arrays import FloatArray

_NORMAL_95 = 1.96
_RULE_OF_THREE = 3.0


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock of the server: the column that adds up the time of some wait events."""

    collector: Literal["database", "wal"]
    column: str
    events: tuple[str, ...]
    needs_io_view: bool = False


# Since PostgreSQL 18, reading is a wait for an I/O worker or for the kernel's ring. Since 16,
# the clock of writing includes extending a relation; before, no clock does.
# Source: pgstat_count_io_op_time in pgstat_io.c, WaitReadBuffers in bufmgr.c.
CLOCKS = (
    Clock(
        "database",
        "blk_read_time_ns",
        ("IO:AioIoCompletion", "IO:AioIoUringExecution", "IO:DataFileRead"),
    ),
    Clock("database", "blk_write_time_ns", ("IO:DataFileExtend", "IO:DataFileWrite"), True),
    Clock("database", "blk_write_time_ns", ("IO:DataFileWrite",)),
    Clock("wal", "write_time_ns", ("IO:WALWrite", "IO:WalWrite")),
    Clock("wal", "sync_time_ns", ("IO:WALSync", "IO:WalSync")),
)


def clocks_of(*, has_io_view: bool) -> tuple[Clock, ...]:
    """Return the clocks that a server has; of several for one column, the first.

    Args: has_io_view, whether the server has pg_stat_io (version 16 and later).
    """
    by_column: dict[str, Clock] = {}
    for clock in CLOCKS:
        if has_io_view or not clock.needs_io_view:
            by_column.setdefault(clock.column, clock)
    return tuple(by_column.values())


@dataclass(slots=True)
class ShareSums:
    """Sums over samples of how many sessions were ours, and how many there were in all."""

    ours_count: float = 0.0
    all_count: float = 0.0
    ours_squares_count: float = 0.0
    products_count: float = 0.0
    all_squares_count: float = 0.0

    def add(self, ours_count: float, all_count: float) -> None:
        """Add one sample."""
        self.ours_count += ours_count
        self.all_count += all_count
        self.ours_squares_count += ours_count * ours_count
        self.products_count += ours_count * all_count
        self.all_squares_count += all_count * all_count

    def share(self) -> tuple[float, float]:
        """Return our share, and the half-width of its 95 % interval; all of nothing is ours.

        Source: variance of a ratio of means (Cochran 1977, section 2.11).
        """
        if not self.all_count:
            return 1.0, 0.0
        share = self.ours_count / self.all_count
        spread = self.ours_squares_count - share * (
            2 * self.products_count - share * self.all_squares_count
        )
        missed = _RULE_OF_THREE / self.all_count
        return share, max(_NORMAL_95 * math.sqrt(max(spread, 0.0)) / self.all_count, missed)


def bound(
    by_event: Mapping[str, FloatArray],
    counted: Sequence[tuple[tuple[str, ...], float]],
    exact: FloatArray | None,
    *,
    rows: int,
) -> dict[str, FloatArray]:
    """Return the time in each wait event, with the clocks' time in those that clocks counted.

    If a clock counted several events together, samples divide this time among them. Samples also
    divide among the other events what is left of `exact`.
    Args: by_event, sampled time, shape (rows,); counted, events and their time by a clock; exact,
    the server's count of all its time, shape (rows,), None without a count. All in one unit.
    """
    times = dict(by_event)
    bound_time = np.zeros(rows)
    is_bound: set[str] = set()
    for events, clocks_time in counted:
        here = [event for event in events if event in times] or [events[0]]
        sampled = np.array([times.get(event, np.zeros(rows)) for event in here])
        total = sampled.sum(axis=0)
        share = np.where(total > 0, sampled / np.where(total > 0, total, 1.0), 1.0 / len(here))
        times |= dict(zip(here, share * clocks_time, strict=True))
        is_bound |= set(here)
        bound_time = bound_time + clocks_time
    if exact is None:
        return times
    free = [event for event in times if event not in is_bound]
    left = np.maximum(exact - bound_time, 0.0)
    total = np.sum([times[event] for event in free] or [np.zeros(rows)], axis=0)
    for event in free:
        times[event] = times[event] * left / np.where(total > 0, total, 1.0)
    if not free:
        times[""] = left
    return times
