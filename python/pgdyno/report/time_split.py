"""The bar of a run's time and its largest parts as text: a sign for each part, without colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgdyno import quantities
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.rounding import ends_text
from pgdyno.quantities import fixed
from pgdyno.report.block_charts import TimeSplit
from pgdyno.report.numbers import value_text
from pgdyno.report.parts import OTHER, TimePart, fold, in_bar_order
from pgdyno.report.table_text import aligned
from pgdyno.report.text_page import TextPage

_BAR_WIDTH = 64
_PARTS_SHOWN = 8
# One character for each part of the bar, in the order of the bar; they differ without colour.
_SIGNS = "#=+:o~%-"


def time_split(page: TextPage, block: TimeSplit) -> Iterator[str]:
    """Yield the bar, a line for each part, and the remarks."""
    shown = fold(block.parts, at_most=_PARTS_SHOWN)
    signs = {part.name: sign for part, sign in zip(in_bar_order(shown), _SIGNS, strict=False)}
    yield f"where the {value_text(block.latency)} ms go"
    yield f"  [{_bar(shown, signs)}]"
    amounts = aligned([fixed(part.ms.value, block.decimals) for part in shown], ">")
    ranges = aligned([_range_text(part.ms, block.decimals) for part in shown], "<")
    shares = aligned([quantities.percent(part.share_ratio) for part in shown], ">")
    words = aligned([part.words for part in shown], "<")
    for row, part in enumerate(shown):
        line = f"  {signs[part.name]} {amounts[row]}  {ranges[row]}  {shares[row]}  {words[row]}"
        # A name that does not fit is not shown; the report has it.
        is_event = part.event and not part.words.startswith(f"{OTHER}: ")
        name = f"  {part.event}" if is_event else ""
        yield line + (name if len(line + name) <= page.column_count else "")
    for said in block.remarks:
        yield from page.wrapped(said, "  ", "    ")


def _range_text(estimate: Estimate, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"({ends_text(estimate.low, estimate.high, decimals)})"


def _bar(parts: Iterable[TimePart], signs: dict[str, str]) -> str:
    """Return the bar: every part has at least one character, lengths by largest remainder."""
    drawn = [part for part in in_bar_order(parts) if part.ms.value > 0]
    total = sum(part.ms.value for part in drawn)
    if total <= 0:
        return " " * _BAR_WIDTH
    exact = [max(part.ms.value / total * _BAR_WIDTH, 1.0) for part in drawn]
    lengths = [int(length) for length in exact]
    by_remainder = sorted(range(len(drawn)), key=lambda i: lengths[i] - exact[i])
    for i in by_remainder:
        if sum(lengths) < _BAR_WIDTH:
            lengths[i] += 1
    while sum(lengths) > _BAR_WIDTH:
        lengths[lengths.index(max(lengths))] -= 1
    return "".join(signs[part.name] * length for part, length in zip(drawn, lengths, strict=True))
