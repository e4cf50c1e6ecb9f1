"""Draws charts, forest plots and time bars with matplotlib, from the descriptions of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from pgdyno import quantities
from pgdyno.analysis.rounding import change_text
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.report import palette, svg
from pgdyno.report.chart import Chart, Line, thin, thin_axis
from pgdyno.report.figures import TIME_GROUP
from pgdyno.report.forest import Forest
from pgdyno.report.ink import HATCHES, MARKERS, NAME_SIZE, colour, two_lines
from pgdyno.report.palette import MODEL_DASH
from pgdyno.report.parts import TimePart, in_bar_order, legend_of_parts, parts_of_all

_LABEL_RATIO_MIN = 0.07
_LEGEND_COLUMNS = 4
_LABEL_INCHES = 0.12  # height of the words below the axis
_ROW_INCHES, _TWO_LINES_INCHES = 0.25, 0.32  # height of a row of a forest plot
_LEGEND_INCHES = 0.2  # height of the legend below the labels of the axis


def chart(axes: Axes, shown: Chart) -> None:
    """Draw a chart: the same axes, lines and spans as on the page."""
    y = svg.y_axis(shown)
    _frame(axes, shown.title, shown.unit)
    axes.set_ylim(y.low, y.high)
    if shown.is_x_log:
        axes.set_xscale("log")
    if shown.y_scale == "log":
        axes.set_yscale("log")
    if shown.is_stacked and shown.lines:
        _stack(axes, shown)
    else:
        for line in shown.lines:
            _line(axes, line)
    for flag in shown.flags:
        axes.axvline(flag.x, color=colour("ink-3"), linewidth=0.6, linestyle=(0, (2, 3)))
    axes.set_yticks([value for value, _ in y.ticks], [label for _, label in y.ticks])
    axes.minorticks_off()
    measured = sorted({x for line in shown.lines if line.shape == "points" for x in line.x})
    if measured and not shown.group:
        step = len(measured) // 14 + 1
        axes.set_xticks(measured[::step], [quantities.tick(x) for x in measured[::step]])
    if shown.x_label:
        words = "seconds since the start" if shown.group == TIME_GROUP else shown.x_label
        axes.set_xlabel(words, fontsize=7, color=colour("ink-3"), loc="right", labelpad=1)
    names = _named(shown)
    if len(names) > 1:
        is_below = legend_inches(shown) > 0
        below = -(_LEGEND_INCHES + _LABEL_INCHES) / (
            axes.get_window_extent().height / axes.figure.dpi
        )
        legend = axes.legend(
            *_handles(axes, names),
            loc="upper left" if is_below else "lower right",
            bbox_to_anchor=(0.0, below) if is_below else (1.0, 1.0),
            borderaxespad=0.0 if is_below else 0.5,
            ncols=_LEGEND_COLUMNS,
            fontsize=6.5,
            frameon=False,
            borderpad=0.1,
            columnspacing=1.0,
            handlelength=2.2,
        )
        for text in legend.get_texts():
            text.set_color(colour("ink-2"))


def legend_inches(shown: Chart) -> float:
    """Return the height of the legend below the chart; 0 if the legend is next to the title."""
    count = len(_named(shown))
    rows = math.ceil(count / _LEGEND_COLUMNS)
    return 0.0 if rows <= 1 else _LABEL_INCHES + 0.14 * rows


def _named(shown: Chart) -> set[str]:
    return {line.name for line in shown.lines if line.shape != "model"}


def forest_names(shown: Forest) -> tuple[tuple[str, ...], float]:
    """Return the name of each row, a long one on two lines, and the height of a row in inches."""
    names = tuple(two_lines(row.name) for row in shown.rows)
    return names, _TWO_LINES_INCHES if any("\n" in name for name in names) else _ROW_INCHES


def forest_plot(axes: Axes, shown: Forest) -> None:
    """Draw every row of a forest plot with its interval: the same rows and scale as on the page."""
    names, _ = forest_names(shown)
    scale = shown.scale
    margin = scale.margin_ratio
    _frame(axes, "Change, with the interval that decides", "")
    axes.set_xscale("linear" if scale.is_linear else "log")
    axes.set_xlim(scale.low_ratio, scale.reach_ratio)
    axes.axvspan(1 / (1 + margin), 1 + margin, color=colour("rule"), alpha=0.6, linewidth=0)
    axes.axvline(1, color=colour("rule-strong"), linewidth=0.8)
    for place, (name, row) in enumerate(zip(names, shown.rows, strict=True)):
        ratio, decides = row.ratio, row.decides
        ink = colour("ink" if decides else "ink-3")
        if ratio.low is not None and ratio.high is not None:
            axes.plot(
                [ratio.low, ratio.high],
                [-place] * 2,
                color=ink,
                linewidth=1.8 if decides else 1.0,
            )
        # If the value is beyond the scale, an arrow head is at its end, as on the page.
        beyond = scale.beyond(ratio.value)
        at = min(max(ratio.value, scale.low_ratio), scale.reach_ratio)
        shape: dict[str, Any] = {"marker": "<o>"[beyond + 1], "markersize": 5 if decides else 3.5}
        axes.plot([at], [-place], color=ink, clip_on=False, **shape)
        side: dict[str, Any] = {"fontsize": NAME_SIZE, "color": ink}
        side["weight"] = "bold" if decides else "normal"
        frame = axes.get_yaxis_transform()
        axes.text(-0.01, -place, name, transform=frame, ha="right", va="center", **side)
        said = change_text(ratio)
        axes.text(1.025, -place, said, transform=frame, ha="left", va="center", **side)
    axes.set_ylim(-len(names) + 0.4, 0.6)
    axes.set_yticks([])
    axes.grid(visible=False)
    marks = scale.marks()
    axes.set_xticks(marks, [scale.label(mark) for mark in marks])
    if scale.note:
        axes.set_xlabel(scale.note, fontsize=7, color=colour("ink-3"), loc="right", labelpad=1)
    axes.minorticks_off()


def time_bars(axes: Axes, bars: Sequence[tuple[str, WhereTheTimeGoes]]) -> None:
    """Draw the parts of the time: one bar a variant, all on one scale of ms."""
    _frame(axes, "Where the time goes", "ms per transaction")
    every = parts_of_all(where for _, where in bars)
    total = max(where.latency_ms.value for _, where in bars)
    for place, ((name, _), parts) in enumerate(zip(bars, every, strict=True)):
        left = 0.0
        for part in in_bar_order(parts):
            if part.ms.value <= 0:
                continue
            _piece(axes, part, -place, left)
            if part.ms.value > _LABEL_RATIO_MIN * total:
                middle = left + part.ms.value / 2
                label = quantities.plain(part.ms.value)
                box = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 1.0}
                axes.text(middle, -place, label, ha="center", va="center", fontsize=7, bbox=box)
            left += part.ms.value
        if name:
            frame = axes.get_yaxis_transform()
            side: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": NAME_SIZE}
            axes.text(-0.01, -place, name, transform=frame, **side)
    axes.set_ylim(-len(bars) + 0.45, 0.55)
    axes.set_yticks([])
    axes.set_xlim(left=0)
    axes.grid(visible=False)
    _parts_legend(axes, legend_of_parts(every))


def _piece(axes: Axes, part: TimePart, place: int, left: float) -> None:
    axes.barh(
        place,
        part.ms.value,
        left=left,
        height=0.72,
        color=colour(part.role.css),
        edgecolor="white",
        linewidth=0.4,
        hatch=HATCHES.get(part.wait, ""),
    )


def _parts_legend(axes: Axes, legend: Sequence[tuple[str, TimePart]]) -> None:
    from matplotlib.patches import Patch

    patches = [
        Patch(
            facecolor=colour(part.role.css),
            edgecolor="white",
            hatch=HATCHES.get(part.wait, ""),
            label=name,
        )
        for name, part in legend
    ]
    axes.legend(
        handles=patches,
        loc="upper left",
        bbox_to_anchor=(0.0, -_LEGEND_INCHES * _dots_an_inch(axes) / axes.bbox.height),
        ncols=4,
        fontsize=6.5,
        frameon=False,
        borderpad=0,
        columnspacing=1.2,
    )


def _dots_an_inch(axes: Axes) -> float:
    figure = axes.get_figure(root=True)
    assert figure is not None
    return float(figure.dpi)


def _frame(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold", color=colour("ink"), pad=4)
    if unit:
        axes.annotate(
            unit,
            (0, 1),
            xycoords="axes fraction",
            xytext=(6.1 * len(title) + 6, 4.5),
            textcoords="offset points",
            fontsize=7,
            color=colour("ink-3"),
        )
    axes.grid(axis="y", color=colour("rule"), linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(length=2.5, width=0.6, labelsize=7, colors=colour("ink-3"), pad=2)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(colour("rule-strong"))


def _line(axes: Axes, line: Line) -> None:
    xs, middle = thin_axis(line.x), thin(line.y)
    ys = [float("nan") if value is None else value for value in middle.mean]
    is_points = line.shape == "points"
    dash = MODEL_DASH if line.shape == "model" else line.role.dash
    ink = colour(line.role.css)
    low = thin(line.low).mean if line.low is not None else middle.low
    high = thin(line.high).mean if line.high is not None else middle.high
    if low is not None and high is not None:
        spans = [
            (x, a, b)
            for x, a, b in zip(xs, low, high, strict=True)
            if a is not None and b is not None
        ]
        axes.vlines(
            [x for x, _, _ in spans],
            [a for _, a, _ in spans],
            [b for _, _, b in spans],
            color=ink,
            linewidth=0.9,
            alpha=1.0 if is_points else 0.3,
        )
    axes.plot(
        list(xs),
        ys,
        color=ink,
        linewidth=0.8 if line.shape == "model" else 1.2,
        linestyle=(0, dash) if dash else "-",
        marker=MARKERS[line.role.marker] if is_points else "",
        markersize=4,
        markerfacecolor="white",
        clip_on=not is_points,
        zorder=3,
        label=line.name,
    )


def _stack(axes: Axes, shown: Chart) -> None:
    xs = thin_axis(shown.lines[0].x)
    columns = [[value or 0.0 for value in thin(line.y).mean] for line in shown.lines]
    areas = axes.stackplot(
        list(xs),
        columns,
        labels=[line.name for line in shown.lines],
        colors=[colour(line.role.css) for line in shown.lines],
        alpha=0.75,
        linewidth=0,
    )
    for area, line in zip(areas, shown.lines, strict=True):
        area.set_hatch(HATCHES.get(palette.wait_class(line.name), ""))
        area.set_edgecolor("white")


def _handles(axes: Axes, names: set[str]) -> tuple[list[Any], list[str]]:
    handles, labels = axes.get_legend_handles_labels()
    kept = [(h, name) for h, name in zip(handles, labels, strict=True) if name in names]
    return [h for h, _ in kept], [name for _, name in kept]
