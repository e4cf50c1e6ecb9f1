"""The report in a real browser: drawn, quiet, offline, and readable without its script."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import AtWidth, OpenedReport, OpenOnce, OpenReport
from tests.report.examples import EXAMPLES

NAMES = sorted(EXAMPLES)
WITH_CHARTS = [name for name in NAMES if name != "tiny"]

# The share of a chart's pixels that are not transparent, and how many colours they have.
INK = """figure => {
  const canvas = figure.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  let opaque = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] < 200) continue;
    opaque += 1;
    colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  }
  return { share: opaque / (data.length / 4), colours: colours.size };
}"""
BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"
OVERFLOW = "document.documentElement.scrollWidth - window.innerWidth"


def ink_of_charts(page: Page) -> dict[str, dict[str, float]]:
    figures = page.locator("figure[data-chart]")
    return {
        str(figures.nth(i).get_attribute("data-chart")): figures.nth(i).evaluate(INK)
        for i in range(figures.count())
    }


def bottom(page: Page, selector: str) -> float:
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return box["y"] + box["height"]


def chart(page: Page, key: str):  # type: ignore[no-untyped-def]
    return page.locator(f'figure[data-chart="{key}"]')


@pytest.mark.parametrize("name", NAMES)
def test_every_chart_is_drawn_offline_and_nothing_complains(
    opened_once: OpenOnce, name: str
) -> None:
    report = opened_once(name)
    drawn = ink_of_charts(report.page)
    assert bool(drawn) == (name in WITH_CHARTS)
    for key, ink in drawn.items():
        assert ink["share"] > 0.002, key
        assert ink["colours"] > 10, key
    assert report.complaints == []
    assert [url for url in report.requests if not url.startswith(("file:", "data:"))] == []


def test_a_script_that_slips_in_is_not_run(open_report: OpenReport) -> None:
    report = open_report("tiny")
    report.page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.slipped = true";
          document.body.append(script);
        }"""
    )
    assert report.page.evaluate("window.slipped") is None
    assert "Content Security Policy" in report.complaints[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_first_screen_holds_what_decides(at_width: AtWidth, name: str) -> None:
    page = at_width(name, 1280)
    expected = [".verdict", ".tiles", "#facts-line"]
    expected += ["#main"] if page.locator("#main").count() else []
    expected += ["#where-bar .timebar"] if page.locator("#where-bar").count() else []
    for selector in expected:
        assert bottom(page, selector) <= 720, selector
    assert page.locator("#facts-line dd").count() == 3


@pytest.mark.parametrize("name", ["bench", "invalid", "quartet"])
def test_a_phone_has_no_horizontal_scroll(at_width: AtWidth, name: str) -> None:
    page = at_width(name, 390)
    assert page.evaluate(OVERFLOW) <= 0
    for key, ink in ink_of_charts(page).items():
        assert ink["share"] > 0.002, key


@pytest.mark.parametrize("size", [(1280, 720), (390, 844)])
def test_the_page_of_a_verdict_is_drawn_quiet_and_as_wide_as_the_screen(
    open_report: OpenReport, size: tuple[int, int]
) -> None:
    report = open_report("compare", size)
    for key, ink in ink_of_charts(report.page).items():
        assert ink["share"] > 0.002, key
    assert report.page.evaluate(OVERFLOW) <= 0
    if size[0] > 1000:
        for selector in (".verdict", "#forest", "#difference", "#facts-line"):
            assert bottom(report.page, selector) <= 720, selector
    assert report.complaints == []


@pytest.mark.parametrize("width", [1100, 1280, 1400])
def test_the_forest_plot_leaves_no_hole_below_it(at_width: AtWidth, width: int) -> None:
    page = at_width("compare", width)
    for panel in ("#forest", "#difference"):
        assert bottom(page, panel) - bottom(page, f"{panel} table") < 60, panel


# How many px each visible label of the forest plot's axis is right of the label before.
LABEL_GAPS = """() => {
  const labels = [...document.querySelectorAll("#forest .axis text")]
    .map((label) => label.getBoundingClientRect()).filter((box) => box.width > 0);
  return labels.slice(1).map((box, i) => box.left - labels[i].right);
}"""


@pytest.mark.parametrize("name", ["compare", "long names"])
@pytest.mark.parametrize("width", [390, 700, 1010, 1095, 1280, 1600])
def test_labels_of_the_forest_plot_never_overlap(at_width: AtWidth, name: str, width: int) -> None:
    page = at_width(name, width)
    gaps = page.evaluate(LABEL_GAPS)
    assert gaps, "both ends of the axis have labels"
    assert min(gaps) > 2, gaps
    panel, table = (page.locator(f"#forest{inner}").bounding_box() for inner in ("", " table"))
    assert panel is not None
    assert table is not None
    assert table["x"] + table["width"] <= panel["x"] + panel["width"]


# How many px the content of a tile, heading or panel sticks out; wide tables may scroll.
STICKS_OUT = """() => [
  ...document.querySelectorAll(".tile, .chart-head, .board .panel, #where .scroll")]
  .map((box) => box.scrollWidth - box.clientWidth).filter((px) => px > 1)"""


@pytest.mark.parametrize("name", ["compare", "long names", "watch"])
@pytest.mark.parametrize("width", [1010, 1100, 1300, 1600])
def test_nothing_sticks_out_of_its_tile_heading_or_panel(
    at_width: AtWidth, name: str, width: int
) -> None:
    assert at_width(name, width).evaluate(STICKS_OUT) == []


@pytest.mark.parametrize("name", ["bench", "quartet"])
def test_without_javascript_the_verdict_tables_and_charts_are_there(
    open_report: OpenReport, name: str
) -> None:
    page = open_report(name, javascript=False).page
    expect(page.locator(".verdict")).to_be_visible()
    assert bottom(page, "#facts-line") <= 720
    expect(page.locator("#latency table")).to_be_visible()
    expect(page.locator("#facts table").first).to_be_visible()
    for figure in page.locator("figure[data-chart]").all():
        expect(figure.locator(".box > svg")).to_be_visible()
        expect(figure.locator(".tools")).to_be_hidden()


def test_the_toggle_turns_light_into_dark_and_back(open_report: OpenReport) -> None:
    report = open_report("bench")
    page = report.page
    light = page.evaluate(BACKGROUND)
    page.get_by_label("light or dark").click()
    assert page.evaluate(BACKGROUND) != light
    assert all(ink["share"] > 0.002 for ink in ink_of_charts(page).values())
    page.get_by_label("light or dark").click()
    assert page.evaluate(BACKGROUND) == light
    assert report.complaints == []


def test_the_toggle_wins_over_a_dark_system(open_report: OpenReport) -> None:
    page = open_report("bench", scheme="dark").page
    dark = page.evaluate(BACKGROUND)
    page.get_by_label("light or dark").click()
    assert page.evaluate(BACKGROUND) != dark


def hover(page: Page, key: str, at: float) -> None:
    live = chart(page, key).locator(".live")
    live.scroll_into_view_if_needed()
    box = live.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * at, box["y"] + box["height"] / 2)


