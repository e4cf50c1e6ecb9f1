"""Marks of a time line, few enough to be drawn: of very many the nearest become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdyno.analysis.findings import Mark

MARKS_MAX = 100
_WIDER = 1.25


def nearest_merged(marks: Iterable[Mark], at_most: int = MARKS_MAX) -> tuple[Mark, ...]:
    """Return marks in order of time; of more than `at_most` those of a kind that are near are one.

    Such a mark stands where the first of them does, and says how many there are within which time.
    That time is the shortest of a row that leaves `at_most`, so what happened alone stays alone.
    Args: at_most, at least one for each kind.
    """
    ordered = sorted(marks, key=lambda mark: mark.time_s)
    shown = ordered
    within_s = (ordered[-1].time_s - ordered[0].time_s) / (8 * at_most) if ordered else 0.0
    while len(shown) > at_most:
        shown = _merged(ordered, within_s)
        within_s *= _WIDER
    return tuple(shown)


def _merged(ordered: Sequence[Mark], within_s: float) -> list[Mark]:
    """Return the marks with all of a kind as one that come so soon after the first of them."""
    groups: list[list[Mark]] = []
    latest: dict[str, list[Mark]] = {}
    for mark in ordered:
        group = latest.get(mark.kind)
        if group is None or mark.time_s - group[0].time_s > within_s:
            group = latest[mark.kind] = []
            groups.append(group)
        group.append(mark)
    return [_as_one(group) for group in groups]


def _as_one(group: Sequence[Mark]) -> Mark:
    first, count = group[0], sum(mark.count for mark in group)
    if len(group) == 1:
        return first
    within = f"{count:,} within {group[-1].time_s - first.time_s:.3g} s"
    texts = {mark.text for mark in group}
    said = f"each {first.text}" if len(texts) == 1 else f"the first: {first.text}"
    return Mark(first.time_s, first.kind, f"{within}, {said}", count)
