"""The verdict as one offline page: sentences, forest plot, pairs by round, where it comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from markupsafe import Markup

from pgdyno.analysis.compare_findings import CompareFindings, ContrastFindings, Pair
from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.loop.compare_words import change_text
from pgdyno.report import numbers, tiles, words
from pgdyno.report.compare_text import METRIC_NAMES, RATIOS_SHOWN, signed
from pgdyno.report.html import page_assets, page_environment
from pgdyno.report.parts import words_of

_WIDTH, _LEFT, _ROW = 640, 180, 30
_PARTS_SHOWN = 10
_REACH_MAX = 20.0
# Attributes, not a style: the page's policy allows only the style sheet itself.
_STROKES = {
    "equal": 'stroke="currentColor" stroke-dasharray="3 3"',
    "whisker": 'stroke="var(--accent)" stroke-width="3"',
}
_FILLED, _HOLLOW = 'fill="var(--accent)"', 'fill="none" stroke="var(--accent)" stroke-width="2"'


def compare_page(findings: ExperimentFindings) -> str:
    """Return the report of an experiment with variants as one self-contained HTML document."""
    found = findings.compare
    assert found is not None, "only an experiment with variants has this page"
    assets = page_assets()
    return (
        page_environment()
        .get_template("compare.html.j2")
        .render(
            f=findings,
            c=found,
            echarts_version="",
            style=Markup(assets.style),
            csp=Markup(assets.policy),
            early_script=Markup(assets.early_script),
            doubts=tiles.doubts_of(findings),
            is_valid=tiles.is_valid(findings),
            fact_line=words.fact_line(findings),
            forest=Markup(forest_svg(found.contrasts, found.metric)),
            pairs=[(one, Markup(pairs_svg(one.pairs))) for one in found.contrasts if one.pairs],
            rows=[_ratio_rows(one, found) for one in found.contrasts],
            parts=[_part_rows(one) for one in found.contrasts],
            change=change_text,
            estimate=lambda one: numbers.estimate_text(one, with_unit=True),
            metric_name=lambda name: METRIC_NAMES.get(name, name),
        )
    )


def forest_svg(contrasts: Sequence[ContrastFindings], metric: str) -> str:
    """Return the forest plot: each contrast's interval on one axis, "equal" marked."""
    rows = [(one.variant, one.deciding.ratio) for one in contrasts]
    reach = _reach(ratio for _, ratio in rows)
    height = _ROW * (len(rows) + 1) + 8
    body = [_line(_x(1, reach), 4, _x(1, reach), height - _ROW + 4, "equal")]
    for place, (name, ratio) in enumerate(rows):
        y = _ROW * place + _ROW // 2 + 4
        body.append(_text(0, y + 5, name, "start"))
        if ratio.low is not None and ratio.high is not None:
            body.append(_line(_x(ratio.low, reach), y, _x(ratio.high, reach), y, "whisker"))
        body.append(f'<circle {_FILLED} cx="{_x(ratio.value, reach):.1f}" cy="{y}" r="5"/>')
    for end in (1 / reach, 1.0, reach):
        text = "equal" if end == 1 else f"{signed((end - 1) * 100, 0)} %"
        body.append(_text(_x(end, reach), height - 6, text, "middle"))
    title = f"{METRIC_NAMES.get(metric, metric)} against the reference"
    return _svg(height, title, body)


def pairs_svg(pairs: Sequence[Pair]) -> str:
    """Return each round's ratio in time order; hollow where the variant ran first."""
    reach = max(1.02, *(max(pair.ratio, 1 / pair.ratio) for pair in pairs)) * 1.05
    height, middle = 150, 70
    step = (_WIDTH - _LEFT - 20) / max(len(pairs), 1)
    body = [_line(_LEFT, middle, _WIDTH, middle, "equal")]
    for end in (reach, 1 / reach):
        y = middle - math.log(end) / math.log(reach) * 60
        body.append(_text(_LEFT - 8, y + 5, f"{signed((end - 1) * 100, 0)} %", "end"))
    body.append(_text(_LEFT - 8, middle + 5, "equal", "end"))
    for place, pair in enumerate(pairs):
        x = _LEFT + step * (place + 0.5)
        y = middle - math.log(pair.ratio) / math.log(reach) * 60
        look = _HOLLOW if pair.is_reversed else _FILLED
        said = f"round {pair.round}: {signed((pair.ratio - 1) * 100, 1)} %"
        body.append(
            f'<circle {look} cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(said)}</title></circle>'
        )
    body.append(_text(_LEFT, height - 4, "first round", "start"))
    body.append(_text(_WIDTH, height - 4, f"round {pairs[-1].round}", "end"))
    return _svg(height, "ratio of every round", body)


def _ratio_rows(contrast: ContrastFindings, found: CompareFindings) -> list[tuple[str, str, str]]:
    shown = [n for n in dict.fromkeys((found.metric, *RATIOS_SHOWN)) if n in contrast.comparisons]
    return [
        (
            METRIC_NAMES.get(name, name),
            change_text(contrast.comparisons[name].ratio),
            contrast.comparisons[name].verdict + (", decides" if name == found.metric else ""),
        )
        for name in shown
    ]


def _part_rows(contrast: ContrastFindings) -> list[tuple[str, str, str, str]]:
    if contrast.difference is None:
        return []
    rows = []
    for part in contrast.difference.parts[:_PARTS_SHOWN]:
        ends = ""
        if part.ms.low is not None and part.ms.high is not None:
            ends = f"{signed(part.ms.low, 3)} to {signed(part.ms.high, 3)}"
        rows.append((words_of(part.name), part.name, signed(part.ms.value, 3), ends))
    return rows


def _reach(ratios: Iterable[Estimate]) -> float:
    """Return the largest ratio drawn; its inverse is the smallest, "equal" in the middle."""
    ends = [1.02]
    for ratio in ratios:
        for end in (ratio.value, ratio.low, ratio.high):
            ends += [end, 1 / end] if end else []
    return min(max(ends) * 1.05, _REACH_MAX)


def _x(ratio: float, reach: float) -> float:
    half = (_WIDTH - _LEFT) / 2
    share = math.log(max(ratio, 1e-9)) / math.log(reach)
    return _LEFT + half + max(-1.0, min(1.0, share)) * (half - 30)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    stroke = _STROKES[kind]
    return f'<line {stroke} x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, said: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="14" fill="currentColor">{escape(said)}</text>'


def _svg(height: int, title: str, body: Iterable[str]) -> str:
    return (
        f'<svg class="forest" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">{"".join(body)}</svg>'
    )