def test_one_cursor_runs_through_all_charts_over_time(open_report: OpenReport) -> None:
    page = open_report("bench").page
    hover(page, "time-tps", 0.5)
    for key in ("time-tps", "time-latency", "time-disk_time"):
        expect(chart(page, key).locator(".cursor")).to_have_css("display", "block")
    value = chart(page, "time-latency").locator('output[data-line="p99"]')
    assert float(value.inner_text()) > 10
    page.mouse.move(2, 2)
    expect(value).to_contain_text(" to ")


def test_the_cursor_on_a_load_curve_stops_at_the_levels(open_report: OpenReport) -> None:
    page = open_report("sweep").page
    hover(page, "load-curve", 0.69)
    expect(chart(page, "load-curve").locator(".unit")).to_have_text("tps at 16 clients")
    expect(chart(page, "load-curve").locator("output").first).to_contain_text(" to ")


def test_the_cursor_moves_by_keyboard(open_report: OpenReport) -> None:
    page = open_report("sweep").page
    chart(page, "load-curve").locator(".live").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(chart(page, "load-curve").locator(".unit")).to_have_text("tps at 2 clients")


def test_a_drag_zooms_all_charts_and_a_double_click_shows_all(open_report: OpenReport) -> None:
    report = open_report("hour")
    page = report.page
    axis = chart(page, "time-wal").evaluate(INK)
    hover(page, "time-tps", 0.3)
    page.mouse.down()
    hover(page, "time-tps", 0.4)
    page.mouse.up()
    expect(page.get_by_role("button", name="show all")).to_be_visible()
    assert chart(page, "time-wal").evaluate(INK) != axis
    page.mouse.dblclick(*_centre(page, "time-tps"))
    expect(page.get_by_role("button", name="show all")).to_be_hidden()
    assert report.complaints == []


