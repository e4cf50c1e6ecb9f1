"""The page as text: safe, whole, small, and complete without a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from tests.report import examples

from pgdyno.analysis.curve import load_curve
from pgdyno.analysis.findings import CurveFindings, ExperimentFindings, Mark, RunTimeline, Series
from pgdyno.answer.marks import nearest_merged
from pgdyno.designs import page_of
from pgdyno.report.embed import captioned_json
from pgdyno.report.figures import time_charts

EVIL = '</script><script>alert("x")</script><img src=x onerror=alert(1)>'
VOID = {"meta", "br", "img", "input", "link", "hr"}


class Balanced(HTMLParser):
    """Collects tags that are closed in the wrong place, and what a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href") and not (value or "").startswith("#"):
                self.fetched.append(f"{tag} {name}={value}")
            if name == "style" or name.startswith("on"):
                self.problems.append(f"{tag} has {name}=, which the policy forbids")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag, attrs

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")


def parsed(page: str) -> Balanced:
    parser = Balanced()
    parser.feed(page)
    return parser


def embedded(page: str) -> dict[str, object]:
    script = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.S)
    assert script is not None
    document: dict[str, object] = json.loads(script[1])
    return document


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_every_example_is_balanced_html_that_fetches_nothing(name: str) -> None:
    checked = parsed(page_of(examples.EXAMPLES[name]()))
    assert checked.problems == []
    assert checked.open == []
    assert checked.fetched == []


def test_an_hour_stays_below_2_5_megabytes_with_600_points_a_series() -> None:
    page = page_of(examples.bench(3600))
    assert len(page.encode()) < 2.5e6
    charts = embedded(page)["charts"]
    assert isinstance(charts, dict)
    assert max(len(line["y"]) for chart in charts.values() for line in chart["lines"]) == 600


def test_an_hour_with_two_events_a_second_stays_below_it_too() -> None:
    marks = [Mark(place / 2, "error", f"log: 40P01 {place}") for place in range(7200)]
    run = examples.run(3600)
    shown_marks = nearest_merged((*examples.marks(3600), *marks))
    run = replace(run, timeline=replace(run.timeline, marks=shown_marks))
    page = page_of(replace(examples.bench(3600), run=run))
    assert len(page.encode()) < 2.5e6
    assert "12 checkpoints, 7,200 errors" in page
    shown = f"7,212 marks on the time line, shown as {len(run.timeline.marks)}"
    assert shown in page
    assert "log: 40P01 0" in page


def test_the_thinned_hour_keeps_its_extremes() -> None:
    run = examples.run(3600)
    spiked = list(run.timeline.panels[0].series[0].values)
    spiked[1000] = 9999.0
    panel = replace(run.timeline.panels[0], series=(Series("completed", tuple(spiked)),))
    document = json.loads(
        captioned_json("a", "b", time_charts(RunTimeline(3600.0, (panel,), run.timeline.marks)))
    )
    assert max(document["charts"]["time-tps"]["lines"][0]["high"]) == 9999


def test_words_from_outside_cannot_become_markup() -> None:
    base = examples.bench(20)
    assert base.run is not None
    panel = replace(base.run.timeline.panels[0], title=EVIL, series=(Series(EVIL, (1.0,) * 20),))
    facts = replace(base.facts, target=EVIL, rows=((EVIL, EVIL),), settings=((EVIL,) * 3,))
    script = replace(examples.script(EVIL), failures={EVIL: 1})
    run = replace(base.run, timeline=RunTimeline(20.0, (panel,)), scripts=(script,))
    page = page_of(replace(base, sentence=EVIL, facts=facts, run=run, name=EVIL, notes=(EVIL,)))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert page.count("<script") == 4
    assert parsed(page).problems == []


def test_the_policy_names_the_hash_of_every_script_and_style() -> None:
    page = page_of(examples.tiny())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    inline = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", page, re.S)
    assert len(inline) == 4
    for text in inline:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert policy[1].startswith("default-src 'none';")
    assert "unsafe" not in policy[1]


def test_the_vendored_library_is_the_published_one_with_its_licences() -> None:
    vendor = files("pgdyno.report").joinpath("vendor")
    code = vendor.joinpath("echarts.common.min.js").read_bytes()
    expected = vendor.joinpath("echarts.common.min.js.sha256").read_text().split()[0]
    assert hashlib.sha256(code).hexdigest() == expected
    for name in ("echarts.LICENSE", "echarts.NOTICE", "echarts.LICENSE-d3", "zrender.LICENSE"):
        assert vendor.joinpath(name).is_file()
    page = page_of(examples.tiny())
    for line in ("Copyright 2017-2026 The Apache", "(c) 2017, Baidu", "2010-2016 Mike Bostock"):
        assert line in page


def test_weakened_durability_is_red_and_named() -> None:
    page = page_of(examples.invalid())
    assert re.search(r'<dd class="red">WEAKENED: fsync OFF', page)
    assert "not valid" in page


def test_the_first_screen_names_the_number_of_doubts_and_the_worst_in_words() -> None:
    page = page_of(examples.invalid())
    strip = page[page.index('id="facts-line"') :]
    assert "2 doubts</a>, the worst: A thread of the load engine was 97% busy" in strip


def test_a_doubt_of_experiment_and_run_is_counted_once() -> None:
    assert "1 doubt</a>: The run covers one checkpoint" in page_of(examples.bench(20))


def test_sections_exist_only_for_data_that_exists() -> None:
    page = page_of(examples.tiny())
    for anchor in ("levels", "where", "time", "scripts", "notes"):
        assert f'id="{anchor}"' not in page
        assert f'href="#{anchor}"' not in page


def test_links_to_sections_lead_somewhere() -> None:
    page = page_of(examples.quartet())
    for anchor in re.findall(r'href="#([\w-]+)"', page):
        assert f'id="{anchor}"' in page


def test_every_hatch_that_is_referred_to_is_defined() -> None:
    page = page_of(examples.bench(20))
    for name in set(re.findall(r"url\(#([\w-]+)\)", page)):
        assert f'id="{name}"' in page


def one_level(runs: int) -> ExperimentFindings:
    curve = load_curve([4] * runs, [100.0 + i for i in range(runs)], seed=1, latency_ns={})
    return replace(examples.sweep(), curves=(CurveFindings("x", curve, ""),), run=None)


@pytest.mark.parametrize("runs", [1, 3])
def test_a_sweep_of_one_level_is_shown_too(runs: int) -> None:
    assert "4 clients" in page_of(one_level(runs))


def test_an_experiment_without_a_run_is_shown_too() -> None:
    page = page_of(replace(examples.bench(20), run=None, is_complete=False, runs_valid=0))
    assert "ended early" in page


def test_a_negative_rest_is_shown_but_not_drawn() -> None:
    base = examples.bench(20)
    assert base.run is not None
    assert base.run.where is not None
    where = replace(base.run.where, residual_ms=-0.2, residual_ratio=-0.024)
    page = page_of(replace(base, run=replace(base.run, where=where)))
    assert "-0.20" in page
    bar = page[page.index('class="timebar"') :]
    assert "not explained" not in bar[: bar.index("</svg>")]
