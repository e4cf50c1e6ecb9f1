"""The small drawings next to numbers: interval rulers, whiskers, the time bar, swatches."""

from __future__ import annotations

import math
from collections.abc import Iterable

from markupsafe import Markup, escape

from pgdyno import quantities
from pgdyno.analysis.estimate import Estimate
from pgdyno.quantities import fixed
from pgdyno.report import palette
from pgdyno.report.palette import MODEL_DASH, Role
from pgdyno.report.parts import TimePart, in_bar_order
from pgdyno.report.svg import marker_path

_LABEL_RATIO_MIN = 0.13
RULER_HALF_RATIO = 0.25
NO_RULER = Markup('<svg class="ruler" aria-hidden="true"></svg>')


def time_bar(parts: Iterable[TimePart], decimals: int, *, whole_ms: float = 0.0) -> Markup:
    """Return the bar of the parts of the time; its length is the mean latency.

    Args: whole_ms, the time that fills the width if several bars share a scale.
    """
    shown = [part for part in in_bar_order(parts) if part.ms.value > 0]
    total = max(sum(part.ms.value for part in shown), whole_ms) or 1.0
    pieces, at = [], 0.0
    for part in shown:
        width = part.ms.value / total * 100
        box = f'x="{at:.2f}%" width="{max(width - 0.15, 0.1):.2f}%" height="100%"'
        pieces.append(
            f'<g class="{part.role.css} on-{part.wait}"><title>{escape(part.words)}: '
            f"{fixed(part.ms.value, decimals)} ms, "
            f"{quantities.percent(part.share_ratio)}</title>"
            f'<rect class="solid" {box}/>'
            f"{palette.overlay(part.wait, box)}"
        )
        if width >= _LABEL_RATIO_MIN * 100:
            middle = at + width / 2
            pieces.append(
                f'<text x="{middle:.2f}%" y="50%" dy=".35em" text-anchor="middle">'
                f"{fixed(part.ms.value, decimals)}</text>"
            )
        pieces.append("</g>")
        at += width
    return Markup(
        f'<svg class="timebar" role="img" aria-label="where the time goes">{"".join(pieces)}</svg>'
    )


def part_swatch(part: TimePart) -> Markup:
    """Return the coloured square before a part of the time in a table."""
    box = 'width="14" height="14" rx="2"'
    return Markup(
        f'<svg class="swatch {part.role.css}" width="14" height="14" aria-hidden="true">'
        f'<rect class="solid" {box}/>{palette.overlay(part.wait, box)}</svg>'
    )


def line_swatch(role: Role, shape: str, *, is_area: bool = False) -> Markup:
    """Return a short piece of a series' line, with dash and marker, for the legend."""
    dash = MODEL_DASH if shape == "model" else role.dash
    dashes = f' stroke-dasharray="{" ".join(map(str, dash))}"' if dash else ""
    fill = f'<rect {palette.fill_attributes(role)} y="5" width="26" height="8"/>' if is_area else ""
    marker = (
        f'<path class="marker" d="{marker_path(role.marker, 13, 6, 3.5)}"/>'
        if shape == "points"
        else ""
    )
    return Markup(
        '<svg class="plot" width="26" height="12" aria-hidden="true">'
        f'<g class="{role.css} {shape}">{fill}<path class="stroke"{dashes} '
        f'd="M0 {5 if is_area else 6}H26"/>{marker}</g></svg>'
    )


def ruler(estimate: Estimate) -> Markup:
    """Return a drawing of the interval on a scale of +-25 % around the value.

    A short bar is a precise value. A larger interval is cut off at the end of the scale.
    """
    ticks = "".join(f'<path class="tick" d="M{x} 3v3"/>' for x in range(0, 201, 20))
    if not estimate.has_interval or estimate.value == 0:
        body = '<path class="none" d="M0 4.5H200"/>'
    else:
        low, high = _ruler_px(estimate.low, estimate), _ruler_px(estimate.high, estimate)
        body = (
            f'<path class="base" d="M0 4.5H200"/>{ticks}'
            f'<rect class="band" x="{low:.1f}" y="1" width="{max(high - low, 1):.1f}" height="7"/>'
            '<path class="at" d="M100 0v9"/>'
        )
    return Markup(
        '<svg class="ruler" viewBox="0 0 200 9" preserveAspectRatio="none" aria-hidden="true">'
        f"<title>scale: 25 % each way</title>{body}</svg>"
    )


def _ruler_px(bound: float | None, estimate: Estimate) -> float:
    if bound is None:
        return 200.0
    ratio = (bound / estimate.value - 1) / RULER_HALF_RATIO
    return 100 + 100 * min(max(ratio, -1.0), 1.0)


def whisker(estimate: Estimate, *, low: float, high: float, is_log: bool = False) -> Markup:
    """Return a dot with its interval on a scale from `low` to `high`, for one row of a table."""

    def at(value: float) -> float:
        if is_log:
            ratio = math.log(max(value, low) / low) / math.log(high / low)
        else:
            ratio = (value - low) / (high - low)
        return 1 + 98 * min(max(ratio, 0.0), 1.0)

    middle = at(estimate.value)
    left = at(estimate.low) if estimate.low is not None else middle
    right = at(estimate.high) if estimate.high is not None else middle
    if estimate.low is not None and estimate.high is None:
        right = 100.0  # If no upper bound is known, the line goes to the end of the scale.
    ends = (left, right) if right > left else ()
    caps = "".join(f'<line x1="{x:.2f}%" x2="{x:.2f}%" y1="3" y2="11"/>' for x in ends)
    return Markup(
        '<svg class="whisker" width="100%" height="14" aria-hidden="true">'
        f'<line x1="{left:.2f}%" x2="{right:.2f}%" y1="7" y2="7"/>{caps}'
        f'<circle cx="{middle:.2f}%" cy="7" r="3"/></svg>'
    )


def share_bar(ratio: float, css: str) -> Markup:
    """Return a bar whose length is a share in 0..1."""
    width = max(min(ratio, 1.0), 0.0) * 100
    return Markup(
        f'<svg class="sharebar {css}" width="100" height="8" aria-hidden="true">'
        f'<rect class="solid" width="{width:.1f}" height="8" rx="1"/></svg>'
    )