def _centre(page: Page, key: str) -> tuple[float, float]:
    box = chart(page, key).locator(".live").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def downloaded(report: OpenedReport, key: str, what: str, folder: Path) -> Path:
    with report.page.expect_download() as waiting:
        chart(report.page, key).locator(f'button[data-do="{what}"]').click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def test_a_chart_over_time_gives_its_data_as_csv(open_report: OpenReport, tmp_path: Path) -> None:
    path = downloaded(open_report("bench"), "time-latency", "csv", tmp_path)
    lines = path.read_text().splitlines()
    assert path.name == "pgdyno-41-time-latency.csv"
    assert lines[0] == "time_s,p50 (ms),p95 (ms),p99 (ms)"
    assert len(lines) == 181
    assert lines[1].startswith("0.5,")


def test_thinned_data_come_with_their_range(open_report: OpenReport, tmp_path: Path) -> None:
    path = downloaded(open_report("hour"), "time-tps", "csv", tmp_path)
    head, first, *_ = path.read_text().splitlines()
    assert head == "time_s,completed (tps),completed low (tps),completed high (tps)"
    _, mean, low, high = map(float, first.split(","))
    assert low <= mean <= high


def test_a_load_curve_gives_its_intervals_as_csv(open_report: OpenReport, tmp_path: Path) -> None:
    path = downloaded(open_report("sweep"), "load-curve", "csv", tmp_path)
    lines = path.read_text().splitlines()
    assert lines[0] == "series,clients,tps,low,high"
    assert lines[1].split(",")[:2] == ["tpcb-like", "1"]


def test_a_chart_gives_itself_as_png(open_report: OpenReport, tmp_path: Path) -> None:
    path = downloaded(open_report("quartet"), "load-curve", "png", tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_on_paper_the_charts_are_ink_on_white(open_report: OpenReport) -> None:
    page = open_report("sweep", scheme="dark").page
    page.emulate_media(media="print")
    assert page.evaluate(BACKGROUND) == "rgb(255, 255, 255)"
    for figure in page.locator("figure[data-chart]").all():
        expect(figure.locator(".box > svg")).to_be_visible()
        expect(figure.locator(".live")).to_be_hidden()


SHOW_BOXES = """
  display => document.querySelectorAll(".box").forEach((box) => { box.style.display = display; })
"""
# Words that a cell, heading or term shows on two lines. Long names, dates and paths may break.
BROKEN_WORDS = r"""() => {
  const broken = new Set();
  for (const cell of document.querySelectorAll("td, th, dt, h1, h2, h3, caption, .tile")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const whole = document.createRange();
      whole.selectNodeContents(node);
      if (whole.getBoundingClientRect().height < 30) continue; // One line.
      for (const match of node.data.matchAll(/\S+/g)) {
        if (match[0].length > 16 || /[-\/]/.test(match[0])) continue;
        const range = document.createRange();
        range.setStart(node, match.index);
        range.setEnd(node, match.index + match[0].length);
        const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (lines.size > 1) broken.add(match[0]);
      }
    }
  }
  return [...broken];
}"""


@pytest.mark.parametrize("name", [*NAMES, "compare", "long names", "watch"])
def test_no_word_is_broken_inside_a_cell_at_any_width(at_width: AtWidth, name: str) -> None:
    page, words = at_width(name, 1280), {}
    # Drawing the charts at each width would take most of the time.
    page.evaluate(SHOW_BOXES, "none")
    for width in range(360, 1720, 80):
        page.set_viewport_size({"width": width, "height": 800})
        words[width] = page.evaluate(BROKEN_WORDS)
        assert page.evaluate("window.innerWidth") == width
    page.evaluate(SHOW_BOXES, "")
    assert {width: broken for width, broken in words.items() if broken} == {}
