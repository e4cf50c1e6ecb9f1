"""Every kind of page in a real browser: light and dark, narrow and wide, without errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.conftest import TWO_FRAMES, OpenedReport
from tests.browser.test_report_page import BACKGROUND, OVERFLOW
from tests.features.crash.records import crash, losing
from tests.features.crash.test_document import stored
from tests.features.watch.examples import DOCUMENT, findings, watch_page, watched
from tests.outputs.rendered import BUILT

from pgdyno.analysis.findings import ExperimentFindings, Panel, Series
from pgdyno.designs import DESIGNS, page_of
from pgdyno.features.crash.blocks import crash_blocks
from pgdyno.features.crash.document import document_of
from pgdyno.report.html import answer_page

NO_WAITS = Panel("waits", "Active sessions", "sessions", (0.5,), (Series("CPU", (0.0,)),))


def of_answer(make: Callable[[], ExperimentFindings], _folder: Path) -> str:
    return page_of(make())


def crashed(folder: Path) -> str:
    lost = crash(3, answered_ns=None, recovery_error="no")
    document = document_of(stored(folder, crash(1), losing(2), lost), is_complete=True)
    return answer_page(crash_blocks(document))


def watched_without_waits(_folder: Path) -> str:
    document = {**DOCUMENT, "waits": [], "statements": []}
    return watch_page(findings(document=document, panels=(NO_WAITS,)))


PAGES: dict[str, Callable[[Path], str]] = {
    **{name: partial(of_answer, make) for name, make in BUILT.items()},
    "watch": lambda _: watch_page(watched()),
    "watch without waits": watched_without_waits,
    "watch without samples": lambda _: watch_page(findings(panels=())),
    "crash": crashed,
    "crash without crashes": lambda folder: answer_page(
        crash_blocks(document_of(stored(folder), is_complete=False))
    ),
}


# Titles of which a part is not on the page.
CUT_TITLES = """() => {
  document.querySelectorAll("details").forEach(part => { part.open = true; });
  return [...document.querySelectorAll("h1, h2, h3")]
  .filter(title => title.getBoundingClientRect().right > innerWidth)
  .map(title => title.textContent);
}"""


def test_every_design_has_a_page_here() -> None:
    assert DESIGNS.keys() <= {make().kind for make in BUILT.values()} | {"factorial"}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_quiet_and_fits_in_both_schemes_and_widths(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "page.html"
    path.write_text(PAGES[name](tmp_path / "store"))
    context = browser.new_context()
    page = context.new_page()
    report = OpenedReport(page, path)
    colours = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            page.evaluate(TWO_FRAMES)
            assert page.evaluate(OVERFLOW) <= 0, (scheme, width)
            assert page.evaluate(CUT_TITLES) == [], (scheme, width)
        colours.add(page.evaluate(BACKGROUND))
    page.locator(".toggle").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert len(colours) == 2
    assert report.complaints == []
    context.close()


# Of a scroll container: whether it hides a part, and the widths of its shadows.
CUE = """box => {
  const style = getComputedStyle(box);
  return [box.scrollWidth > box.clientWidth, style.backgroundAttachment, style.backgroundImage];
}"""


def test_a_table_that_is_wider_than_the_phone_shows_that_it_scrolls(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(PAGES["bench"](tmp_path))
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(path.as_uri())
    boxes = [box.evaluate(CUE) for box in page.locator(".scroll").all()]
    wide = [cue for cue in boxes if cue[0]]
    assert wide
    for _, attachment, image in wide:
        assert "local" in attachment
        assert "scroll" in attachment
        assert image.count("gradient") == 4
    context.close()
