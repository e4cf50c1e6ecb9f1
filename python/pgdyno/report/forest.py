"""Changes with their intervals on one axis of ratios: the forest plot, and bars of differences.

`forest_of` describes the plot once; `whisker` and `axis` paint it for the page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from markupsafe import Markup

from pgdyno.analysis.compare_findings import CompareFindings, ContrastFindings
from pgdyno.analysis.contrasts import Effect
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.rounding import change_text
from pgdyno.programs.registry import own_metrics
from pgdyno.quantities import signed

if TYPE_CHECKING:
    from pgdyno.report.blocks import LabelledLine, TableBlock

METRIC_NAMES = {
    **{name: metric.words for name, metric in own_metrics().items()},
    "cpu_per_tx": "server CPU/tx",
    "wal_per_tx": "WAL/tx",
    "mean": "mean latency",
}
# The tail is before the median, because the sentence names the tail if there is little room.
_METRICS = ("tps", *own_metrics(), "p99", "p50", "cpu_per_tx", "wal_per_tx")
# If the mean of the ratios and the ratio of the means differ by more, a note explains why.
_MEANS_APART = 0.01
# Smaller changes are drawn on a linear axis, on which -25 % is as far from "equal" as +25 %.
_LINEAR_MAX = 1.5
# Possible ends of the axis. Both ends are round changes: 4 is +300 %, and its inverse is -75 %.
_ENDS = (1.05, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0)


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One change with its interval; `decides`: the verdict depends on this change.

    `quantity`: the place of the ratio in the JSON document.
    """

    name: str
    ratio: Estimate
    verdict: str
    quantity: str
    decides: bool = True


@dataclass(frozen=True, slots=True)
class ForestGroup:
    """The rows of one contrast, of the passes, or of the effects, below their name.

    `below`: what the text says under them. `is_of_metrics`: one row of them decides.
    """

    name: str
    rows: tuple[ForestRow, ...]
    below: tuple[LabelledLine | TableBlock, ...] = ()
    is_of_metrics: bool = False

    @property
    def note(self) -> str:
        """Return "no interval yet" if this is true for all rows, else ""."""
        return "" if any(row.ratio.low is not None for row in self.rows) else "no interval yet"

    def on_page(self, row_max: int) -> tuple[ForestRow, ...]:
        """Return the rows of the page. Args: row_max, of the rows of one contrast."""
        return self.rows[:row_max] if self.is_of_metrics else self.rows

    def said(self, row: ForestRow) -> str:
        """Return the change of a row in words, without repeating the note."""
        return change_text(row.ratio, without="") if self.note else change_text(row.ratio)


@dataclass(frozen=True, slots=True)
class Forest:
    """Groups of rows on one scale; empty if nothing was compared."""

    groups: tuple[ForestGroup, ...]
    scale: Scale


def metric_name(name: str) -> str:
    """Return the name of a metric for readers."""
    return METRIC_NAMES.get(name, name)


def place_of(compared: CompareFindings, name: str) -> str:
    """Return the place of a variant in the JSON document, such as "variants.1"."""
    names = [variant.name for variant in compared.variants]
    return f"variants.{names.index(name)}"


def forest_of(
    compared: CompareFindings,
    below: Callable[[ContrastFindings], tuple[LabelledLine | TableBlock, ...]],
) -> Forest:
    """Return every contrast, each step of passes, and every effect.

    Args: below, what the text says under the rows of a contrast.
    """
    groups = [
        ForestGroup(
            f"{contrast.variant} against {contrast.reference}",
            _rows(contrast, compared),
            below(contrast),
            is_of_metrics=True,
        )
        for contrast in compared.contrasts
    ]
    steps = tuple(
        ForestRow(
            f"{step.variant} after {step.reference}",
            step.deciding.ratio,
            step.deciding.verdict,
            f"steps.{place}.ratios.{compared.metric}",
        )
        for place, step in enumerate(compared.steps)
    )
    effects = tuple(
        ForestRow(
            effect.name,
            effect.ratio,
            _certainty(effect),
            f"effects.{place}.ratio",
        )
        for place, effect in enumerate(compared.effects)
    )
    named = {
        "Each pass compared with the pass before": steps,
        f"Effects on {metric_name(compared.metric)}": effects,
    }
    groups += [ForestGroup(name, rows) for name, rows in named.items() if rows]
    # Only the deciding rows set the scale, so that wide intervals of other rows do not compress it.
    deciding = [row.ratio for group in groups for row in group.rows if row.decides]
    every = (*compared.contrasts, *compared.steps)
    margin_ratio = every[0].deciding.margin_ratio if every else 0.0
    return Forest(tuple(groups), scale_of(deciding, margin_ratio=margin_ratio))


