"""Computes what telemetry takes from a load: time of the cores, and more time per statement.

A process fills the caches of its core with its own memory, so the next process must read its memory
again. The kernel's scheduler reports which thread had which core, and when. A statement here is the
work of a session between two waits. Time is cut into bins. If telemetry ran in a bin or just before
it, the statements of this bin are compared with those of the calm bins within a tenth of a second.
Therefore a machine whose speed changes from second to second does not change the result.

Single statements are not compared, because a long statement is interrupted more often than a short
one. Telemetry gets a core at the same moments as the load's client, whose memory is in these
caches, too. Therefore the result is an upper bound rather than a lower one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.scheduling import Slice

_Floats = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]
BIN_NS = 5_000_000
# The bin in which telemetry ran, and the bins after it in which caches may not be full again.
TOUCHED_BINS = 3
# Calm bins up to this distance show what a statement costs now; at least this number is needed.
_AROUND_BINS = 20
_CALM_MIN = 6


@dataclass(frozen=True, slots=True)
class Taken:
    """Shares of one core: telemetry's own time, further time that the load lost, idle time.

    `touched_ratio`: share of the bins in which the load could lose time; `statements`: number that
    ended in the recorded time.
    """

    own_ratio: float
    lost_ratio: float
    idle_ratio: float
    touched_ratio: float
    statements: int


def taken(slices: Sequence[Slice], load: Collection[int], telemetry: Collection[int]) -> Taken:
    """Return what telemetry's threads took from the threads of a load.

    Args: load and telemetry, the ids of their threads.
    Raises: RuntimeError if the recorded time is too short.
    """
    bins = _Bins(slices)
    statements = 0
    begun: dict[int, list[Slice]] = defaultdict(list)
    for piece in slices:
        if piece.thread in telemetry:
            bins.add("own", piece)
        elif piece.thread == 0:
            bins.add("idle", piece)
        elif piece.thread in load:
            begun[piece.thread].append(piece)
            if piece.slept:
                # The work of a statement is spread evenly over its time.
                parts = begun.pop(piece.thread)
                cost_ns = sum(part.end_ns - part.begin_ns for part in parts)
                for part in parts:
                    bins.add("load", part)
                    bins.add("done", part, 1 / cost_ns)
                statements += 1
    touched = _touched(bins.grids["own"])
    return Taken(
        own_ratio=bins.grids["own"].sum() / bins.span_ns,
        lost_ratio=lost(bins.grids["load"], bins.grids["done"], touched) / bins.span_ns,
        idle_ratio=bins.grids["idle"].sum() / bins.span_ns,
        touched_ratio=touched.mean(),
        statements=statements,
    )


class _Bins:
    """Sums by core and bin, for the time in which all cores were recorded."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        cores = sorted({piece.core for piece in slices})
        spans = [[piece for piece in slices if piece.core == core] for core in cores]
        self._began_ns = max((span[0].begin_ns for span in spans), default=0)
        self._count = (
            min((span[-1].end_ns for span in spans), default=0) - self._began_ns
        ) // BIN_NS
        if self._count < 2 * _AROUND_BINS:
            raise RuntimeError(f"{self._count} bins of {BIN_NS / 1e6:g} ms are too few")
        self._rows = {core: number for number, core in enumerate(cores)}
        self.span_ns = self._count * BIN_NS
        shape = (len(cores), self._count)
        self.grids = {kind: np.zeros(shape) for kind in ("load", "done", "own", "idle")}

    def add(self, kind: str, piece: Slice, per_ns: float = 1.0) -> None:
        """Add a slice to its bins: `per_ns` for each nanosecond."""
        row = self.grids[kind][self._rows[piece.core]]
        begin_ns, end_ns = piece.begin_ns - self._began_ns, piece.end_ns - self._began_ns
        for number in range(max(0, begin_ns // BIN_NS), min(self._count, end_ns // BIN_NS + 1)):
            first_ns, last_ns = number * BIN_NS, (number + 1) * BIN_NS
            inside_ns = min(end_ns, last_ns) - max(begin_ns, first_ns)
            row[number] += inside_ns * per_ns


def _touched(own_ns: _Floats) -> _Flags:
    """Return the bins with telemetry on any core, and those just after: cores share a cache."""
    ran: _Flags = own_ns.sum(axis=0) > 0
    touched = ran.copy()
    for later in range(1, TOUCHED_BINS):
        touched[later:] |= ran[:-later]
    return touched


def lost(load_ns: _Floats, done: _Floats, touched: _Flags) -> float:
    """Return how much more the statements of touched bins cost than those of calm bins nearby, ns.

    Calm bins are compared with their neighbours in the same way; that difference is subtracted.
    Args: load_ns and done, shape (cores, bins), the load's time and the statements done in it;
    touched, shape (bins,).
    Raises: RuntimeError if telemetry ran all the time.
    """
    lost_ns, calm = 0.0, ~touched
    if not touched.any():
        return lost_ns
    is_known = _around(calm.astype(float)) >= _CALM_MIN
    if not (is_known & calm).any() or not (is_known & touched).any():
        raise RuntimeError("telemetry ran all the time: there are no calm bins to compare with")
    for spent_ns, statements in zip(load_ns, done, strict=True):
        around_ns, around = _around(spent_ns * calm), _around(statements * calm)
        is_told = is_known & (around > 0)
        usual_ns = np.divide(around_ns, around, out=np.zeros_like(around), where=is_told)
        beyond_ns = spent_ns - usual_ns * statements
        if (is_told & calm).any() and (is_told & touched).any():
            each_ns = beyond_ns[is_told & touched].mean() - beyond_ns[is_told & calm].mean()
            lost_ns += float(each_ns) * int(touched.sum())
    return lost_ns


def _around(values: _Floats) -> _Floats:
    """Return the sum of the neighbours of each bin on both sides, without the bin itself."""
    window = np.ones(2 * _AROUND_BINS + 1)
    window[_AROUND_BINS] = 0
    return np.convolve(values, window, mode="same")
