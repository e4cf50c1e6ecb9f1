"""What statements returned, as far as a log shows it: rows that earlier transactions wrote.

A log has no results. But if a transaction of the log wrote a row, the next one that reads it gets
this value. If transactions only added to a column, the sum of what they added is known, and with it
each value up to a number that is the same for all values of a row.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

import numpy as np

from pgdyno.features.capture.model import Linear, Plus, Returned, Source
from pgdyno.features.capture.reading.log_calls import Call, Value
from pgdyno.features.capture.reading.log_grouping import Kept
from pgdyno.features.capture.reading.observed import FloatArray, Observed, number_of, paired
from pgdyno.features.capture.reading.parsed import Parsed

# Two values that follow from each other differ by the same number in most transactions. Not in all:
# the times of a log are not exact, so that readers and writers may seem to have another order.
_MOSTLY = 0.7
_INSTANCES_MIN = 10
_LOOK = 200
# A value is one that was seen before in the row, unless nearly every transaction changes it.
_CHANGES = 0.5

# The most values of rows that are known at a time, calls that wait for earlier ones, and values of
# results.
_VALUES_MAX, _WAITING_MAX, _NOTED_MAX = 200_000, 20_000, 2_000_000


@dataclass(slots=True)
class ReturnedColumn:
    """One returned column: a value for each call; NaN where it is not known.

    `rows`: the row of each value. `is_known`: whether the value itself is known, and not only its
    distance from the other values of the row.
    """

    step: int
    column: int
    instances: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    rows: array[int] = field(default_factory=lambda: array("q"))
    is_known: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Execution:
    """A transaction of the log: the place of its kind, its number there, the steps to follow."""

    place: int
    number: int
    kept: Kept
    steps: Sequence[int]
    has_committed: bool


@dataclass(slots=True)
class _Value:
    value: float = 0.0
    is_known: bool = False


class Rows:
    """The columns of rows, while transactions read and write them."""

    def __init__(self) -> None:
        # Of each row a number that is the same for the same key is enough.
        self._values: dict[tuple[int, str], _Value] = {}
        self._noted_count = 0
        self._series: dict[int, dict[tuple[int, int], ReturnedColumn]] = defaultdict(dict)

    def of_kind(self, kind: int) -> dict[int, list[ReturnedColumn]]:
        """Return what the steps of a kind of transaction returned, by step."""
        by_step: dict[int, list[ReturnedColumn]] = {}
        for (step, _), series in self._series.get(kind, {}).items():
            by_step.setdefault(step, []).append(series)
        return by_step

    def follow(self, executions: Iterable[Execution]) -> None:
        """Go through transactions in the order of their reads and commits.

        Args: executions, in the order in which they ended.
        """
        waiting: list[tuple[int, int, Execution, int, Call]] = []
        numbers = count()
        for execution in executions:
            ended_us = execution.kept.ended_us
            for step, call in execution.kept.calls(execution.steps) if execution.steps else ():
                # A row that is changed stays locked until the end.
                reads = call.statement.parsed.reads_only
                time_us = _ended_us(call) if reads else ended_us
                heappush(waiting, (time_us, next(numbers), execution, step, call))
            while len(waiting) > _WAITING_MAX:
                self._call(*heappop(waiting)[2:])
        while waiting:
            self._call(*heappop(waiting)[2:])
        self._values.clear()

    def _call(self, execution: Execution, step: int, call: Call) -> None:
        parsed = call.statement.parsed
        values = call.values
        for table in parsed.tables if parsed.kind == "select" else (parsed.written,):
            row = _row_of(parsed, table, values)
            if row is None:
                continue
            new = self._written(parsed, table, row, values)
            for column, (name, sign, number) in _numbers_of(parsed, table).items():
                known = new.get(name) or self._values.get((row, name))
                if known is None and parsed.kind == "select":
                    known = _Value()
                    self._set(row, name, known)
                added = sign * _given(values, number) if number else 0.0
                if known is not None:
                    self._note(execution, step, column, row, known, added)
            if execution.has_committed:
                for name, value in new.items():
                    self._set(row, name, value)

    def _set(self, row: int, name: str, value: _Value) -> None:
        """Note a value of a row; the row that is known for the longest time is forgotten."""
        self._values[row, name] = value
        if len(self._values) > _VALUES_MAX:
            del self._values[next(iter(self._values))]

    def _written(
        self, parsed: Parsed, table: str, row: int, values: Sequence[Value]
    ) -> dict[str, _Value]:
        new: dict[str, _Value] = {}
        if parsed.kind == "select":
            return new
        for number, use in parsed.parameters.items():
            if use.use == "set" and use.table == table:
                value = _given(values, number)
                if np.isfinite(value):
                    new[use.column] = _Value(value, is_known=True)
        for name, (sign, number) in parsed.adds.items():
            before = self._values.get((row, name), _Value())
            new[name] = _Value(before.value + sign * _given(values, number), before.is_known)
        return new

    def _note(
        self, execution: Execution, step: int, column: int, row: int, known: _Value, added: float
    ) -> None:
        if self._noted_count >= _NOTED_MAX:
            return
        self._noted_count += 1
        of_kind = self._series[execution.place]
        series = of_kind.get((step, column))
        if series is None:
            series = of_kind[step, column] = ReturnedColumn(step, column)
        series.instances.append(execution.number)
        series.values.append(known.value + added)
        series.rows.append(row)
        series.is_known.append(known.is_known)


def _ended_us(call: Call) -> int:
    return call.began_us + (call.duration_us or 0)


def _row_of(parsed: Parsed, table: str, given: Sequence[Value]) -> int | None:
    """Return a number of the row that a statement reads or writes by its key."""
    places = [
        (use.column, number)
        for number, use in parsed.parameters.items()
        if use.use == "equal" and use.table == table and number <= len(given)
    ]
    values = [(column, given[number - 1]) for column, number in places]
    key = sorted((column, value) for column, value in values if isinstance(value, str))
    return hash((table, *key)) if key and len(key) == len(values) else None


def _numbers_of(parsed: Parsed, table: str) -> Mapping[int, tuple[str, int, int]]:
    """Return the returned columns of a table: name, and sign and parameter of what is added."""
    plain = {
        position: (name, 1, 0) for position, (of, name) in enumerate(parsed.outputs) if of == table
    }
    return plain | {
        position: (name, sign, number)
        for position, (of, name, sign, number) in parsed.sums.items()
        if of == table
    }


def _given(values: Sequence[Value], number: int) -> float:
    value = number_of(values[number - 1]) if number <= len(values) else None
    return np.nan if value is None else value


def returned_source(
    observed: Observed, series: Sequence[ReturnedColumn], parameters: Sequence[Observed]
) -> Source | None:
    """Return the returned column from which the values follow: plus a number, or a parameter."""
    if observed.numbers is None:
        return None
    added_values: list[_Addend] = []
    for column in reversed(series):
        # Only the transactions of the values are needed to pair them.
        other = Observed(
            column.step,
            column.column,
            observed.use,
            "",
            column.instances,
            (),
            (),
        )
        mine, theirs = paired(observed, other)
        values = observed.numbers[mine]
        if len(mine) < _INSTANCES_MIN or len(mine) < _MOSTLY * len(observed.values):
            continue
        rows = np.array(column.rows)[theirs]
        if _changes(values, rows) < _CHANGES:
            continue
        difference = values - np.array(column.values)[theirs]
        is_known = np.mean(np.array(column.is_known)[theirs]) > _MOSTLY
        added_values = added_values or list(_added(observed, parameters))
        for plus, own, added in added_values:
            if own is not None and own != mine:
                continue
            offset = _offset(difference - added, rows, is_known=bool(is_known))
            if offset is None:
                continue
            if offset == 0 and plus is None:
                return Returned(step=column.step, column=column.column)
            return Linear(step=column.step, column=column.column, slope=1, offset=offset, plus=plus)
    return None


# What may be added to a returned value: a parameter, the places of the values, and the values.
_Addend = tuple[Plus | None, list[int] | None, FloatArray | float]


def _added(observed: Observed, parameters: Sequence[Observed]) -> Iterator[_Addend]:
    """Yield what may be added to a returned value: nothing, or a parameter with its sign."""
    yield None, None, 0.0
    for other in parameters:
        if other.numbers is None:
            continue
        own, theirs = paired(observed, other)
        values = other.numbers[theirs]
        for slope in (1, -1):
            plus = Plus(step=other.step, parameter=other.position, slope=slope)
            yield plus, own, slope * values


def _changes(values: FloatArray, rows: FloatArray) -> float:
    """Return the share of values that are not the one before them in the row."""
    order = np.argsort(rows, kind="stable")
    same_row = np.diff(rows[order]) == 0
    changed = np.diff(values[order]) != 0
    return float(np.mean(changed[same_row])) if same_row.any() else 0.0


def _offset(difference: FloatArray, rows: FloatArray, *, is_known: bool) -> float | None:
    """Return the number by which values differ in nearly all transactions.

    If values are known up to a number for each row, this number is taken for that of the row.
    """
    for most in (_LOOK, len(difference)):
        part = np.round(difference[:most], 6)
        # If the first ones differ, the others are not looked at.
        least = _MOSTLY if most >= len(difference) else _MOSTLY / 2
        values, counts = np.unique(part, return_counts=True, equal_nan=False)
        if is_known and counts.max() < least * len(part):
            return None
        if is_known and most >= len(difference):
            return float(values[counts.argmax()])
    order = np.lexsort((part, rows))
    new_row = np.flatnonzero(np.diff(rows[order], prepend=rows[order[0]] - 1))
    new_pair = np.diff(part[order], prepend=np.nan) != 0
    new_pair[new_row] = True
    pairs = np.flatnonzero(new_pair)
    sizes = np.diff(pairs, append=len(order))
    same = np.maximum.reduceat(sizes, np.searchsorted(pairs, new_row))
    of_row = np.diff(new_row, append=len(order))
    seen, equal = of_row[of_row > 1].sum(), same[of_row > 1].sum()
    return 0.0 if seen >= _INSTANCES_MIN and equal >= _MOSTLY * seen else None
