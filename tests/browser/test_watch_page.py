"""The page of a watch in a real browser: quiet, offline, folded charts drawn when unfolded."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import OpenReport
from tests.browser.test_report_page import INK, OVERFLOW


def test_the_page_is_quiet_and_asks_nothing_of_a_network(open_report: OpenReport) -> None:
    opened = open_report("watch")
    expect(opened.page.locator("h1.verdict")).to_contain_text("1,902 tps")
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:"))] == []


def test_a_folded_chart_is_drawn_when_it_is_unfolded_and_follows_the_zoom(
    open_report: OpenReport,
) -> None:
    page = open_report("watch").page
    expect(page.locator("#time .charts > figure canvas").first).to_be_visible()
    folded = page.locator("details.more").first
    expect(folded.locator("canvas")).to_have_count(0)
    folded.locator("summary").click()
    expect(folded.locator("canvas")).to_have_count(2)
    ink = folded.locator("figure[data-chart]").first.evaluate(INK)
    assert ink["share"] > 0.001
    chart = page.locator("#time .charts > figure .live").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2)
    page.mouse.up()
    expect(page.locator("html.zoomed")).to_have_count(1)
    page.get_by_role("button", name="show all").click()
    expect(page.locator("html.zoomed")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_runs_over_the_edge_of_a_phone(open_report: OpenReport, scheme: str) -> None:
    opened = open_report("watch", (390, 844), scheme=scheme)
    opened.page.locator("details.more").first.locator("summary").click()
    assert opened.page.evaluate(OVERFLOW) <= 0
    assert opened.complaints == []


def test_without_a_script_every_chart_is_there(open_report: OpenReport) -> None:
    page = open_report("watch", javascript=False).page
    expect(page.locator("#time .charts > figure svg").first).to_be_visible()
    folded = page.locator("details.more").first
    folded.locator("summary").click()
    expect(folded.locator("figure svg").first).to_be_visible()
