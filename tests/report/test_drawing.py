"""Charts drawn without a browser: axes, lines, gaps, marks."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.report import examples

from pgdyno.analysis.findings import RunTimeline
from pgdyno.report import axis, figures, svg
from pgdyno.report.chart import Chart, Flag, Line
from pgdyno.report.embed import captioned_json
from pgdyno.report.palette import SEQUENCE


def chart(*lines: Line, **more: object) -> Chart:
    return replace(Chart("k", "Title", "tps", "clients", lines), **more)  # type: ignore[arg-type]


def drawn(picture: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(svg.draw(picture, width=600))


@pytest.mark.parametrize("is_log", [False, True])
def test_many_values_stand_where_each_of_them_does(is_log: bool) -> None:
    make = axis.logarithmic if is_log else axis.linear
    scale = make(0.5, 3470, start_px=200, end_px=16)
    values = [0.01, 0.5, 3.0, 99.9, 3470.0, 1e9]
    assert scale.places(np.array(values)) == pytest.approx([scale.at(value) for value in values])
    assert np.isnan(scale.places(np.array([np.nan]))).all()


def test_chart_values_have_four_digits_rounded_as_printed() -> None:
    rng = np.random.default_rng(1)
    ties = rng.integers(1, 10**6, 4000) / 10.0 ** rng.integers(-3, 8, 4000)
    spread = np.exp(rng.uniform(-45, 45, 4000)) * rng.choice([-1.0, 1.0], 4000)
    some = [0.0, -0.0, 9999.5, 0.12345, 1e-300, 1e300, 99995.0]
    values = [*ties.tolist(), *spread.tolist(), *some]
    picture = chart(Line("a", SEQUENCE[0], tuple(range(len(values))), tuple(values)))
    sent = []
    for first in range(0, len(values), 500):  # More are thinned.
        part = values[first : first + 500]
        line = replace(picture.lines[0], x=tuple(range(len(part))), y=tuple(part))
        document = json.loads(captioned_json("n", "c", [replace(picture, lines=(line,))]))
        sent += document["charts"]["k"]["lines"][0]["y"]
    assert sent == [float(f"{value:.4g}") for value in values]


def test_linear_ticks_are_round_and_enclose_the_data() -> None:
    scale = axis.linear(0, 3470, start_px=200, end_px=0)
    assert [label for _, label in scale.ticks] == ["0", "1,000", "2,000", "3,000", "4,000"]
    assert scale.at(0) == 200
    assert scale.at(4000) == 0


def test_ticks_below_one_have_as_many_decimals_as_they_need() -> None:
    scale = axis.linear(0, 0.9, start_px=200, end_px=0)
    assert [label for _, label in scale.ticks] == ["0", "0.25", "0.5", "0.75", "1"]


@pytest.mark.parametrize("high", [0, -1, 5e-324])
def test_values_that_are_all_zero_still_have_an_axis(high: float) -> None:
    scale = axis.linear(0, high, start_px=200, end_px=0)
    assert scale.low < scale.high
    assert scale.at(0) == 200


def test_logarithmic_ticks_are_1_2_5_when_the_range_is_short() -> None:
    scale = axis.logarithmic(7, 68, start_px=200, end_px=0)
    assert [label for _, label in scale.ticks] == ["5", "10", "20", "50", "100"]


def test_logarithmic_ticks_are_decades_when_the_range_is_long() -> None:
    scale = axis.logarithmic(0.3, 5000, start_px=200, end_px=0)
    assert [label for _, label in scale.ticks] == ["0.1", "1", "10", "100", "1,000", "10,000"]


def test_a_single_value_still_has_a_logarithmic_axis() -> None:
    scale = axis.logarithmic(10, 10, start_px=200, end_px=0)
    assert scale.low < scale.high


def test_the_load_axis_is_labelled_where_was_measured() -> None:
    scale = axis.levels([1, 2, 4, 8], is_log=True, start_px=0, end_px=600)
    assert [label for _, label in scale.ticks] == ["1", "2", "4", "8"]


def test_labels_that_would_overlap_are_left_out() -> None:
    scale = axis.levels([1, 60, 61, 62, 64], is_log=True, start_px=0, end_px=600)
    assert [label for _, label in scale.ticks] == ["1", "60"]


@pytest.mark.parametrize(
    ("span_s", "last"), [(60, "60 s"), (600, "10:00"), (3600, "60:00"), (14_400, "4:00 h")]
)
def test_time_is_labelled_in_the_unit_of_its_length(span_s: float, last: str) -> None:
    scale = axis.time(0, span_s, start_px=0, end_px=600)
    assert scale.ticks[-1][1] == last


@pytest.mark.parametrize(
    ("span_s", "labels"),
    [(20, ["23:59:50", "23:59:55", "00:00:00", "00:00:05"]), (14_400, ["00:00", "00:30"])],
)
def test_an_axis_with_the_time_of_day_has_round_times(span_s: float, labels: list[str]) -> None:
    low = 86_388.5
    scale = axis.time(low, low + span_s, start_px=0, end_px=600, is_clock=True)
    assert [label for _, label in scale.ticks][: len(labels)] == labels


def test_a_gap_parts_the_line() -> None:
    line = Line("tps", SEQUENCE[0], (0, 1, 2, 3), (1.0, None, 2.0, 3.0))
    stroke = drawn(chart(line)).find(".//path[@class='stroke']")
    assert stroke is not None
    assert stroke.get("d", "").count("m") == 2


def test_values_not_above_zero_are_gaps_on_a_logarithmic_axis() -> None:
    line = Line("p99", SEQUENCE[0], (0, 1, 2), (0.0, 5.0, 8.0))
    stroke = drawn(chart(line, y_scale="log")).find(".//path[@class='stroke']")
    assert stroke is not None
    assert len(re.findall("[mlvh]", stroke.get("d", ""))) == 2


def test_each_measured_point_has_a_marker_and_a_whisker() -> None:
    line = Line("a", SEQUENCE[0], (1, 2), (10.0, 20.0), (9.0, None), (11.0, None), "points")
    picture = drawn(chart(line))
    span = picture.find(".//path[@class='span']")
    assert len(picture.findall(".//path[@class='marker']")) == 2
    assert span is not None
    assert len(re.findall("v", span.get("d", ""))) == 1


def test_a_whisker_that_reaches_below_zero_ends_at_the_axis() -> None:
    line = Line("a", SEQUENCE[0], (1, 2), (10.0, 20.0), (-90.0, 15.0), (110.0, 25.0), "points")
    assert chart(line).y_range == (0.0, 110.0)
    drawn(chart(line, y_scale="log"))


def test_layers_of_a_stack_lie_on_one_another() -> None:
    lower = Line("CPU", SEQUENCE[0], (0, 1), (1.0, 1.0))
    upper = Line("IO", SEQUENCE[1], (0, 1), (3.0, None))
    picture = chart(lower, upper, is_stacked=True)
    assert picture.y_range == (0.0, 4.0)
    assert len(drawn(picture).findall(".//g[@class]/path")) == 4


def test_marks_carry_their_words_and_are_escaped() -> None:
    line = Line("tps", SEQUENCE[0], (0, 10), (1.0, 2.0))
    flag = Flag(5, "checkpoint", 'checkpoint "<now>"')
    title = drawn(chart(line, flags=(flag,))).find(".//g[@class='flag checkpoint']/title")
    assert title is not None
    assert title.text == 'checkpoint "<now>"'


def test_marks_of_a_chart_that_is_folded_away_are_one_path_a_kind() -> None:
    line = Line("tps", SEQUENCE[0], (0, 10), (1.0, 2.0))
    flags = tuple(Flag(at, "checkpoint", f"number {at}") for at in (2, 4, 6, 6))
    picture = drawn(chart(line, flags=(*flags, Flag(5, "gap", "away")), section="Server"))
    marks = picture.findall(".//g[@class='flag checkpoint']/path")
    assert [mark.attrib["d"].count("M") for mark in marks] == [3]
    assert len(picture.findall(".//g[@class='flag gap']/path")) == 1
    assert picture.find(".//title") is None


def test_marks_have_no_letters_if_the_letters_would_overlap() -> None:
    line = Line("tps", SEQUENCE[0], (0, 100), (1.0, 2.0))
    flags = tuple(Flag(at, "error", "why") for at in range(41))
    assert len(drawn(chart(line, flags=flags[:40])).findall(".//g[@class='flag error']/text")) == 40
    many = drawn(chart(line, flags=flags))
    assert many.find(".//g[@class='flag error']/text") is None
    [path] = many.findall(".//g[@class='flag error']/path")
    assert path.attrib["d"].count("M") == 41


def test_marks_that_charts_share_travel_once() -> None:
    line = Line("tps", SEQUENCE[0], (0, 10), (1.0, 2.0))
    flags = (Flag(5, "checkpoint", "why"),)
    charts = [replace(chart(line, flags=flags), key=key) for key in ("a", "b")]
    page = json.loads(captioned_json("name", "caption", [*charts, replace(chart(line), key="c")]))
    assert page["flags"] == [[[5, "checkpoint", "why"]], []]
    assert [page["charts"][key]["marks"] for key in "abc"] == [0, 0, 1]


def test_lines_are_told_apart_without_colour() -> None:
    looks = {(role.dash, role.marker) for role in SEQUENCE}
    assert len(looks) == len(SEQUENCE)


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_every_chart_of_every_example_is_well_formed(name: str) -> None:
    findings = examples.EXAMPLES[name]()
    charts = [*figures.main_charts(findings), *figures.curve_charts(findings)]
    charts += figures.time_charts(findings.run.timeline) if findings.run else []
    for picture in charts:
        assert drawn(picture).get("role") == "img"


def test_layers_of_known_meaning_are_hatched_so_that_grey_is_enough() -> None:
    charts = {
        time_chart.key: time_chart for time_chart in figures.time_charts(examples.run(20).timeline)
    }
    for key in ("time-waits", "time-cpu", "time-programs"):
        assert "url(#f-" in svg.draw(charts[key], width=600)


def test_scripts_far_apart_share_a_logarithmic_axis() -> None:
    assert figures.load_curve(examples.quartet().curves).y_scale == "log"
    assert figures.load_curve(examples.sweep().curves).y_scale == "linear"


def test_a_panel_without_values_is_not_drawn() -> None:
    run = examples.run(20)
    empty = replace(
        run.timeline.panels[0], key="empty", series=(examples.Series("x", (None,) * 20),)
    )
    assert "empty" not in {p.key for p in figures.drawable(RunTimeline(20.0, (empty,)))}


def test_without_tps_and_latency_the_first_panel_is_on_top() -> None:
    base = examples.bench(20)
    assert base.run is not None
    only = tuple(panel for panel in base.run.timeline.panels if panel.key == "waits")
    charts = figures.main_charts(
        replace(base, run=replace(base.run, timeline=replace(base.run.timeline, panels=only)))
    )
    assert [picture.key for picture in charts] == ["main-waits"]


SERIES: dict[str, tuple[tuple[float, ...], tuple[float | None, ...]]] = {
    "no samples": ((), ()),
    "one sample": ((3.0,), (7.0,)),
    "one sample of zero": ((0.0,), (0.0,)),
    "all equal": ((0.0, 1.0, 2.0), (4.0, 4.0, 4.0)),
    "all zero": ((0.0, 1.0, 2.0), (0.0, 0.0, 0.0)),
    "all negative": ((0.0, 1.0), (-2.0, -1.0)),
    "only gaps": ((0.0, 1.0), (None, None)),
    "not finite": ((0.0, 1.0, 2.0), (math.nan, math.inf, -math.inf)),
    "one point in time": ((5.0, 5.0), (1.0, 2.0)),
    "tiny": ((0.0, 1.0), (5e-300, 6e-300)),
    "huge": ((0.0, 1.0), (1e300, 1e300)),
}


@pytest.mark.parametrize("form", ["time", "time, log", "levels", "levels, log", "stacked", "none"])
@pytest.mark.parametrize("name", SERIES)
def test_a_chart_of_any_samples_is_drawn_by_every_painter(name: str, form: str) -> None:
    x, y = SERIES[name]
    form, _, log = form.partition(", ")
    scale = log or "linear"
    shape = "points" if form == "levels" else "line"
    line = Line("a", SEQUENCE[0], x, y, y, y, shape=shape)
    picture = chart(
        *([] if form == "none" else [line, line]),
        group="" if form == "levels" else "time",
        is_stacked=form in ("stacked", "none"),
        x_scale=scale if form == "levels" else "linear",
        y_scale=scale,
    )
    for shown in (picture, replace(picture, x_ends=(2.0, 2.0))):
        assert "nan" not in ElementTree.tostring(drawn(shown), "unicode").lower()
        document = json.loads(captioned_json("n", "c", [shown]))["charts"]["k"]
        for ends in (document["xEnds"], document["yEnds"]):
            assert ends[0] < ends[1]
        separate = svg.standalone(shown, width=600)
        assert "nan" not in ElementTree.tostring(ElementTree.fromstring(separate), "unicode")
