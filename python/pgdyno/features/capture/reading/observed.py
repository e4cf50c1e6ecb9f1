"""The values of one parameter in the transactions of a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.features.capture.arrays import items_in
from pgdyno.features.capture.reading import times
from pgdyno.features.capture.reading.log_calls import Value
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.stand_ins import StandIns

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Observed:
    """The values of one parameter: one for each instance, in the order of time.

    `instances`: the transaction of each value. `times_s`: Unix time of each call. `sessions`: the
    session of each call. `type`: as SQL, "" if it is not known. `is_literal`: it is a constant in
    the text of a statement that has other parameters, so a part of the program. `enums`: labels of
    each enum of the schema. `names`: of columns and of fields of composite types. `stand_ins`:
    those of the capture. `is_own`: statements of the load write these values into the column.
    `is_mask`: the numbers become bit strings, so each bit is a state of the program.
    """

    step: int
    position: int
    use: Parameter
    type: str
    instances: Sequence[int]
    values: Sequence[Value]
    times_s: Sequence[float]
    sessions: Sequence[str] = ()
    is_literal: bool = False
    enums: Sequence[frozenset[str]] = ()
    names: frozenset[str] = frozenset()
    is_own: bool = False
    is_mask: bool = False
    stand_ins: StandIns = field(default_factory=lambda: StandIns((), ()))

    @cached_property
    def labels(self) -> frozenset[str]:
        """Return the labels of the enum that has all values, which the schema shows; else none."""
        lists = [items for items in self.lists if items is not None]
        seen = {str(item) for items in lists for item in items} or set(self.known())
        return next((labels for labels in self.enums if seen and seen <= labels), frozenset())

    @cached_property
    def numbers(self) -> FloatArray | None:
        """Return the values as numbers, times as seconds; NaN for NULL. None: they are texts."""
        made: list[float] = []
        for value in self.values:
            if value is None or value is False:
                made.append(np.nan)
                continue
            number = number_of(value)
            if number is None:
                return None
            made.append(number)
        return np.array(made)

    @cached_property
    def are_times(self) -> bool:
        """Return whether the values are dates or times, and not numbers."""
        return any(value.count("-") > 1 or ":" in value for value in self.known()[:1])

    @cached_property
    def places(self) -> dict[int, list[int]]:
        """Return the places of the values of each transaction, turn by turn."""
        by_instance: dict[int, list[int]] = {}
        for place, instance in enumerate(self.instances):
            by_instance.setdefault(instance, []).append(place)
        return by_instance

    @cached_property
    def lists(self) -> list[list[Any] | None]:
        """Return the values as lists; None for a value that is not an array."""
        return [items_of(value, self) for value in self.values]

    @cached_property
    def lengths(self) -> list[int]:
        """Return how many elements each array has, of a long one by its bytes."""
        pairs = list(zip(self.values, self.lists, strict=True))
        texts = [(len(v), len(items)) for v, items in pairs if items and isinstance(v, str)]
        count = sum(number for _, number in texts)
        bytes_each = sum(length for length, _ in texts) / count if count else 0.0
        made = []
        for value, items in pairs:
            if items is not None:
                made.append(len(items))
            elif first := beginning_of(value):
                assert isinstance(value, Mapping), "only the beginning is known"
                own_each = bytes_each or len(str(value["begins"])) / len(first)
                made.append(max(1, round(value["bytes"] / own_each)))
        return made

    def known(self) -> list[str]:
        """Return the values that are texts; those of lists and NULLs are not."""
        return [text for value in self.values if (text := text_of(value)) is not None]


def text_of(value: Value) -> str | None:
    """Return a value as text; of a long one its beginning. None: NULL, a list, not known."""
    if isinstance(value, Mapping):
        return str(value["begins"])
    return value if isinstance(value, str) else None


def items_of(value: Value, observed: Observed) -> list[Any] | None:
    """Return the elements of an array; None for every other value."""
    if isinstance(value, list):
        return value
    is_array = observed.use.use == "list" or observed.type.endswith("[]")
    if is_array and isinstance(value, str) and value[:1] == "{" and value[-1:] == "}":
        return list(items_in(value))
    return None


def beginning_of(value: Value) -> list[Any]:
    """Return the first elements of an array of which only the beginning is known."""
    begins = str(value["begins"]) if isinstance(value, Mapping) else ""
    if not begins.startswith("{") or "," not in begins:
        return []
    return list(items_in(begins[1 : begins.rindex(",")]))


def number_of(value: Value) -> float | None:
    """Return a number, or the seconds of a time; None for every other value."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        return float(value)
    except ValueError:
        pass
    moment = times.microseconds("timestamptz", value) if value[4:5] == "-" else None
    return None if moment is None else float(moment / times.SECOND_US)


def paired(own: Observed, other: Observed, most: int | None = None) -> tuple[list[int], list[int]]:
    """Return the places of the values of both parameters, turn by turn of the same transaction.

    If one step has several turns and the other has one, this value stands for all turns.
    Args: most, how many places at most.
    """
    if own.instances is other.instances or own.instances == other.instances:
        count = len(own.instances)
        same = list(range(count if most is None else min(most, count)))
        return same, same
    turn: Counter[int] = Counter()
    mine: list[int] = []
    theirs: list[int] = []
    for place, instance in enumerate(own.instances):
        turns = other.places.get(instance)
        if turns:
            mine.append(place)
            theirs.append(turns[min(turn[instance], len(turns) - 1)])
            turn[instance] += 1
            if len(mine) == most:
                break
    return mine, theirs
