"""A page printed by Chromium on A4: each chart is whole, on one sheet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.test_every_page import PAGES

# Points of an A4 sheet, and pixels between its margins of 12 mm.
A4_POINTS = pytest.approx((595.3, 841.9), abs=1)
A4_PIXELS = 703
POINTS_OF_PIXEL = 0.75
MARGIN_POINTS = 34
# Links lead to both ends of each chart, so that the PDF says where these are.
MARK_ENDS = """() => {
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const links = document.createElement("p");
  for (const [number, figure] of figures.entries()) {
    for (const [end, place] of [["top", "afterbegin"], ["end", "beforeend"]]) {
      const mark = `<i id="chart-${number}-${end}" style="display: block; height: 1px"></i>`;
      figure.insertAdjacentHTML(place, mark);
      links.insertAdjacentHTML("beforeend", `<a href="#chart-${number}-${end}">.</a>`);
    }
  }
  document.body.append(links);
  return figures.map((figure) => figure.dataset.chart);
}"""
# The height of each figure, and by how much its picture is wider than the paper.
SIZES = """() => [...document.querySelectorAll("figure[data-chart]")].map((figure) => {
  const picture = figure.querySelector(".box > svg").getBoundingClientRect();
  return [picture.height, picture.width, picture.right - window.innerWidth];
})"""
PLACE = re.compile(rb"/chart-(\d+)-(top|end) \[(\d+) 0 R /XYZ ([\d.]+) ([\d.]+) 0\]")
SHEET = re.compile(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]")


@pytest.mark.parametrize("name", ["bench", "sweep", "compare", "tpcc", "tune", "watch"])
def test_every_chart_is_whole_on_a_sheet_of_a4(browser: Browser, tmp_path: Path, name: str) -> None:
    path = tmp_path / "report.html"
    path.write_text(PAGES[name](tmp_path))
    page = browser.new_page(viewport={"width": A4_PIXELS, "height": 1000})
    page.goto(path.as_uri())
    page.emulate_media(media="print")
    charts = page.evaluate(MARK_ENDS)
    for chart, (height, width, excess) in zip(charts, page.evaluate(SIZES), strict=True):
        assert height > 50, chart
        assert width > 100, chart
        assert excess <= 1, chart
    printed = page.pdf(prefer_css_page_size=True)
    page.close()
    for sheet in SHEET.findall(printed):
        assert tuple(map(float, sheet)) == A4_POINTS
    ends = {
        (int(number), end.decode()): (int(sheet), float(top))
        for number, end, sheet, _, top in PLACE.findall(printed)
    }
    for number, chart in enumerate(charts):
        (sheet_of_top, top), (sheet_of_end, end) = ends[number, "top"], ends[number, "end"]
        assert sheet_of_top == sheet_of_end, f"{chart} is on two sheets"
        assert MARGIN_POINTS < end < top - 50 * POINTS_OF_PIXEL, chart
