"""What telemetry takes from a load: the cores' time, and what the load's statements need more.

A process leaves the caches of its core filled with its own memory, so the next one reads its own
anew. The kernel's scheduler tells who had which core when; a statement is what a session of the
load did between two waits. Time is cut into bins: where telemetry ran in a bin or just before, its
statements are held against those of the calm bins around, within a tenth of a second. So a
machine whose speed changes from second to second changes nothing here.

Statements themselves are not held against each other: the longer one lasts, the likelier it is
that somebody interrupts it. Telemetry gets a core when the load's client does, whose memory is in
those caches, too: so this tells rather too much than too little.
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
# The bin in which telemetry ran, and those after it in which caches may still lack something.
TOUCHED_BINS = 3
# Calm bins that far on each side say what a statement costs now, if there are enough.
_AROUND_BINS = 20
_CALM_MIN = 6


@dataclass(frozen=True, slots=True)
class Taken:
    """Shares of one core: telemetry's own time, what the load lost to it besides, idle time.

    `touched_ratio` is the share of bins in which it could lose any; `statements` ended meanwhile.
    """

    own_ratio: float
    lost_ratio: float
    idle_ratio: float
    touched_ratio: float
    statements: int


def taken(slices: Sequence[Slice], load: Collection[int], telemetry: Collection[int]) -> Taken:
    """Return what telemetry's threads took from those of a load.

    Raises: RuntimeError if too little was recorded to tell.
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
                # What a statement does is spread evenly over the time it took.
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
    """Sums by core and bin, of the time in which all cores were recorded."""

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
        """Add a slice to the bins it lies in, so much for each nanosecond."""
        row = self.grids[kind][self._rows[piece.core]]
        begin_ns, end_ns = piece.begin_ns - self._began_ns, piece.end_ns - self._began_ns
        for number in range(max(0, begin_ns // BIN_NS), min(self._count, end_ns // BIN_NS + 1)):
            first_ns, last_ns = number * BIN_NS, (number + 1) * BIN_NS
            inside_ns = min(end_ns, last_ns) - max(begin_ns, first_ns)
            row[number] += inside_ns * per_ns


def _touched(own_ns: _Floats) -> _Flags:
    """Return the bins in or after which telemetry ran on any core: they share a cache."""
    ran: _Flags = own_ns.sum(axis=0) > 0
    touched = ran.copy()
    for later in range(1, TOUCHED_BINS):
        touched[later:] |= ran[:-later]
    return touched


def lost(load_ns: _Floats, done: _Floats, touched: _Flags) -> float:
    """Return what the touched bins' statements cost more than those of the calm bins around, ns.

    The same is asked of each calm bin, held against the others around, and taken away.
    Args: load_ns and done (core x bin), the load's time and the statements done in it; touched
    (bin). Raises: RuntimeError if telemetry ran all the time.
    """
    lost_ns, calm = 0.0, ~touched
    if not touched.any():
        return lost_ns
    is_known = _around(calm.astype(float)) >= _CALM_MIN
    if not (is_known & calm).any() or not (is_known & touched).any():
        raise RuntimeError("telemetry ran all the time: nothing to hold the load against")
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
    """Return the sum of the neighbours on both sides, without oneself."""
    window = np.ones(2 * _AROUND_BINS + 1)
    window[_AROUND_BINS] = 0
    return np.convolve(values, window, mode="same")
