"""Colours, fonts and sizes of text for pictures and PDF, which matplotlib draws.

The colours are those of the HTML page in light mode (`assets/light.css`).

matplotlib is imported when it is first needed. It needs no browser and no network.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

A4_INCHES = (8.27, 11.69)
# Letters in a PDF are a little wider than the screen's renderer says, so widths get a reserve.
_WIDTH_RESERVE = 1.06
# A line of the style sheet, such as "--accent: #2563eb".
_VARIABLE = re.compile(r"--([\w-]+):\s*(#[0-9a-fA-F]{3,8})")
NAME_SIZE = 7.5  # size of the names left of a plot, points
_NAME_COLUMNS = 34  # longer names take two lines
# Markers and hatches distinguish series without colour, as on the page.
MARKERS = {"circle": "o", "triangle": "^", "rect": "s", "diamond": "D", "none": ""}
HATCHES = {
    "io": "////",
    "lwlock": "....",
    "lock": "xxxx",
    "network": "----",
    "client": "||||",
    "other": "++",
    "residual": "oo",
}
_STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 8.0,
    "text.parse_math": False,
    "axes.linewidth": 0.6,
    "axes.unicode_minus": False,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "path.simplify": True,
}


@cache
def colours() -> dict[str, str]:
    """Return the page's colours by name: "ink", "accent", "io-2"."""
    text = files("pgdyno.report").joinpath("assets/light.css").read_text(encoding="utf-8")
    return dict(_VARIABLE.findall(text))


def colour(name: str) -> str:
    """Return one colour of the page."""
    return colours()[name]


def style() -> Any:
    """Return a context with our fonts and colours, in which figures are drawn."""
    return rc_context(_STYLE)


def new_figure(width_inches: float, height_inches: float, *, dpi: int = 150) -> Figure:
    """Return an empty figure with the background of the page's panels."""
    figure = Figure(figsize=(width_inches, height_inches), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def text_width_inches(figure: Figure, text: str, size: float, weight: str) -> float:
    """Return the width of a text in inches. Args: size, in points; weight, such as "bold"."""
    from matplotlib.font_manager import FontProperties

    canvas: Any = figure.canvas
    font = FontProperties(family=["DejaVu Sans"], size=size, weight=weight)
    width, _, _ = canvas.get_renderer().get_text_width_height_descent(text, font, False)
    return float(width) / figure.dpi * _WIDTH_RESERVE


def names_inches(names: Iterable[str], *, least: float, weight: str = "normal") -> float:
    """Return the width in inches of the names left of a plot, with margins; at least `least`."""
    figure = new_figure(1, 1)
    lines = [line for name in names for line in name.split("\n")]
    widths = [text_width_inches(figure, line, NAME_SIZE, weight) for line in lines]
    return max(least, *(width + 0.2 for width in widths))


def two_lines(name: str) -> str:
    """Return a name on at most two lines, so that a long name leaves room for the plot.

    If it is longer, its middle is left out: the end of a name is the metric.
    """
    lines = textwrap.wrap(name, _NAME_COLUMNS) or [name]
    last = " ".join(lines[1:])
    if len(last) > _NAME_COLUMNS:
        last = "\u2026" + last[1 - _NAME_COLUMNS :]
    return "\n".join([lines[0], last] if last else lines)
