"""The pen: few bytes, and every point where it belongs."""

from __future__ import annotations

import random
import re

import numpy as np

from pgdyno.report.pen import Pen


def points_of(path: str) -> list[tuple[str, float, float]]:
    """Return what a browser reads: each move with the place it ends at."""
    x = y = 0.0
    points = []
    for verb, numbers in re.findall(r"([mlhv])([^mlhv]*)", path):
        values = [float(text) for text in re.findall(r"-?\d*\.?\d+", numbers)]
        step = 1 if verb in "hv" else 2
        for i in range(0, len(values), step):
            x += values[i] if verb != "v" else 0
            y += values[i] if verb == "v" else values[i + 1] if verb != "h" else 0
            points.append((verb, x, y))
    return points


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


def test_many_places_at_once_are_the_path_of_one_by_one() -> None:
    rng = np.random.default_rng(1)
    xs, ys = np.cumsum(rng.integers(0, 90, 500)) / 20, rng.integers(0, 300, 500) / 20
    ys[rng.integers(0, 500, 50)] = np.nan
    whole, single = Pen(), Pen()
    whole.follow(xs, ys)
    whole.follow(xs[::-1], np.zeros(500), is_down=True)
    is_down = False
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if not np.isnan(y):
            (single.line if is_down else single.move)(x, y)
        is_down = not np.isnan(y)
    for x in xs[::-1].tolist():
        single.line(x, 0)
    assert whole.text() == single.text()


def test_nothing_but_gaps_leaves_the_pen_where_it_was() -> None:
    pen = Pen()
    pen.follow(np.array([1.0, 2.0]), np.array([np.nan, np.nan]))
    assert pen.text() == ""
