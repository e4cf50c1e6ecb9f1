"""Charts of an experiment with variants: the runs of every round, so that drift is visible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count

from markupsafe import Markup

from pgdyno.analysis.compare_findings import CompareFindings, ContrastFindings
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.rounding import common_decimals
from pgdyno.analysis.where import LatencyPart, WhereTheTimeGoes
from pgdyno.analysis.where_difference import Difference
from pgdyno.quantities import signed
from pgdyno.report import forest, gauge, numbers, palette
from pgdyno.report.chart import Chart, Line, Values
from pgdyno.report.forest import metric_name
from pgdyno.report.parts import legend_of_parts, parts_of_all, shown_decimals, words_of


def round_charts(compared: CompareFindings) -> tuple[Chart, ...]:
    """Return the deciding metric of every run by round, and the change of every pair by round.

    If all variants drift alike, the first chart shows the drift and the second does not.
    """
    lines = _values(compared)
    if not lines or max(len(line.x) for line in lines) < 2:
        return ()
    name = metric_name(compared.metric)
    values = Chart(
        key="rounds",
        title=f"{name} of every run",
        unit=compared.unit,
        x_label="round",
        lines=lines,
        height_px=230,
    )
    changes = _changes(compared)
    if not changes:
        return (values,)
    ratios = Chart(
        key="pairs",
        title="Change in every round",
        unit="%",
        x_label="round",
        lines=changes,
        height_px=200,
        note="A variant's run divided by the reference's run of the same round. "
        + _order(compared),
    )
    return values, ratios


def _order(compared: CompareFindings) -> str:
    if compared.steps:
        return "Within a round the order is random, so a drift affects all variants alike."
    return (
        "Pairs are adjacent in time and run in the order AB BA BA AB, so a drift affects both "
        "runs of a pair and cancels."
    )


def _values(compared: CompareFindings) -> tuple[Line, ...]:
    return tuple(
        Line(variant.name, palette.at(place), *_columns(variant.by_round), shape="points")
        for place, variant in enumerate(compared.variants)
        if variant.by_round
    )


def _changes(compared: CompareFindings) -> tuple[Line, ...]:
    places = {variant.name: place for place, variant in enumerate(compared.variants)}
    lines: dict[int, Line] = {}
    for contrast in compared.contrasts:
        if not contrast.pairs:
            continue
        # A variant has one look on the page. Its second contrast takes that of the reference.
        names = (contrast.variant, contrast.reference)
        wanted = [places[name] for name in names if name in places]
        place = next(place for place in chain(wanted, count(len(places))) if place not in lines)
        lines[place] = Line(
            f"{contrast.variant} against {contrast.reference}",
            palette.at(place),
            tuple(float(pair.round) for pair in contrast.pairs),
            tuple((pair.ratio - 1) * 100 for pair in contrast.pairs),
            shape="points",
        )
    return tuple(lines.values())


def _columns(by_round: tuple[tuple[int, float], ...]) -> tuple[tuple[float, ...], Values]:
    return tuple(float(number) for number, _ in by_round), tuple(value for _, value in by_round)


REST = "rest"
_SHOWN_RATIO = 0.002


@dataclass(frozen=True, slots=True)
class VariantBar:
    """The bar of one variant; all bars of a page share one scale."""

    name: str
    latency: Estimate
    bar: Markup


@dataclass(frozen=True, slots=True)
class PartChange:
    """One part of a difference: its name, its change in ms, and its bar."""

    name: str
    words: str
    event: str
    change: str
    ends: str
    is_sure: bool
    bar: Markup


def bars_of(compared: CompareFindings) -> tuple[VariantBar, ...]:
    """Return one bar for each measured variant; its length is the mean latency."""
    measured = [
        (variant.name, variant.where) for variant in compared.variants if variant.where is not None
    ]
    longest = max((where.latency_ms.value for _, where in measured), default=0.0)
    parts = parts_of_all(where for _, where in measured)
    return tuple(
        VariantBar(
            name,
            where.latency_ms,
            gauge.time_bar(own, shown_decimals(where), whole_ms=_whole(where, longest)),
        )
        for (name, where), own in zip(measured, parts, strict=True)
    )


def legend_of(compared: CompareFindings) -> tuple[tuple[str, Markup], ...]:
    """Return the name and the swatch of each look in the bars, in their order."""
    bars = parts_of_all(variant.where for variant in compared.variants if variant.where is not None)
    return tuple((name, gauge.part_swatch(part)) for name, part in legend_of_parts(bars))


def changes_of(contrast: ContrastFindings) -> tuple[PartChange, ...]:
    """Return the parts of a contrast's difference, the largest first, the residual last."""
    difference = contrast.difference
    if difference is None:
        return ()
    unexplained = difference.latency_ms.value - sum(part.ms.value for part in difference.parts)
    reaches = [_farthest(part.ms) for part in difference.parts]
    largest = max([*reaches, abs(unexplained)]) or 1.0
    shown = [part for part in difference.parts if abs(part.ms.value) >= _SHOWN_RATIO * largest]
    is_early = is_too_early(difference, shown)
    decimals = difference_decimals(difference.latency_ms, shown, is_early=is_early)
    rows = [_row(part, largest, decimals, is_early=is_early) for part in shown]
    rest = difference.latency_ms.value - sum(part.ms.value for part in shown)
    css = palette.shade("residual", 0).css
    nothing = Estimate(rest, None, None, 1, "ms", "none")
    bar = forest.difference_bar(nothing, largest, css)
    return (*rows, PartChange(REST, REST, "", signed(rest, decimals), "", False, bar))


