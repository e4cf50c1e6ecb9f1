"""A crash result as one offline page: the answer, the truth table, the time line of each crash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from pgdyno.features.crash.page_words import (
    checks_words,
    commits_words,
    coverage_words,
    estimate_of,
    fault_rows,
    gap_words,
    recovery_words,
)
from pgdyno.quantities import percent
from pgdyno.report import axis, palette
from pgdyno.report.html import page_assets
from pgdyno.report.numbers import interval_text, value_text
from pgdyno.report.own import Tile
from pgdyno.report.page_templates import page_environment

Document = Mapping[str, Any]
_WIDTH, _ROW, _LEFT, _BOTTOM = 1100, 14, 190, 26
_TICK_GAP = 16


def crash_page(document: Document) -> str:
    """Return the report of a crash result as one self-contained HTML document."""
    assets = page_assets()
    crashes = [record for record in document["records"] if not record["arm"]]
    return (
        page_environment()
        .get_template("crash.html.j2")
        .render(
            d=document,
            csp=Markup(assets.policy),
            style=Markup(assets.style),
            early_script=Markup(assets.early_script),
            script=Markup(assets.script),
            echarts=Markup(assets.echarts),
            hatches=palette.definitions(),
            tiles=_tiles(document),
            time_lines=time_lines(crashes),
            crashes=crashes,
            commits=commits_words(document),
            coverage=coverage_words(document),
            checks=checks_words(document),
            recovery=recovery_words(document),
            gap=gap_words(document),
            faults=[words for _, words in fault_rows(document)],
        )
    )


def time_lines(crashes: Sequence[Document]) -> Markup:
    """Return one line a crash: from the crash to the restart, redo, and the first answer (dot)."""
    ends = [_seconds(crash["answered_ns"]) or _seconds(crash["restart_ns"]) for crash in crashes]
    if not crashes:
        return Markup("")
    height = len(crashes) * _ROW + _BOTTOM
    x = axis.linear(0, max(ends) or 1.0, start_px=_LEFT, end_px=_WIDTH - 20)
    parts = [
        f'<path class="grid" d="M{x.at(value):.1f} 0V{height - _BOTTOM}"/>'
        f'<text class="tick" x="{x.at(value):.1f}" y="{height - _BOTTOM + _TICK_GAP}"'
        f' text-anchor="middle">{label}</text>'
        for value, label in x.ticks
    ]
    for place, crash in enumerate(crashes):
        parts += _line(crash, place * _ROW + _ROW / 2, x)
    return Markup(
        f'<svg class="plot lanes" viewBox="0 0 {_WIDTH} {height}" width="100%" role="img"'
        f' aria-label="time line of each crash, in seconds">{"".join(parts)}</svg>'
    )


def _line(crash: Document, y: float, x: axis.Axis) -> Iterator[str]:
    restart, answered = _seconds(crash["restart_ns"]), crash["answered_ns"]
    label = f"{crash['number']}  {crash['phase']}"
    place = f'x="{_LEFT - 12}" y="{y + 4}" text-anchor="end"'
    yield f'<text class="tick" {place}>{escape(label)}</text>'
    yield f'<path class="axis" d="M{x.at(0):.1f} {y}H{x.at(restart):.1f}"/>'
    if answered is None:
        title = f"crash {crash['number']}: no recovery"
        at = x.at(restart)
        yield (
            f'<g class="lock"><title>{title}</title><path class="stroke" '
            f'd="M{at - 4:.1f} {y - 4}l8 8m0 -8l-8 8"/></g>'
        )
        return
    end = x.at(_seconds(answered))
    yield f'<g class="cpu"><path class="stroke" d="M{x.at(restart):.1f} {y}H{end:.1f}"/></g>'
    if crash["redo_began_ns"] is not None and crash["redo_ended_ns"] is not None:
        begin, over = x.at(_seconds(crash["redo_began_ns"])), x.at(_seconds(crash["redo_ended_ns"]))
        yield (
            f'<g class="io"><rect class="fill" x="{begin:.1f}" y="{y - 3}" height="6"'
            f' width="{max(over - begin, 1):.1f}"/></g>'
        )
    is_bad = crash["is_corrupt"] or crash["lost"]
    title = f"crash {crash['number']}: first answer after {_seconds(answered):.2f} s"
    title += f", {crash['lost']:,} commits lost" if crash["lost"] else ""
    title += ", damaged" if crash["is_corrupt"] else ""
    # The form says it without colour: a cross is a loss, a circle means nothing lost.
    mark = (
        f'<path class="stroke" d="M{end - 4:.1f} {y - 4}l8 8m0 -8l-8 8"/>'
        if is_bad
        else f'<circle class="marker" cx="{end:.1f}" cy="{y}" r="3.5"/>'
    )
    yield f'<g class="{"lock" if is_bad else "cpu"}"><title>{title}</title>{mark}</g>'


def _seconds(nanoseconds: int | None) -> float:
    return (nanoseconds or 0) / 1e9


def _tiles(document: Document) -> tuple[Tile, ...]:
    crashes, lost = document["crashes"], document["crashes_with_loss"]
    share = estimate_of(document["share_with_loss"])
    most = f"95 %: {percent(share.low or 0)} to {percent(share.high or 1)}" if share else ""
    seconds = estimate_of(document["loss_seconds"])
    recovery = estimate_of(document["recovery_seconds"])
    holds = sum(control["holds"] for control in document["controls"])
    return (
        Tile(
            "crashes with a loss", f"{lost} of {crashes}", aside=most, quantity="crashes_with_loss"
        ),
        Tile(
            "lost at the end",
            f"{value_text(seconds)} s" if seconds else "nothing",
            aside=interval_text(seconds) if seconds else "",
            quantity="loss_seconds.value",
        ),
        Tile("damaged data", f"{document['corrupt']} of {crashes}", quantity="corrupt"),
        Tile(
            "recovery",
            f"{value_text(recovery)} s" if recovery else "none",
            aside=interval_text(recovery) if recovery else "",
            quantity="recovery_seconds.value",
        ),
        Tile(
            "controls",
            f"{holds} of {len(document['controls'])} hold" if document["controls"] else "none",
            quantity="controls",
        ),
    )
