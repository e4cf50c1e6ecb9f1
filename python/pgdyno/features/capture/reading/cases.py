"""Parameters of one statement that depend on each other, such as a state and the time of its end.

If each parameter were drawn alone, a job could be completed without an end, which a CHECK refuses.
So of two parameters with few values, the later one is drawn as it was with the value of the earlier
one. In lists side by side, the elements of one place are those of one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import log, log2

from pgdyno.engine.distribution import Hot
from pgdyno.features.capture.model import (
    Case,
    Cases,
    Constant,
    Drawn,
    ListOf,
    OfColumn,
    Source,
    parts_of,
)
from pgdyno.features.capture.reading.log_distributions import distribution_of, kind_of
from pgdyno.features.capture.reading.observed import Observed, beginning_of

# Fewer pairs, or more different values, show no dependence.
_PAIRS_MIN, _VALUES_MAX = 30, 8
# A statement may have thousands of parameters: those that stand shortly before are looked at.
_EARLIER_MAX = 50
# A rarer value is one of the others.
_RARE = 0.02
# An earlier parameter decides if it explains this share of an entropy of at least these bits.
_EXPLAINED, _BITS_MIN = 0.3, 0.02
_OTHERS = ("others",)


def with_cases(sources: Sequence[Source], observed: Sequence[Observed]) -> list[Source]:
    """Return the sources of the parameters of a step, those that depend on an earlier one changed.

    Args: observed, the values of each parameter; of the same calls.
    """
    made = list(sources)
    rows = [_values(source, own) for source, own in zip(sources, observed, strict=True)]
    for place, source in enumerate(sources):
        inner = source.of if isinstance(source, ListOf) else source
        is_column = isinstance(inner, OfColumn)
        if not isinstance(inner, Drawn | OfColumn):
            continue
        if isinstance(inner, OfColumn) and inner.group is not None:
            continue
        if sum(map(len, rows[place])) < _PAIRS_MIN:
            continue
        best, chosen = _EXPLAINED, None
        for other in range(max(0, place - _EARLIER_MAX), place):
            if isinstance(source, ListOf) != isinstance(sources[other], ListOf):
                continue
            values, deciding = _side_by_side(rows[place], rows[other])
            own = [v is None for v in values] if is_column else _classes(values)
            theirs = _deciding(deciding, made[other], observed[other])
            if (share := _explained(own, theirs)) > best:
                best, chosen = share, _cases(inner, observed[place], values, other, theirs)
        if chosen is not None:
            update = {"of": chosen, "is_one_value": False}
            made[place] = source.model_copy(update=update) if isinstance(source, ListOf) else chosen
    return made


def _values(source: Source, observed: Observed) -> list[list[str | None]]:
    """Return the values of a parameter in each call: of a list, those of its elements."""
    if not isinstance(source, ListOf):
        return [[] if v is False else [_text(v)] for v in observed.values]
    lists = zip(observed.lists, observed.values, strict=True)
    return [list(map(_text, beginning_of(v) if items is None else items)) for items, v in lists]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _side_by_side(
    own: Sequence[Sequence[str | None]], others: Sequence[Sequence[str | None]]
) -> tuple[list[str | None], list[str | None]]:
    """Return the values of two parameters in the same calls and places."""
    if len(own) != len(others):
        return [], []
    pairs = [
        pair
        for mine, theirs in zip(own, others, strict=True)
        for pair in zip(mine, theirs, strict=False)
    ]
    return [mine for mine, _ in pairs], [theirs for _, theirs in pairs]


def _deciding(values: Sequence[str | None], source: Source, observed: Observed) -> list[Hashable]:
    """Return the values that decide, as they are drawn; if that is not known: NULL or another one.

    A text is drawn as its stand-in, also if it is one of the copy.
    """
    inner = source.of if isinstance(source, ListOf) else source
    few = {value for value in values if value is not None}
    words: dict[str, str] = {}
    if len(few) <= _VALUES_MAX:
        is_text = (
            isinstance(inner, OfColumn) and kind_of(observed, None, observed.numbers) == "text"
        )
        shapes = [part.distribution for part in parts_of(source) if isinstance(part, Drawn)]
        is_text |= any(shape.kind == "text" for shape in shapes)
        drawn = {hot.value for shape in shapes for hot in shape.hot}
        words = {v: observed.stand_ins.text(v) if is_text else v for v in few}
        if not set(words.values()) <= drawn and not isinstance(inner, OfColumn):
            # Truth values are drawn as one letter.
            words = {v: v[:1] for v in few} if {v[:1] for v in few} <= drawn else {}
        elif isinstance(inner, OfColumn) and not is_text:
            words = {}
    return [None if v is None else words.get(v, _OTHERS) for v in values]


def _classes(values: Sequence[str | None]) -> list[Hashable]:
    """Return what a value is: itself if it is common, NULL, or another one."""
    counts = Counter(values)
    common = {v for v, n in counts.most_common(_VALUES_MAX) if n > _RARE * len(values)} | {None}
    return [value if value in common else _OTHERS for value in values]


def _explained(own: Sequence[Hashable], theirs: Sequence[Hashable]) -> float:
    """Return the share of the entropy of values that others explain, 0 to 1."""
    count = len(own)
    if count < _PAIRS_MIN or len(set(theirs)) < 2 or len(set(own)) < 2:
        return 0.0
    whole = _bits(own)
    left = _bits(list(zip(own, theirs, strict=True))) - _bits(theirs)
    # Of independent values, chance explains this much (Miller and Madow, 1955).
    chance = (len(set(own)) - 1) * (len(set(theirs)) - 1) / (2 * count * log(2))
    return (whole - left - chance) / whole if whole > _BITS_MIN else 0.0


def _bits(values: Sequence[Hashable]) -> float:
    counts = Counter(values).values()
    return -sum(n / len(values) * log2(n / len(values)) for n in counts)


def _cases(
    inner: Drawn | OfColumn,
    observed: Observed,
    values: Sequence[str | None],
    parameter: int,
    decided: Sequence[Hashable],
) -> Source:
    """Return what each value of another parameter decides."""
    made: dict[Hashable, Source] = {}
    for value in dict.fromkeys(decided):
        known = [own for own, other in zip(values, decided, strict=True) if other == value]
        made[value] = _of_these(inner, observed, known)
    otherwise = made.pop(_OTHERS, inner)
    cases = [Case(value=None if v is None else str(v), source=s) for v, s in made.items()]
    return Cases(parameter=parameter, cases=tuple(cases), otherwise=otherwise)


def _of_these(inner: Drawn | OfColumn, observed: Observed, values: Sequence[str | None]) -> Source:
    """Return the source of some of the values of a parameter."""
    nulls = sum(value is None for value in values) / len(values)
    if nulls == 1:
        return Constant(value=None)
    if isinstance(inner, OfColumn):
        shape = inner.distribution
        if inner.by_frequency and shape is not None:
            shape = shape.model_copy(update={"null_fraction": nulls})
        return inner.model_copy(update={"distribution": shape, "is_not_null": not nulls})
    shape = inner.distribution
    if shape.kind == "enum":
        counts = Counter(value for value in values if value is not None)
        hot = tuple(Hot(value=v, fraction=n / counts.total()) for v, n in counts.most_common())
        few = {"hot": hot, "distinct": len(hot), "null_fraction": nulls}
        return Drawn(distribution=shape.model_copy(update=few))
    some = replace(observed, instances=(), values=values, times_s=(), sessions=())
    return Drawn(distribution=distribution_of(some, shape.kind))