def difference_decimals(total: Estimate, shown: Sequence[LatencyPart], *, is_early: bool) -> int:
    """Return the decimals for the total and its parts, with their intervals if they are shown."""
    ends = () if is_early else [end for part in shown for end in (part.ms.low, part.ms.high)]
    return common_decimals([total.value, *(part.ms.value for part in shown), *ends])


def is_too_early(difference: Difference, shown: Sequence[LatencyPart]) -> bool:
    """Return whether the intervals of a difference say nothing yet, because runs are too few.

    Args: shown, the parts that are shown; if one interval is far too wide, none is shown.
    """
    sizes = [abs(change.value) for change in (difference.latency_ms, *(p.ms for p in shown))]
    return any(part.ms.reaches_beyond(max(sizes)) for part in shown)


def _row(part: LatencyPart, largest: float, decimals: int, *, is_early: bool) -> PartChange:
    low, high = part.ms.low, part.ms.high
    ends, is_sure = "no interval yet" if is_early else "no interval", False
    if not is_early and low is not None and high is not None:
        ends = f"{signed(low, decimals)} to {signed(high, decimals)}"
        is_sure = low > 0 or high < 0
    css = palette.shade(palette.wait_class(part.name), 0).css
    words = words_of(part.name)
    return PartChange(
        part.name,
        words,
        part.name if ":" in part.name and part.name != words else "",
        signed(part.ms.value, decimals),
        ends,
        is_sure,
        forest.difference_bar(part.ms, largest, css),
    )


def _farthest(ms: Estimate) -> float:
    """Return the far end of a change's interval; a very wide interval is cut off."""
    ends = [abs(end) for end in (ms.low, ms.high) if end is not None]
    return min(max([abs(ms.value), *ends]), 2 * abs(ms.value))


def _whole(where: WhereTheTimeGoes, longest: float) -> float:
    """Return the length that fills the row: the longest latency, or a little more for the parts."""
    return max(longest, sum(part.ms.value for part in where.parts if part.ms.value > 0))


def total_text(contrast: ContrastFindings) -> str:
    """Return the whole difference: "+1.00 ms (0.80 to 1.20)"."""
    difference = contrast.difference
    if difference is None:
        return ""
    text = numbers.estimate_text(difference.latency_ms, with_unit=True)
    return f"+{text}" if difference.latency_ms.value > 0 else text
