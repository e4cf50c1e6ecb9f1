"""Where the values of a parameter come from, source from the values that a log shows.

In this order: an earlier parameter of the transaction (equal, linear, between), a list, a new key,
a constant, an existing value of a column, a distribution. No value of the log stays: numbers move,
texts get stand-ins.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.capture.distribution import Distribution, Hot, Spread, ValueKind
from pgdyno.capture.model import (
    Between,
    Constant,
    Drawn,
    Equal,
    Fresh,
    Linear,
    ListOf,
    Now,
    OfColumn,
    Returned,
    Source,
)
from pgdyno.capture.schema import ColumnShape
from pgdyno.capturing import times
from pgdyno.capturing.log_reading import Value
from pgdyno.capturing.parsed import Parameter
from pgdyno.capturing.stand_ins import StandIns

FloatArray = npt.NDArray[np.float64]

# A dependency holds in all transactions but these: a log may have a few that differ.
_ALWAYS = 0.99
_INSTANCES_MIN = 10
# Fewer transactions are enough to see that two parameters are equal if this many values differ.
_DISTINCT_MIN = 3
# A difference is bounded if it varies this much less than the parameter itself.
_BOUNDED = 0.1
_BOUNDS = 50
_HOT_MAX = 50
# A value is hot if it is this much more common than the mean, and is seen this often.
_HOT_TIMES, _HOT_CALLS = 10, 5
_SMALL = 100
# A time that follows the clock of the log this closely is "now".
_NOW_S = 5.0
_BOOLEANS = frozenset(("t", "f", "true", "false"))
_TIMES = ("date", "timestamp", "timestamptz")
_KIND_OF_CAST: dict[str, ValueKind] = {
    "integer": "integer",
    "bigint": "integer",
    "numeric": "numeric",
    "date": "date",
    "interval": "interval",
    "uuid": "uuid",
    "json": "json",
    "jsonb": "json",
}


@dataclass(frozen=True, slots=True)
class Observed:
    """The values of one parameter: one for each instance, in the order of time.

    `instances`: the transaction of each value. `times_s`: Unix time of each call. `type`: as SQL,
    "" if it is not known.
    """

    step: int
    position: int
    use: Parameter
    type: str
    instances: Sequence[int]
    values: Sequence[Value]
    times_s: Sequence[float]

    def known(self) -> list[str]:
        """Return the values that are texts; those of lists and NULLs are not."""
        return [text for value in self.values if (text := text_of(value)) is not None]


def text_of(value: Value) -> str | None:
    """Return a value as text; of a long one its beginning. None: NULL, a list, not known."""
    if isinstance(value, Mapping):
        return str(value["begins"])
    return value if isinstance(value, str) else None


def source_of(
    observed: Observed,
    earlier: Sequence[Observed],
    column: ColumnShape | None,
    *,
    raw_range: tuple[str, str] | None,
    is_key: bool,
    known_key: Source | None = None,
    record: Source | None = None,
    as_long_as: int | None = None,
) -> Source:
    """Return the source of a parameter.

    Args: known_key, where the schema says that a key comes from: an earlier parameter, or a row
    that an earlier step returned. record, a value of the parameter's composite type. as_long_as, an
    earlier parameter of the step with as many elements.
    """
    values = observed.values
    if not values or all(value is False for value in values):
        return (
            OfColumn(table=column.table, column=column.column) if column else Constant(value=None)
        )
    if all(value is None for value in values):
        return Constant(value=None)
    if record is not None and not observed.type.endswith("[]"):
        return record
    if record is not None:
        # Of long values only the beginning is known: then one element is assumed.
        lists = [items for value in values if (items := _items(value, observed)) is not None]
        lengths = [len(items) for items in lists] or [1]
        spread = Spread(least=min(lengths), mean=sum(lengths) / len(lengths), most=max(lengths))
        return ListOf(of=record, length=spread)
    if source := _list(observed, column, earlier, known_key):
        is_list = isinstance(source, ListOf)
        return source.model_copy(update={"as_long_as": as_long_as}) if is_list else source
    numbers = _numbers(observed)
    source = _dependency(observed, numbers, earlier)
    if isinstance(known_key, Returned) and not _is_of_same_column(source, observed, earlier):
        # Keys of two tables may be equal because their rows were made together.
        return known_key
    if source is not None:
        return source
    if known_key is not None and _is_same(observed, known_key, earlier):
        return known_key
    kind = _kind(observed, column, numbers)
    if source := _now(observed, kind):
        return source
    known = observed.known()
    distinct = len(set(known))
    if observed.use.use == "insert" and is_key and column and _is_ascending(numbers, distinct):
        return Fresh(table=column.table, column=column.column)
    # A key that is always the same is the only one of its table, or a place in the program.
    is_only_key = column is not None and (column.is_unique or bool(column.references))
    is_only_key = is_only_key and column is not None and column.distribution.distinct <= 1
    if (
        distinct == 1
        and not is_only_key
        and _may_be_shown(known[0], observed, kind)
        and len(known) == len(values)
    ):
        return Constant(value=known[0])
    is_written = observed.use.use in ("set", "insert")
    if column is not None and kind in ("enum", "boolean") and is_written:
        return Drawn(distribution=_of_labels(observed, kind, column))
    if column is not None and observed.use.use not in ("change", "limit", "offset"):
        access = _access(numbers, column, raw_range)
        return OfColumn(table=column.table, column=column.column, distribution=access)
    return Drawn(distribution=distribution_of(observed, kind))


def _of_labels(observed: Observed, kind: ValueKind, column: ColumnShape) -> Distribution:
    """Return how often each label of an enum, or each truth value, was written."""
    labels = column.distribution.labels
    known = [text for text in observed.known() if kind == "boolean" or text in labels]
    if kind == "boolean" or not known:
        return distribution_of(observed, "boolean") if known else column.distribution
    hot = tuple(Hot(value=v, fraction=n / len(known)) for v, n in Counter(known).most_common())
    nulls = sum(value is None for value in observed.values) / len(observed.values)
    return Distribution(kind="enum", null_fraction=nulls, distinct=len(hot), hot=hot, labels=labels)


def _is_of_same_column(
    source: Source | None, observed: Observed, earlier: Sequence[Observed]
) -> bool:
    """Return whether a source is a parameter that is compared with the same column."""
    return isinstance(source, Equal) and any(
        (other.step, other.position) == (source.step, source.parameter)
        and (other.use.table, other.use.column) == (observed.use.table, observed.use.column)
        for other in earlier
    )


def _is_same(observed: Observed, known_key: Source | None, earlier: Sequence[Observed]) -> bool:
    """Return whether a parameter has the value of an earlier one in every transaction.

    The schema says that it may; so few transactions are enough.
    """
    if not isinstance(known_key, Equal):
        return False
    for other in earlier:
        if (other.step, other.position) == (known_key.step, known_key.parameter):
            mine, theirs = _paired(observed.values, observed, other.values, other)
            return bool(mine) and mine == theirs
    return False


def _same_list(
    observed: Observed, lists: Sequence[list[Any]], earlier: Sequence[Observed]
) -> Source | None:
    """Return the earlier parameter that has the same array, or the only value of each array."""
    for other in earlier:
        mine, theirs = _paired(observed.values, observed, other.values, other)
        if mine and mine == theirs:
            return Equal(step=other.step, parameter=other.position)
        if max(map(len, lists)) == 1 == min(map(len, lists)):
            only = [items[0] for items in lists]
            mine, theirs = _paired(only, observed, other.values, other)
            if mine and mine == theirs:
                same = Equal(step=other.step, parameter=other.position)
                return ListOf(of=same, length=Spread())
    return None


def _list(
    observed: Observed,
    column: ColumnShape | None,
    earlier: Sequence[Observed],
    known_key: Source | None,
) -> Source | None:
    """Return the source of an array or of the list of IN."""
    lists = [source for value in observed.values if (source := _items(value, observed)) is not None]
    if not lists or len(lists) < _ALWAYS * len(observed.values):
        return None
    if len(lists) == len(observed.values) and (same := _same_list(observed, lists, earlier)):
        return same
    if isinstance(known_key, Returned):
        return known_key.model_copy(update={"pick": "all"})
    lengths = [len(items) for items in lists]
    is_one_value = max(lengths) > 1 and all(len(set(map(str, items))) <= 1 for items in lists)
    length = Spread(least=min(lengths), mean=sum(lengths) / len(lengths), most=max(lengths))
    if column is not None and column.distribution.kind != "array":
        return ListOf(
            of=OfColumn(table=column.table, column=column.column),
            length=length,
            is_one_value=is_one_value,
        )
    flat = [item for items in lists for item in items][: 10 * len(lists)]
    items_observed = Observed(
        observed.step,
        observed.position,
        observed.use,
        observed.type.removesuffix("[]"),
        (),
        flat,
        (),
    )
    return ListOf(
        of=Drawn(distribution=distribution_of(items_observed, _kind(items_observed, None, None))),
        length=length,
        is_one_value=is_one_value,
    )


def _items(value: Value, observed: Observed) -> list[Any] | None:
    if isinstance(value, list):
        return value
    is_array = observed.use.use == "list" or observed.type.endswith("[]")
    if is_array and isinstance(value, str) and value[:1] == "{" and value[-1:] == "}":
        # Within braces PostgreSQL writes a list with quotes and backslashes.
        rows = list(csv.reader([value[1:-1]], escapechar="\\")) if value != "{}" else [[]]
        return rows[0] if rows else []
    return None


def _numbers(observed: Observed) -> FloatArray | None:
    """Return the values as numbers, times as seconds; NaN for NULL. None: they are texts."""
    made: list[float] = []
    for value in observed.values:
        if value is None or value is False:
            made.append(np.nan)
            continue
        number = _number(value)
        if number is None:
            return None
        made.append(number)
    return np.array(made)


def _number(value: Value) -> float | None:
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        return float(value)
    except ValueError:
        pass
    moment = times.microseconds("timestamptz", value) if value[4:5] == "-" else None
    return None if moment is None else float(moment / times.SECOND_US)


def _dependency(
    observed: Observed, numbers: FloatArray | None, earlier: Sequence[Observed]
) -> Source | None:
    """Return the earlier parameter from which the values follow, the nearest one first."""
    distinct = len(set(map(str, observed.values)))
    if distinct == 1 or (distinct < _DISTINCT_MIN and len(observed.values) < _INSTANCES_MIN):
        return None
    candidates = list(reversed(earlier))
    for other in candidates:
        mine, theirs = _paired(observed.values, observed, other.values, other)
        same = sum(a == b for a, b in zip(mine, theirs, strict=True))
        is_enough = len(mine) >= (_INSTANCES_MIN if distinct < _DISTINCT_MIN else _DISTINCT_MIN)
        if is_enough and same >= _ALWAYS * len(mine):
            return Equal(step=other.step, parameter=other.position)
    if numbers is None or len(observed.values) < _INSTANCES_MIN:
        return None
    for other in candidates:
        their_numbers = _numbers(other)
        if their_numbers is not None and (
            source := _arithmetic(observed, numbers, other, their_numbers)
        ):
            return source
    return None


def _paired(
    mine: Sequence[Any], own: Observed, theirs: Sequence[Any], other: Observed
) -> tuple[list[Any], list[Any]]:
    """Return the values of both parameters, turn by turn of the same transaction.

    If one step has several turns and the other has one, this value stands for all turns.
    """
    by_instance: dict[int, list[Any]] = {}
    for instance, value in zip(other.instances, theirs, strict=True):
        by_instance.setdefault(instance, []).append(value)
    turn: Counter[int] = Counter()
    left, right = [], []
    for instance, value in zip(own.instances, mine, strict=True):
        turns = by_instance.get(instance)
        if not turns:
            continue
        left.append(value)
        right.append(turns[min(turn[instance], len(turns) - 1)])
        turn[instance] += 1
    return left, right


def _arithmetic(
    observed: Observed, numbers: FloatArray, other: Observed, their_numbers: FloatArray
) -> Source | None:
    """Return a linear or a bounded relation to a number of an earlier parameter."""
    pairs = _paired(numbers.tolist(), observed, their_numbers.tolist(), other)
    mine, theirs = np.array(pairs[0]), np.array(pairs[1])
    known = np.isfinite(mine) & np.isfinite(theirs)
    mine, theirs = mine[known], theirs[known]
    if len(mine) < _INSTANCES_MIN or np.ptp(theirs) == 0 or np.ptp(mine) == 0:
        return None
    far = [int(np.argmin(theirs)), int(np.argmax(theirs))]
    slope = float((mine[far[1]] - mine[far[0]]) / (theirs[far[1]] - theirs[far[0]]))
    offset = float(mine[far[0]] - slope * theirs[far[0]])
    misses = np.abs(slope * theirs + offset - mine) > 1e-6 * max(1.0, float(np.ptp(mine)))
    if slope != 0 and misses.mean() <= 1 - _ALWAYS:
        return Linear(
            step=other.step,
            parameter=other.position,
            slope=round(slope, 9),
            offset=round(offset, 6),
        )
    differences = mine - theirs
    least, most = np.quantile(differences, (0.005, 0.995))
    if most - least < _BOUNDED * np.ptp(mine) and len(set(theirs)) > _INSTANCES_MIN:
        return Between(
            step=other.step, parameter=other.position, least=float(least), most=float(most)
        )
    return None


def _kind(observed: Observed, column: ColumnShape | None, numbers: FloatArray | None) -> ValueKind:
    if column is not None and observed.use.use not in ("limit", "offset"):
        return column.distribution.kind
    if observed.type in _KIND_OF_CAST:
        return _KIND_OF_CAST[observed.type]
    known = observed.known()
    if known and all(_is_whole(value) for value in known):
        return "integer"
    if known and all(_is_number(value) for value in known):
        return "numeric"
    if known and set(known) <= _BOOLEANS:
        return "boolean"
    return "timestamptz" if numbers is not None and known else "text"


def _is_whole(value: str) -> bool:
    return value.lstrip("-").isdecimal()


def _is_number(value: str) -> bool:
    try:
        return Decimal(value).is_finite()
    except InvalidOperation:
        return False


def _now(observed: Observed, kind: ValueKind) -> Source | None:
    """Return that a time follows the clock, if it does."""
    numbers = _numbers(observed) if kind in _TIMES else None
    if numbers is None or not len(observed.times_s):
        return None
    behind = np.array(observed.times_s) - numbers
    behind = behind[np.isfinite(behind)]
    width_s = 86_400.0 if kind == "date" else _NOW_S
    # A zone that the log or the value does not name is a whole number of quarters of an hour.
    if len(behind) >= _INSTANCES_MIN and np.ptp(behind) <= width_s and len(set(numbers)) > 1:
        return Now(minus_s=round(float(np.median(behind)), 3))
    return None


def _is_ascending(numbers: FloatArray | None, distinct: int) -> bool:
    """Return whether keys are new: none occurs twice, and later ones are larger."""
    if numbers is None or len(numbers) < _INSTANCES_MIN or distinct < len(numbers):
        return False
    order = np.argsort(np.argsort(numbers))
    return bool(np.corrcoef(order, np.arange(len(order)))[0, 1] > 0.9)


def _may_be_shown(value: str, observed: Observed, kind: ValueKind) -> bool:
    """Return whether a constant is part of the program and not of the data."""
    if observed.use.use in ("limit", "offset") or kind in ("boolean", "enum", "interval"):
        return True
    return _is_whole(value) and abs(int(value)) < _SMALL


def _access(
    numbers: FloatArray | None, column: ColumnShape, raw_range: tuple[str, str] | None
) -> Distribution | None:
    """Return how the keys of a column are used, if not evenly: at stand-ins in the same places."""
    shape = column.distribution
    if numbers is None or raw_range is None or len(shape.bounds) < 2 or shape.kind != "integer":
        return None
    first, last = (_number(bound) for bound in raw_range)
    known = numbers[np.isfinite(numbers)]
    if first is None or last is None or last <= first or len(known) < 5 * _INSTANCES_MIN:
        return None
    new_first, new_last = float(shape.bounds[0]), float(shape.bounds[-1])
    places = np.clip((known - first) / (last - first), 0, 1)
    if last - first >= _SMALL:
        # Near its place, but not the key itself.
        edge = 0.002 + 0.008 * StandIns((), ()).fraction("access", column.table, column.column)
        places = edge + (1 - 2 * edge) * places
    moved = np.rint(new_first + places * (new_last - new_first)).astype(np.int64)
    values, counts = np.unique(moved, return_counts=True)
    mean = len(moved) / min(max(shape.distinct, 1), last - first + 1)
    is_hot = (counts >= _HOT_CALLS) & (counts > _HOT_TIMES * mean)
    evenly = np.linspace(0, 1, len(places))
    distance = float(np.max(np.abs(np.sort(places) - evenly)))
    if not is_hot.any() and distance < 0.05 + 1.5 / np.sqrt(len(places)):
        return None
    common = sorted(zip(-counts[is_hot], values[is_hot], strict=True))[:_HOT_MAX]
    hot = tuple(Hot(value=str(value), fraction=-count / len(moved)) for count, value in common)
    rest = moved[~np.isin(moved, [value for _, value in common])]
    bounds = _quantiles(rest) if len(rest) else ()
    return shape.model_copy(
        update={
            "hot": hot,
            "bounds": tuple(str(int(bound)) for bound in bounds),
            "distinct": float(len(values)),
            "null_fraction": 0,
            "is_dense": False,
        }
    )


def _quantiles(values: npt.NDArray[Any]) -> list[Any]:
    """Return bounds with as many values between neighbours; all are values that occur."""
    count = min(_BOUNDS, len(values) - 1)
    ordered = np.sort(values)
    places = np.linspace(0, len(ordered) - 1, count + 1).astype(int)
    return list(dict.fromkeys(ordered[places].tolist()))


def distribution_of(observed: Observed, kind: ValueKind) -> Distribution:
    """Return the distribution of values, as stand-ins."""
    known = observed.known()
    nulls = sum(value is None for value in observed.values) / max(len(observed.values), 1)
    counts = Counter(known)
    if kind in ("integer", "numeric", "real") and all(map(_is_number, known)):
        return _numeric(kind, counts, nulls)
    if kind in _TIMES:
        moments = {text: times.microseconds(kind, text) for text in counts}
        if all(moment is not None for moment in moments.values()):
            return _of_times(kind, [m for t in known if (m := moments[t]) is not None], nulls)
    if kind == "boolean":
        labels = tuple(Hot(value=v[0], fraction=n / len(known)) for v, n in counts.most_common(2))
        return Distribution(kind="boolean", null_fraction=nulls, distinct=2, hot=labels)
    if kind == "json":
        # Without bounds the engine makes whole documents.
        width = _width(observed.values)
        return Distribution(kind=kind, null_fraction=nulls, distinct=len(counts), width=width)
    texts = sorted(counts)
    stand_ins = StandIns(texts, texts)
    common = [(text, count) for text, count in counts.most_common(_HOT_MAX) if count > 1]
    if len(counts) > _HOT_MAX:
        mean = len(known) / len(counts)
        common = [(t, n) for t, n in common if n >= _HOT_CALLS and n > _HOT_TIMES * mean]
    hot = tuple(Hot(value=stand_ins.text(t), fraction=n / len(known)) for t, n in common)
    rest = [text for text in texts if text not in dict(common)]
    every = max(1, len(rest) // _BOUNDS)
    bounds = sorted(stand_ins.text(text) for text in rest[::every])
    return Distribution(
        kind="text" if kind not in ("uuid", "bytes", "inet") else kind,
        null_fraction=nulls,
        distinct=len(counts),
        width=_width(observed.values),
        hot=hot,
        bounds=tuple(bounds),
    )


def _width(values: Sequence[Value]) -> float:
    lengths = [
        value["bytes"] if isinstance(value, Mapping) else len(value.encode())
        for value in values
        if isinstance(value, Mapping | str)
    ]
    return sum(lengths) / max(len(lengths), 1)


def _numeric(kind: ValueKind, counts: Counter[str], nulls: float) -> Distribution:
    values = {Decimal(text): count for text, count in counts.items()}
    step = min((Decimal(1).scaleb(int(v.as_tuple().exponent)) for v in values), default=Decimal(1))
    step = Decimal(1) if kind == "integer" else min(step, Decimal(1))
    total = sum(values.values())
    mean = total / max(len(values), 1)
    is_small = kind == "integer" and all(abs(value) < _SMALL for value in values)
    hot = sorted(
        (-count, value)
        for value, count in values.items()
        if count >= _HOT_CALLS and (count > _HOT_TIMES * mean or len(values) <= _HOT_MAX)
    )[:_HOT_MAX]
    spread = np.array(
        sorted(
            value
            for value, count in values.items()
            if (-count, value) not in hot
            for _ in range(count)
        ),
        dtype=object,
    )
    bounds = _quantiles(spread) if len(spread) else []
    chosen = sorted({*bounds, *(value for _, value in hot)})
    texts = [f"{value:f}" for value in values]
    moved = chosen if is_small else StandIns((), texts).numbers(chosen, step)
    placed = dict(zip(chosen, moved, strict=True))
    return Distribution(
        kind=kind,
        null_fraction=nulls,
        distinct=len(values),
        hot=tuple(Hot(value=f"{placed[v]:f}", fraction=-n / total) for n, v in hot),
        bounds=tuple(f"{placed[value]:f}" for value in bounds),
        step=float(step),
    )


def _of_times(kind: ValueKind, moments: list[Decimal], nulls: float) -> Distribution:
    step = times.step_us(kind, moments)
    ordered = sorted(set(moments))
    bounds = _quantiles(np.array(ordered, dtype=object))
    moved = StandIns((), [times.text_of(kind, m) for m in ordered]).numbers(bounds, step)
    return Distribution(
        kind=kind,
        null_fraction=nulls,
        distinct=len(ordered),
        bounds=tuple(times.text_of(kind, moment) for moment in moved),
        step=float(step / times.SECOND_US),
    )
