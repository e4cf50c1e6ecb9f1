"""Drawn blocks of an experiment with variants: every round, the bars of the time, differences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count

from pgdyno.analysis.compare_findings import CompareFindings, ContrastFindings
from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.rounding import common_decimals, ends_text
from pgdyno.analysis.where import LatencyPart, WhereTheTimeGoes
from pgdyno.analysis.where_difference import Difference
from pgdyno.quantities import signed
from pgdyno.report import forest, numbers, palette, small_drawings
from pgdyno.report.block_charts import TimeBars, drawn, figure_text, number_text, with_small
from pgdyno.report.blocks import TableBlock, TableColumn
from pgdyno.report.chart import Chart, Line, Values
from pgdyno.report.forest import metric_name, place_of
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
        "The runs of a pair follow each other, so a drift affects both and cancels. Which is first "
        "is drawn at random."
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
_COLUMNS = (
    TableColumn("part", is_wide=True),
    TableColumn("less | more", style="plotted"),
    TableColumn("ms"),
    TableColumn("95 % interval", style="note"),
)


def time_bars(compared: CompareFindings) -> TimeBars | None:
    """Return a bar for each variant whose time was split, all on one scale; None without any."""
    measured = [
        (place_of(compared, variant.name), variant.name, variant.where)
        for variant in compared.variants
        if variant.where is not None
    ]
    longest = max((where.latency_ms.value for _, _, where in measured), default=0.0)
    parts = parts_of_all(where for _, _, where in measured)
    rows = tuple(
        (
            name,
            small_drawings.time_bar(own, shown_decimals(where), whole_ms=_whole(where, longest)),
            number_text(where.latency_ms, f"{at}.where_the_time_goes.latency_ms"),
        )
        for (at, name, where), own in zip(measured, parts, strict=True)
    )
    legend = ((name, small_drawings.part_swatch(part)) for name, part in legend_of_parts(parts))
    return TimeBars(rows, tuple(legend)) if rows else None


def change_table(contrast: ContrastFindings, at: str, title: str = "") -> TableBlock | None:
    """Return the parts of a contrast's difference, the largest first, the rest last.

    None if the difference was not split. Args: at, the place of the contrast in the JSON document.
    """
    difference = contrast.difference
    if difference is None:
        return None
    total = difference.latency_ms
    unexplained = total.value - sum(part.ms.value for part in difference.parts)
    reaches = [_farthest(part.ms) for part in difference.parts]
    largest = max([*reaches, abs(unexplained)]) or 1.0
    shown = [part for part in difference.parts if abs(part.ms.value) >= _SHOWN_RATIO * largest]
    is_early = _is_too_early(difference, shown)
    decimals = _decimals(total, shown, is_early=is_early)
    # A part that would be printed as 0 belongs to the rest.
    shown = [part for part in shown if round(part.ms.value, decimals)]
    rest = total.value - sum(part.ms.value for part in shown)
    parts = [*shown, LatencyPart(REST, without_interval(rest, "ms"), "client")]
    rows: list[tuple[str, ...]] = []
    strong: list[bool] = []
    for part in parts:
        low, high, words = part.ms.low, part.ms.high, words_of(part.name)
        strong.append(False)
        ends = "" if part.name == REST else "no interval yet" if is_early else "no interval"
        if not is_early and low is not None and high is not None:
            ends = ends_text(low, high, decimals, is_signed=True)
            strong[-1] = low > 0 or high < 0
        kind = "residual" if part.name == REST else palette.wait_class(part.name)
        bar = forest.difference_bar(part.ms, largest, palette.shade(kind, 0).css)
        said = with_small(words, part.name if ":" in part.name and part.name != words else "")
        change = figure_text(signed(part.ms.value, decimals), f"{at}.difference.{part.name}")
        rows.append((said, drawn(bar), change, ends))
    whole = numbers.estimate_text(total, with_unit=True)
    note = " (no interval yet)" if is_early else ""
    whole_ms = signed(total.value, decimals)
    return TableBlock(
        title or f"{contrast.variant} against {contrast.reference}",
        _COLUMNS,
        tuple(rows),
        note=figure_text(f"+{whole}" if total.value > 0 else whole, f"{at}.difference.latency"),
        short_row_count=len(rows),
        heading=f"  where the difference of {whole_ms} ms per transaction is{note}",
        style="changes",
        strong=tuple(strong),
    )


def _decimals(total: Estimate, shown: Sequence[LatencyPart], *, is_early: bool) -> int:
    """Return the decimals for the total and its parts, with their intervals if they are shown."""
    ends = () if is_early else [end for part in shown for end in (part.ms.low, part.ms.high)]
    return common_decimals([total.value, *(part.ms.value for part in shown), *ends])


def _is_too_early(difference: Difference, shown: Sequence[LatencyPart]) -> bool:
    """Return whether the intervals of a difference say nothing yet, because runs are too few.

    Args: shown, the parts that are shown; if one interval is far too wide, none is shown.
    """
    sizes = [abs(change.value) for change in (difference.latency_ms, *(p.ms for p in shown))]
    return any(part.ms.reaches_beyond(max(sizes)) for part in shown)


def _farthest(ms: Estimate) -> float:
    """Return the far end of a change's interval; a very wide interval is cut off."""
    ends = [abs(end) for end in (ms.low, ms.high) if end is not None]
    return min(max([abs(ms.value), *ends]), 2 * abs(ms.value))


def _whole(where: WhereTheTimeGoes, longest: float) -> float:
    """Return the length that fills the row: the longest latency, or a little more for the parts."""
    return max(longest, sum(part.ms.value for part in where.parts if part.ms.value > 0))
