"""The pen: few bytes, and every point where it belongs."""

from __future__ import annotations

import random
import re

from pgdyno.report.pen import Pen


def points_of(path: str) -> list[tuple[str, float, float]]:
    """Return what a browser reads: each move with the place it ends at."""
    x = y = 0.0
    found = []
    for verb, numbers in re.findall(r"([mlhv])([^mlhv]*)", path):
        values = [float(text) for text in re.findall(r"-?\d*\.?\d+", numbers)]
        step = 1 if verb in "hv" else 2
        for i in range(0, len(values), step):
            x += values[i] if verb != "v" else 0
            y += values[i] if verb == "v" else values[i + 1] if verb != "h" else 0
            found.append((verb, x, y))
    return found


def test_roundings_do_not_add_up() -> None:
    rng = random.Random(1)
    asked = [(rng.uniform(-50, 900), rng.uniform(-20, 150)) for _ in range(2000)]
    pen = Pen()
    pen.move(*asked[0])
    for x, y in asked[1:]:
        pen.line(x, y)
    seen = points_of(pen.text())
    assert len(seen) == len(asked)
    for (_, x, y), (asked_x, asked_y) in zip(seen, asked, strict=True):
        assert abs(x - asked_x) < 0.06
        assert abs(y - asked_y) < 0.06


def test_level_and_upright_lines_need_one_number() -> None:
    pen = Pen()
    pen.move(10, 20)
    pen.line(13.5, 20)
    pen.line(13.5, 19.7)
    pen.line(14.5, 19.2)
    pen.line(14, 19.9)
    assert pen.text() == "m10 20h3.5v-.3l1-.5-.5 .7"


def test_the_pen_is_lifted_for_every_move() -> None:
    pen = Pen()
    for x in (1, 2):
        pen.move(x, 0)
        pen.line(x, 5)
    assert pen.text() == "m1 0v5m1-5v5"
