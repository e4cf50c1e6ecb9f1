"""Computes differences and rates from counters, without intervals with a reset, a wrap or a gap.

Pure functions, used by every reader of stored counters: the store's arrays in, arrays out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.observe.collector import Column

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Arrays = Mapping[str, npt.NDArray[Any]]

RESET_COLUMN = "stats_reset_ns"


@dataclass(frozen=True, slots=True)
class Deltas:
    """Differences of the counters with one key (a device, a core), interval by interval.

    `time_ns` is the end of each interval; all arrays have shape (n,). Intervals are left out if
    samples were missing or a counter began again, so the lengths may not add up to the time between
    the first and the last interval.
    """

    key: Mapping[str, str]
    time_ns: IntArray
    interval_ns: IntArray
    by_column: Mapping[str, FloatArray]

    def per_second(self, column: str) -> FloatArray:
        """Return the rate in units a second in each interval."""
        return self.by_column[column] / (self.interval_ns / 1e9)

    def total(self, column: str, began_ns: int, ended_ns: int) -> float:
        """Return the growth between two instants; a part of an interval counts in proportion.

        Returns: NaN if an interval within the span is missing.
        """
        begins_ns = self.time_ns - self.interval_ns
        overlaps_ns = np.minimum(self.time_ns, ended_ns) - np.maximum(begins_ns, began_ns)
        weights = np.clip(overlaps_ns, 0, None) / self.interval_ns
        covered_ns = float(np.sum(weights * self.interval_ns))
        if ended_ns <= began_ns or covered_ns < (ended_ns - began_ns) * (1 - 1e-9):
            return float("nan")
        inside = weights > 0
        return float(np.sum(weights[inside] * self.by_column[column][inside]))


def deltas(arrays: Arrays, columns: Sequence[Column]) -> list[Deltas]:
    """Return the differences of every counter, separately for each key, in the order of the keys.

    Args: arrays of one table, with time_ns and interval_ns; columns of its collector.
    A row whose interval_ns is 0 has no predecessor: the first one, or the first after a gap.
    """
    keys = [column.name for column in columns if column.nature == "key"]
    counters = [c for c in columns if c.nature == "counter" and c.name in arrays]
    if not len(arrays["time_ns"]):
        return []
    return [
        _of_one_key(
            dict(zip(keys, label, strict=True)),
            {name: values[rows] for name, values in arrays.items()},
            counters,
        )
        for label, rows in _rows_by_key(arrays, keys)
    ]


def since_zero(arrays: Arrays, columns: Sequence[Column], rows_max: int) -> Arrays:
    """Return the rows, with a row of zeros before the first row of each key that appeared later.

    For tables that list only the largest keys. A missing key was 0 only if the sample before had
    fewer than `rows_max` rows.
    """
    time_ns = np.asarray(arrays["time_ns"], dtype=np.int64)
    instants, place, sizes = np.unique(time_ns, return_inverse=True, return_counts=True)
    keys = [column.name for column in columns if column.nature == "key"]
    born = [
        rows[0]
        for _, rows in _rows_by_key(arrays, keys)
        if place[rows[0]] > 0
        and sizes[place[rows[0]] - 1] < rows_max
        and arrays["interval_ns"][rows[0]] > 0
    ]
    if not born:
        return arrays
    counters = {column.name for column in columns if column.nature == "counter"}
    extended = {}
    for name, values in arrays.items():
        before = values[born]
        if name == "time_ns":
            before = instants[place[born] - 1]
        elif name in counters:
            before = np.zeros_like(before)
        extended[name] = np.concatenate((values, before))
    return extended


def _rows_by_key(
    arrays: Arrays, keys: Sequence[str]
) -> list[tuple[tuple[str, ...], npt.NDArray[np.intp]]]:
    """Return each combination of keys, in order, with the numbers of its rows by time."""
    time_ns = np.asarray(arrays["time_ns"])
    labels: list[list[str]] = []
    codes = np.zeros(time_ns.size, dtype=np.int64)
    for name in keys:
        # Older results lack newer keys.
        values = np.asarray(arrays[name]).tolist() if name in arrays else [""] * codes.size
        # Sorting only the distinct labels is ten times as fast as np.unique of all rows.
        names = {value: str(value) for value in set(values)}
        labels.append(sorted(names.values()))
        code = {value: labels[-1].index(text) for value, text in names.items()}
        codes *= len(names)
        codes += np.fromiter(map(code.__getitem__, values), dtype=np.int64, count=codes.size)
    order = np.lexsort((time_ns, codes))
    first = np.flatnonzero(np.diff(codes[order], prepend=-1))
    groups = []
    for rows in np.split(order, first[1:]):
        rest, label = int(codes[rows[0]]), []
        for names_of_key in reversed(labels):
            rest, place = divmod(rest, len(names_of_key))
            label.append(names_of_key[place])
        groups.append((tuple(reversed(label)), rows))
    return groups


def _of_one_key(key: Mapping[str, str], rows: Arrays, counters: Sequence[Column]) -> Deltas:
    time_ns = np.asarray(rows["time_ns"], dtype=np.int64)
    bad = np.asarray(rows["interval_ns"], dtype=np.int64)[1:] == 0
    # If a key was missing in the sample before (a device was unplugged), its interval is longer.
    interval_ns = np.diff(time_ns)
    by_column: dict[str, FloatArray] = {}
    if RESET_COLUMN in rows:
        bad = bad | (np.diff(rows[RESET_COLUMN]) != 0)
    for column in counters:
        grown = np.diff(rows[column.name]).astype(np.float64)
        if column.dips:
            grown = np.maximum(grown, 0.0)
        # It was reset, or a counter of 32 bits in the kernel began again.
        bad = bad | (grown < 0)
        by_column[column.name] = grown
    kept = ~bad
    return Deltas(
        key=key,
        time_ns=time_ns[1:][kept],
        interval_ns=interval_ns[kept],
        by_column={name: grown[kept] for name, grown in by_column.items()},
    )
