"""Where the values of a parameter come from, source from the values that a log shows.

In this order: an earlier value of the transaction (`log_dependencies`), a list, a new key, a
constant, an existing value of a column, a distribution. No value of the log stays: numbers move,
texts get stand-ins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pgdyno.engine.distribution import Distribution, Hot, Spread, ValueKind
from pgdyno.features.capture.arrays import quoted_items
from pgdyno.features.capture.model import (
    Constant,
    Drawn,
    Equal,
    Fresh,
    ListOf,
    Now,
    Number,
    OfColumn,
    Returned,
    Source,
    Turn,
)
from pgdyno.features.capture.reading.column_statistics import RawColumn
from pgdyno.features.capture.reading.functions import OWN_WORD
from pgdyno.features.capture.reading.inner_values import element_of, is_inside
from pgdyno.features.capture.reading.key_sources import FRESH_KINDS
from pgdyno.features.capture.reading.log_dependencies import (
    Earlier,
    are_sorted,
    dependency,
    elements_of,
    is_ascending_from,
    list_dependency,
    number,
    pairs_of,
)
from pgdyno.features.capture.reading.log_distributions import (
    TIMES,
    access_of,
    distribution_of,
    frequency_of,
    kind_of,
    may_be_shown,
)
from pgdyno.features.capture.reading.log_sessions import kept_source
from pgdyno.features.capture.reading.observed import FloatArray, Observed, beginning_of
from pgdyno.features.capture.schema import ColumnShape

_INSTANCES_MIN = 10
_INTERVAL = re.compile(r"(?:[-+]?[\d.:]+\s*(?:[a-z]{0,12})\s*){1,8}", re.I)
_TIME_WORDS = {"epoch", "infinity", "-infinity", "now", "today", "tomorrow", "yesterday"}
# Nearly all values of a list are arrays; others were cut.
_NEARLY_ALL = 0.99
# A parameter is NULL more often than its column if the shares differ by more than this.
_NULLS_ABOVE = 0.05
# A number that was summed up is another one in most transactions.
_CHANGES = 0.5
# A time that follows the clock of the log this closely is "now".
_NOW_S = 5.0


def source_of(
    observed: Observed,
    earlier: Earlier,
    column: ColumnShape | None,
    *,
    raw: RawColumn,
    is_key: bool,
    known_key: Source | None = None,
    record: Source | None = None,
    as_long_as: int | None = None,
    read_sum: Source | None = None,
) -> Source:
    """Return the source of a parameter.

    Args: known_key, where the schema says that a key comes from: an earlier parameter, or a row
    that an earlier step returned. record, a value of the parameter's composite type. as_long_as, an
    earlier parameter of the step with as many elements. read_sum, a sum that an earlier step read,
    and that nothing else uses. raw, values of the column.
    """
    values = observed.values
    if not values or all(value is False for value in values):
        return (
            OfColumn(table=column.table, column=column.column) if column else Constant(value=None)
        )
    if (word := _word_or_window(observed, column)) is not None:
        return word
    if record is not None and not observed.type.endswith("[]"):
        return record
    if record is not None:
        return ListOf(of=record, length=_spread(observed.lengths or [1]))
    if source := _list(observed, column, earlier, known_key, raw):
        if isinstance(source, ListOf) and as_long_as is not None:
            return source.model_copy(update={"as_long_as": as_long_as, "count": None})
        return source
    numbers = observed.numbers
    source = dependency(observed, earlier)
    is_same = _is_always_same(observed, column) or _is_of_same_column(source, observed, earlier)
    if isinstance(known_key, Returned) and not is_same:
        # Keys of two tables may be equal because their rows were made together.
        return known_key
    if source is not None:
        return source
    if known_key is not None and _is_same(observed, known_key, earlier):
        return known_key
    kind = kind_of(observed, column, numbers)
    if source := _now(observed, kind):
        return source
    known = observed.known()
    distinct = len(set(known))
    may_be_new = is_key and column is not None and column.distribution.kind in FRESH_KINDS
    if observed.use.use == "insert" and may_be_new and column and _is_ascending(numbers, distinct):
        return Fresh(table=column.table, column=column.column)
    # A key that is always the same is the only one of its table, or a place in the program.
    is_only_key = column is not None and (column.is_unique or bool(column.references))
    is_only_key = is_only_key and column is not None and column.distribution.distinct <= 1
    if (
        distinct == 1
        and not is_only_key
        and may_be_shown(known[0], observed, kind)
        and len(known) == len(values)
    ):
        return Constant(value=known[0])
    is_changed = observed.use.use == "change" and numbers is not None
    if read_sum is not None and is_changed and distinct > _CHANGES * len(known):
        return read_sum
    if column is not None and (own := kept_source(observed, column)):
        return own
    return _drawn(observed, column, kind, raw)


def _drawn(
    observed: Observed,
    column: ColumnShape | None,
    kind: ValueKind,
    raw: RawColumn,
) -> Source:
    """Return an existing value of a column, or one of the values of the log."""
    is_written = observed.use.use in ("set", "insert")
    if column is not None and kind in ("enum", "boolean") and is_written:
        return Drawn(distribution=_of_labels(observed, kind, column))
    if column is not None and observed.use.use not in ("change", "limit", "offset"):
        if observed.is_own and column.distribution.kind == "text":
            # What the load itself writes there is found again, whatever rows a copy has.
            return Drawn(distribution=distribution_of(observed, "text"))
        if places := frequency_of(observed, raw) or _nulls(observed, column):
            return OfColumn(
                table=column.table,
                column=column.column,
                distribution=places,
                by_frequency=True,
                is_not_null=not column.is_not_null,
            )
        access = access_of(observed.numbers, column, raw.range)
        if access is None and observed.use.use == "range" and not column.distribution.bounds:
            return Drawn(distribution=distribution_of(observed, kind))
        return OfColumn(
            table=column.table,
            column=column.column,
            distribution=access,
            is_not_null=not column.is_not_null and None not in observed.values,
        )
    if kind == "enum":
        return Drawn(distribution=_of_labels(observed, kind, None))
    return Drawn(distribution=distribution_of(observed, kind))


def _nulls(observed: Observed, column: ColumnShape) -> Distribution | None:
    """Return that a parameter is NULL more often than its column; None if it is not."""
    nulls = sum(value is None for value in observed.values) / len(observed.values)
    if nulls <= column.distribution.null_fraction + _NULLS_ABOVE:
        return None
    return Distribution(kind="real", null_fraction=nulls, bounds=("0", "1"), distinct=100)


def _of_labels(observed: Observed, kind: ValueKind, column: ColumnShape | None) -> Distribution:
    """Return how often each label of an enum, or each truth value, was written."""
    labels = column.distribution.labels if column else tuple(sorted(observed.labels))
    known = [text for text in observed.known() if kind == "boolean" or text in labels]
    if kind == "boolean" or not known:
        return column.distribution if column and not known else distribution_of(observed, kind)
    hot = tuple(Hot(value=v, fraction=n / len(known)) for v, n in Counter(known).most_common())
    nulls = sum(value is None for value in observed.values) / len(observed.values)
    return Distribution(kind="enum", null_fraction=nulls, distinct=len(hot), hot=hot, labels=labels)


def _is_of_same_column(source: Source | None, observed: Observed, earlier: Earlier) -> bool:
    """Return whether a source is a parameter that is compared with the same column."""
    return isinstance(source, Equal) and any(
        (other.step, other.position) == (source.step, source.parameter)
        and (other.use.table, other.use.column) == (observed.use.table, observed.use.column)
        for other in earlier.parameters
    )


def _is_always_same(observed: Observed, column: ColumnShape | None) -> bool:
    """Return whether several transactions have the same key of many, so that no row gave it."""
    values = observed.known()
    is_one_of_many = column is None or column.distribution.distinct != 1
    return len(values) > 1 and len(set(values)) == 1 and is_one_of_many


def _is_same(observed: Observed, known_key: Source | None, earlier: Earlier) -> bool:
    """Return whether a parameter has the value of an earlier one in every transaction.

    The schema says that it may; so few transactions are enough.
    """
    if not isinstance(known_key, Equal):
        return False
    for other in earlier.parameters:
        if (other.step, other.position) == (known_key.step, known_key.parameter):
            pairs = list(pairs_of(observed, other))
            return bool(pairs) and all(mine == theirs for mine, theirs in pairs)
    return False


def _list(
    observed: Observed,
    column: ColumnShape | None,
    earlier: Earlier,
    known_key: Source | None,
    raw: RawColumn,
) -> Source | None:
    """Return the source of an array or of the list of IN."""
    lists = [items for items in observed.lists if items is not None]
    is_array = observed.use.use == "list" or observed.type.endswith("[]")
    cut = [items for value in observed.values if is_array and (items := beginning_of(value))]
    if not lists + cut or len(lists) + len(cut) < _NEARLY_ALL * len(observed.values):
        return None
    is_whole_list = len(lists) == len(observed.values)
    lists += cut
    labels = column.distribution.labels if column is not None else ()
    labels = labels or tuple(observed.labels)
    if is_whole_list and all(items == lists[0] for items in lists) and set(lists[0]) <= set(labels):
        # States of the program, such as all that are not final.
        return Constant(value=f"{{{quoted_items(lists[0], null='NULL')}}}")
    if is_whole_list and (same := list_dependency(observed, lists, earlier)):
        return same
    lengths = observed.lengths if is_array else [len(items) for items in lists]
    are_same = all(len(set(map(str, items))) <= 1 for items in lists)
    if isinstance(known_key, Returned) and are_same and max(lengths) > 1:
        # Several rows that belong to the row that an earlier step made.
        return ListOf(of=known_key, length=_spread(lengths), is_one_value=True)
    if isinstance(known_key, Returned):
        return known_key.model_copy(update={"pick": "all"})
    counted = number(observed, np.array(lengths, float), earlier) if is_whole_list else None
    # Several rows of a unique column may have NULL.
    known = [[str(item) for item in items if item is not None] for items in lists]
    is_distinct = all(len(set(items)) == len(items) for items in known)
    return ListOf(
        of=_element(observed, lists, column, raw),
        length=_spread(lengths),
        count=counted and Number(**counted.model_dump()),
        is_one_value=are_same and not is_distinct,
        is_distinct=is_distinct and max(lengths) > 1,
        is_sorted=are_sorted(lists),
    )


def _element(
    observed: Observed,
    lists: Sequence[list[Any]],
    column: ColumnShape | None,
    raw: RawColumn,
) -> Source:
    """Return the source of each element of an array."""
    if (first := is_ascending_from(lists)) is not None:
        return Turn(offset=first)
    elements = elements_of(observed)
    # A column of a row that is new has no existing values, unless they are keys of another table.
    items = {str(item) for part in lists for item in part}
    # Keys of another table exist; one key for all rows is a sign that the server makes the key.
    is_key = column is not None and column.is_unique and len(items) > 1
    is_new = observed.use.writes_elements and column is not None and not is_key
    if is_new and column is not None and not column.is_unique:
        # Names that rows have already, such as that of a queue, are chosen among these.
        is_new = not items <= raw.known
    if column is not None and column.distribution.kind != "array" and not is_new:
        return OfColumn(
            table=column.table,
            column=column.column,
            distribution=access_of(elements.numbers, column, raw.range),
            is_not_null=not column.is_not_null and all(None not in part for part in lists),
        )
    few = slice(10 * len(lists))
    some = replace(
        observed,
        type=observed.type.removesuffix("[]"),
        instances=(),
        values=[item for items in lists for item in items][few],
        times_s=(),
        sessions=(),
        is_literal=False,
    )
    return _drawn(some, None, kind_of(some, None, None), raw)


def _spread(lengths: Sequence[int]) -> Spread:
    return Spread(least=min(lengths), mean=sum(lengths) / len(lengths), most=max(lengths))


def _now(observed: Observed, kind: ValueKind) -> Source | None:
    """Return that a time follows the clock, if it does."""
    numbers = observed.numbers if kind in TIMES else None
    if numbers is None or not len(observed.times_s):
        return None
    if sum(value is None for value in observed.values) > len(observed.values) / 2:
        # Most calls have no time, such as those that start a job at once.
        return Constant(value=None)
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


def _word_or_window(observed: Observed, column: ColumnShape | None) -> Source | None:
    """Return NULL; a word of PostgreSQL, such as a unit of time; the size of a window; or an
    element of a column of arrays.
    """
    if all(value is None for value in observed.values):
        return Constant(value=None)
    if column is not None and is_inside(column, observed.type):
        return element_of(column)
    if observed.use.argument is not None and observed.use.argument.is_word:
        shown = [text for text in observed.known() if OWN_WORD.fullmatch(text)]
        return Constant(value=shown[0] if shown else observed.use.argument.values[0])
    if observed.is_literal and (timely := set(observed.known())) <= _TIME_WORDS and timely:
        return Constant(value=min(timely))
    if observed.type == "interval" and not (column and column.type == "interval"):
        # The size of a window of time, such as `now() - interval '1 day'`.
        [(window, _)] = Counter(observed.known()).most_common(1)
        return Constant(value=window if _INTERVAL.fullmatch(window) else "1 day")
    return None