def _certainty(effect: Effect) -> str:
    """Return whether an effect is certain, all effects taken together."""
    low, high = effect.ratio.low, effect.ratio.high
    is_apart = low is not None and high is not None and not low <= 1 <= high
    return "certain" if effect.is_sure else "maybe" if is_apart else "not certain"


def note_on_means(contrast: ContrastFindings, compared: CompareFindings) -> str:
    """Return why the change is not the ratio of the means, "" if both are nearly equal."""
    name = compared.metric
    means = {v.name: v.metrics[name].value for v in compared.variants if name in v.metrics}
    variant, reference = means.get(contrast.variant), means.get(contrast.reference)
    if not variant or not reference:
        return ""
    by_means, by_rounds = variant / reference, contrast.deciding.ratio.value
    if abs(math.log(by_means / by_rounds)) < _MEANS_APART:
        return ""
    means_said, rounds_said = (f"{signed((r - 1) * 100, 1)} %" for r in (by_means, by_rounds))
    return (
        f"the means of all runs differ by {means_said}, the rounds by {rounds_said} on average; "
        "the rounds decide, because both runs of a round meet the same state of the machine"
    )


def _rows(contrast: ContrastFindings, compared: CompareFindings) -> tuple[ForestRow, ...]:
    names = [n for n in dict.fromkeys((compared.metric, *_METRICS)) if n in contrast.comparisons]
    at = place_of(compared, contrast.variant)
    return tuple(
        ForestRow(
            metric_name(name),
            contrast.comparisons[name].ratio,
            contrast.comparisons[name].verdict,
            f"{at}.ratios.{name}",
            decides=name == compared.metric,
        )
        for name in names
    )


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis of ratios with "equal" in the middle: linear for small changes, else logarithmic.

    `margin_ratio`: smaller changes count as no difference; this range is shaded.
    """

    reach_ratio: float
    margin_ratio: float

    @property
    def is_linear(self) -> bool:
        """Return whether the axis is linear, so that -25 % and +25 % have the same length."""
        return self.reach_ratio <= _LINEAR_MAX

    @property
    def low_ratio(self) -> float:
        """Return the ratio at the left end."""
        return 2 - self.reach_ratio if self.is_linear else 1 / self.reach_ratio

    @property
    def note(self) -> str:
        """Return the explanation of a logarithmic axis, "" for a linear one."""
        return "" if self.is_linear else "ratio scale: -50 % lies as far from equal as +100 %"

    def share(self, ratio: float) -> float:
        """Return the place of a ratio, from -1 to 1; a ratio beyond an end is at this end."""
        if self.is_linear:
            share = (ratio - 1) / (self.reach_ratio - 1)
        else:
            share = math.log(max(ratio, 1e-9)) / math.log(self.reach_ratio)
        return max(-1.0, min(1.0, share))

    def at(self, ratio: float) -> float:
        """Return the place of a ratio in percent of the width; beyond an end, 0 or 100."""
        return 50 + 49 * self.share(ratio)

    def beyond(self, ratio: float) -> int:
        """Return -1 for a ratio beyond the left end, 1 beyond the right end, else 0."""
        return (ratio > self.reach_ratio) - (ratio < self.low_ratio)

    def marks(self) -> list[float]:
        """Return the ratios that have labels, few enough for a narrow screen."""
        if self.is_linear:
            half = (self.reach_ratio - 1) / 2
            return [self.low_ratio, 1 - half, 1.0, 1 + half, self.reach_ratio]
        inner = [end for end in _ENDS if _LINEAR_MAX < end < self.reach_ratio**0.55]
        near = max(inner, default=None)
        right = [end for end in (near, self.reach_ratio) if end is not None]
        return [*(1 / end for end in reversed(right)), 1.0, *right]

    def label(self, ratio: float) -> str:
        """Return the label of a mark: "equal", "-50 %", "+2.5 %"."""
        change = (ratio - 1) * 100
        digits = 0 if abs(change - round(change)) < 0.01 else 1
        return "equal" if ratio == 1 else f"{signed(change, digits)} %"


def scale_of(ratios: Iterable[Estimate], *, margin_ratio: float) -> Scale:
    """Return a scale that has all these ratios and ends at a round change."""
    ends = [
        end
        for ratio in ratios
        for end in (ratio.value, ratio.low, ratio.high)
        if end is not None and end > 0
    ]
    scales = [Scale(reach, margin_ratio) for reach in _ENDS]
    holding = (scale for scale in scales if not any(map(scale.beyond, ends)))
    return next(holding, scales[-1])


def whisker(ratio: Estimate, scale: Scale, *, decides: bool = True) -> Markup:
    """Return one row of the plot: the interval, its value, "equal", and the margin as a band."""
    margin = 1 + scale.margin_ratio
    left, right = scale.at(1 / margin), scale.at(margin)
    body = [
        f'<rect class="band" x="{left:.2f}%" width="{right - left:.2f}%" height="100%"/>',
        '<line class="equal" x1="50%" x2="50%" y1="0" y2="100%"/>',
    ]
    if ratio.low is not None and ratio.high is not None:
        ends = scale.at(ratio.low), scale.at(ratio.high)
        body.append(f'<line class="bar" x1="{ends[0]:.2f}%" x2="{ends[1]:.2f}%" y1="11" y2="11"/>')
        for end, bound in zip(ends, (ratio.low, ratio.high), strict=True):
            # No cap if the interval continues beyond the scale.
            if not scale.beyond(bound):
                body.append(f'<line x1="{end:.2f}%" x2="{end:.2f}%" y1="7" y2="15"/>')
    size = 5 if decides else 3.5
    place = f"{scale.at(ratio.value):.2f}%"
    beyond = scale.beyond(ratio.value)
    if beyond:  # An arrow head shows that the value is beyond the scale.
        tip, back = beyond * size, -beyond * size
        head = f'<path d="M{tip} 0 L{back} {-size} L{back} {size} z"/>'
        body.append(f'<svg x="{place}" y="11" overflow="visible">{head}</svg>')
    else:
        body.append(f'<circle cx="{place}" cy="11" r="{size}"/>')
    kind = "fw decides" if decides else "fw"
    return Markup(
        f'<svg class="{kind}" width="100%" height="22" aria-hidden="true">{"".join(body)}</svg>'
    )


def axis(scale: Scale) -> Markup:
    """Return the labels under the plot; a narrow plot shows fewer, so that none overlap."""
    marks = scale.marks()
    texts = []
    for place, end in enumerate(marks):
        anchor = "start" if place == 0 else "end" if place == len(marks) - 1 else "middle"
        x = {"start": "0", "end": "100%"}.get(anchor, f"{scale.at(end):.2f}%")
        said = scale.label(end)
        kind = "end" if anchor != "middle" else "equal-label" if end == 1 else "inner"
        texts.append(
            f'<text class="{kind}" x="{x}" y="13" text-anchor="{anchor}">{escape(said)}</text>'
        )
    drawn = f'<svg class="fw axis" width="100%" height="18">{"".join(texts)}</svg>'
    # The box lets the style leave out labels by the width of this plot.
    return Markup(f'<div class="axis-box">{drawn}</div>')


def difference_bar(change: Estimate, largest: float, css: str) -> Markup:
    """Return a bar from the middle: to the left for less time, to the right for more time.

    Args: largest, the change that fills half of the width, > 0.
    """
    half = 49 * min(abs(change.value) / largest, 1.0)
    start = 50.0 if change.value >= 0 else 50 - half
    ends = ""
    if change.low is not None and change.high is not None:
        low, high = (50 + 49 * max(-1.0, min(1.0, e / largest)) for e in (change.low, change.high))
        ends = f'<line x1="{low:.2f}%" x2="{high:.2f}%" y1="8" y2="8"/>'
    return Markup(
        f'<svg class="diff {css}" width="100%" height="16" aria-hidden="true">'
        f'<rect class="solid" x="{start:.2f}%" width="{half:.2f}%" y="3" height="10"/>{ends}'
        '<line class="equal" x1="50%" x2="50%" y1="0" y2="16"/></svg>'
    )
