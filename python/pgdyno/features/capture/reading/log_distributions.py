"""How values of a log are distributed. No value stays: numbers move, texts get stand-ins."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

from pgdyno.engine.distribution import Distribution, Hot, ValueKind
from pgdyno.features.capture.reading import documents, times
from pgdyno.features.capture.reading.column_statistics import RawColumn
from pgdyno.features.capture.reading.log_calls import Value
from pgdyno.features.capture.reading.observed import FloatArray, Observed, number_of
from pgdyno.features.capture.reading.stand_ins import StandIns
from pgdyno.features.capture.schema import KIND_OF_TYPE, ColumnShape

# Fewer values than five times this do not show how the keys of a column are used.
_INSTANCES_MIN = 10
# Fewer uses than this do not show how common the used values are.
_PLACES_MIN = 50
_BOUNDS = 50
_HOT_MAX = 50
# A value is hot if it is this much more common than the mean, and is seen this often.
_HOT_TIMES, _HOT_CALLS = 10, 5
SMALL = 100
# What may be shown of the constants in a program's statements: short texts, and smaller numbers
# that are arguments of functions or operators.
_SHORT, _LARGE = 2, 10_000
_SYSTEM_NAME = re.compile(r"pg_[a-z_]+")
_BOOLEANS = frozenset(("t", "f", "true", "false"))
TIMES = ("date", "timestamp", "timestamptz")
_TEXTS = ("", "text", "character varying", "character", "unknown")
# A text may have any type.
_KIND_OF_CAST = {name: kind for name, kind in KIND_OF_TYPE.items() if kind != "text"}


def access_of(
    numbers: FloatArray | None, column: ColumnShape, raw_range: tuple[str, str] | None
) -> Distribution | None:
    """Return how the keys of a column are used, if not evenly: at stand-ins in the same places."""
    shape = column.distribution
    if numbers is None or raw_range is None or len(shape.bounds) < 2 or shape.kind != "integer":
        return None
    first, last = (number_of(bound) for bound in raw_range)
    known = numbers[np.isfinite(numbers)]
    if first is None or last is None or last <= first or len(known) < 5 * _INSTANCES_MIN:
        return None
    new_first, new_last = float(shape.bounds[0]), float(shape.bounds[-1])
    places = np.clip((known - first) / (last - first), 0, 1)
    if last - first >= SMALL:
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


def frequency_of(observed: Observed, raw: RawColumn) -> Distribution | None:
    """Return how common the used values are in their column, if not as in a random row.

    Returns: a distribution of places from 0 to 1 among the rows, the most common values first.
    Limits: of values that the statistics do not list, all are taken as equally common.
    """
    known = observed.known()
    if observed.use.use not in ("equal", "list") or not raw.common or len(known) < _PLACES_MIN:
        return None
    stand_ins, places = StandIns((), ()), {}
    before = 0.0
    for value, share in raw.common:
        places[value] = before + share / 2
        before += share
    rest = max(0.0, 1.0 - before)
    for value in set(known) - set(places):
        places[value] = before + rest * stand_ins.fraction("rare", value)
    counts = Counter(known)
    mean = len(known) / len(counts)
    hot = [v for v, n in counts.most_common(_HOT_MAX) if n >= _HOT_CALLS and n > _HOT_TIMES * mean]
    used = np.array(sorted(places[value] for value in known))
    distance = float(np.max(np.abs(used - np.linspace(0, 1, len(used)))))
    if not hot and distance < 0.05 + 1.5 / np.sqrt(len(used)):
        return None
    others = np.array([places[value] for value in known if value not in hot])
    return Distribution(
        kind="real",
        distinct=len(counts),
        hot=tuple(Hot(value=f"{places[v]:.6f}", fraction=counts[v] / len(known)) for v in hot),
        bounds=tuple(f"{place:.6f}" for place in _quantiles(others)) if len(others) else (),
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
        return _numeric(kind, counts, nulls, is_mask=observed.is_mask)
    if kind in TIMES:
        moments = {text: times.microseconds(kind, text) for text in counts}
        if all(moment is not None for moment in moments.values()):
            return _of_times(kind, [m for t in known if (m := moments[t]) is not None], nulls)
    if kind == "boolean":
        labels = tuple(Hot(value=v[0], fraction=n / len(known)) for v, n in counts.most_common(2))
        return Distribution(kind="boolean", null_fraction=nulls, distinct=2, hot=labels)
    if kind == "json":
        width = _width(observed.values)
        bounds: list[str] = []
        if any(text.lstrip().startswith("[") for text in counts):
            # Without bounds the engine makes an object, and a list has a row for each of its parts.
            bounds = _documents(list(counts)[:_BOUNDS], observed)
        made = Distribution(
            kind=kind, null_fraction=nulls, distinct=len(counts), width=width, bounds=tuple(bounds)
        )
        # A single document has no bounds between which another one could be.
        hot = tuple(Hot(value=text, fraction=1 - nulls) for text in bounds)
        return made.model_copy(update={"bounds": (), "hot": hot}) if len(hot) == 1 else made
    texts, stand_ins = sorted(counts), observed.stand_ins
    stand_ins.avoid(texts)
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


def _documents(known: Sequence[str], observed: Observed) -> list[str]:
    """Return documents in the order of jsonb, with stand-ins for their values."""
    keys, numbers = documents.kept_keys(known, observed.names), documents.numbers_of(known)
    stand_ins = observed.stand_ins
    stand_ins.avoid(documents.texts_of(known))
    moved = dict(zip(numbers, stand_ins.numbers(numbers, Decimal(1)), strict=True))
    made = {documents.replaced(text, keys, stand_ins.text, moved) for text in known}
    return sorted(made, key=documents.place_of)


def _width(values: Sequence[Value]) -> float:
    lengths = [
        value["bytes"] if isinstance(value, Mapping) else len(value.encode())
        for value in values
        if isinstance(value, Mapping | str)
    ]
    return sum(lengths) / max(len(lengths), 1)


def _numeric(kind: ValueKind, counts: Counter[str], nulls: float, *, is_mask: bool) -> Distribution:
    values = {Decimal(text): count for text, count in counts.items()}
    step = min((Decimal(1).scaleb(int(v.as_tuple().exponent)) for v in values), default=Decimal(1))
    step = Decimal(1) if kind == "integer" else min(step, Decimal(1))
    total = sum(values.values())
    mean = total / max(len(values), 1)
    most = _LARGE if is_mask and len(values) < SMALL else SMALL
    is_small = kind == "integer" and all(abs(value) < most for value in values)
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


def kind_of(
    observed: Observed, column: ColumnShape | None, numbers: FloatArray | None
) -> ValueKind:
    """Return the kind of the values: that of their column, or what they look like."""
    # What changes a column may be of another type, such as the length of a text.
    is_beside = observed.use.use in ("change", "limit", "offset")
    is_typed = is_beside and (
        observed.type in _KIND_OF_CAST
        or (column is not None and observed.type not in (*_TEXTS, column.type))
    )
    if column is not None and not is_typed and observed.use.use not in ("limit", "offset"):
        return column.distribution.kind
    if observed.type in _KIND_OF_CAST:
        return _KIND_OF_CAST[observed.type]
    if observed.labels:
        return "enum"
    known = observed.known()
    if known and all(is_whole(value) for value in known):
        return "integer"
    if known and all(_is_number(value) for value in known):
        return "numeric"
    if known and set(known) <= _BOOLEANS:
        return "boolean"
    return "timestamptz" if numbers is not None and known else "text"


def may_be_shown(value: str, observed: Observed, kind: ValueKind) -> bool:
    """Return whether a constant is part of the program and not of the data."""
    if observed.use.use in ("limit", "offset") or kind in ("boolean", "enum", "interval"):
        return True
    is_system = observed.is_literal and _SYSTEM_NAME.fullmatch(value)
    if observed.type == "name" or observed.type.startswith("reg") or is_system:
        # The name of an object of the schema, of a setting, or of the system.
        return True
    is_argument = observed.is_literal and observed.use.use in ("change", "other")
    # A number that a column is compared with, or set to, may be a value of a row.
    limit = _LARGE if is_argument else SMALL
    is_short = observed.is_literal and len(value) <= _SHORT
    return is_short or (is_whole(value) and abs(int(value)) < limit)


def is_whole(value: str) -> bool:
    """Return whether a text is a whole number."""
    return value.lstrip("-").isdecimal()


def _is_number(value: str) -> bool:
    try:
        return Decimal(value).is_finite()
    except InvalidOperation:
        return False
