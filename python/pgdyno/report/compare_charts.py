"""Charts of an experiment with variants: every round's runs, so that drift is seen."""

from __future__ import annotations

from pgdyno.analysis.compare_findings import CompareFindings
from pgdyno.report import palette
from pgdyno.report.chart import Chart, Line, Values
from pgdyno.report.compare_text import METRIC_NAMES


def round_charts(found: CompareFindings) -> tuple[Chart, ...]:
    """Return the deciding metric of every run by round, and the change of every pair by round.

    A drift that all variants share is in the first and not in the second.
    """
    lines = _values(found)
    if not lines or max(len(line.x) for line in lines) < 2:
        return ()
    name = METRIC_NAMES.get(found.metric, found.metric)
    values = Chart(
        key="rounds",
        title=f"{name} of every run",
        unit=found.unit,
        x_label="round",
        lines=lines,
        height_px=230,
    )
    changes = _changes(found)
    if not changes:
        return (values,)
    ratios = Chart(
        key="pairs",
        title="Change in every round",
        unit="%",
        x_label="round",
        lines=changes,
        height_px=200,
        note=f"A variant's run against the reference's of the same round. {_order(found)}",
    )
    return values, ratios


def _order(found: CompareFindings) -> str:
    if found.steps:
        return "Within a round the order is random: drift falls on one as often as on the other."
    return (
        "Pairs are adjacent in time and run in the order AB BA BA AB: drift is in both runs of a "
        "pair and cancels."
    )


def _values(found: CompareFindings) -> tuple[Line, ...]:
    return tuple(
        Line(variant.name, palette.at(place), *_columns(variant.by_round), shape="points")
        for place, variant in enumerate(found.variants)
        if variant.by_round
    )


def _changes(found: CompareFindings) -> tuple[Line, ...]:
    places = {variant.name: place for place, variant in enumerate(found.variants)}
    return tuple(
        Line(
            f"{one.variant} against {one.reference}",
            palette.at(places.get(one.variant, 0)),
            tuple(float(pair.round) for pair in one.pairs),
            tuple((pair.ratio - 1) * 100 for pair in one.pairs),
            shape="points",
        )
        for one in found.contrasts
        if one.pairs
    )


def _columns(by_round: tuple[tuple[int, float], ...]) -> tuple[tuple[float, ...], Values]:
    return tuple(float(number) for number, _ in by_round), tuple(value for _, value in by_round)
