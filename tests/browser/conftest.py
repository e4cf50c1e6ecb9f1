"""One Chromium for the tests of a process, and a report opened in it as a file."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    ViewportSize,
    sync_playwright,
)
from tests.report.compare_examples import compared, with_long_names
from tests.report.examples import EXAMPLES
from tests.watch.examples import watched

from pgdyno.report.compare_page import compare_page
from pgdyno.report.html import render
from pgdyno.report.watch_page import watch_page

CHROMIUM = Path(os.environ.get("PGDYNO_CHROMIUM", "/usr/bin/chromium"))
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

OpenReport = Callable[..., "OpenedReport"]
AtWidth = Callable[[str, int], Page]
# Charts follow a new width in the next frame.
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class OpenedReport:
    """A page, with its error messages and its network requests."""

    def __init__(self, context: BrowserContext, path: Path) -> None:
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self._note(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        context.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def _note(self, text: str) -> None:
        # This advice of Chromium to tests that read a canvas twice is not an error of the page.
        if not text.startswith("Canvas2D: Multiple readback"):
            self.complaints.append(text)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_report(browser: Browser, tmp_path: Path) -> Iterator[OpenReport]:
    """Open an example by name, with a window size, a colour scheme, with or without JavaScript."""
    contexts: list[BrowserContext] = []

    def opener(
        name: str,
        size: tuple[int, int] = (1280, 720),
        *,
        scheme: str = "light",
        javascript: bool = True,
    ) -> OpenedReport:
        path = tmp_path / f"{name}.html"
        page = _page(name)
        path.write_text(page)
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=javascript,
        )
        contexts.append(context)
        return OpenedReport(context, path)

    yield opener
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def at_width(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AtWidth]:
    """Show an example by name at a width: opened once, for tests that only look at it."""
    folder = tmp_path_factory.mktemp("pages")
    context = browser.new_context()
    pages: dict[str, Page] = {}

    def show(name: str, width: int) -> Page:
        size: ViewportSize = {"width": width, "height": 800}
        if name not in pages:
            path = folder / f"{name}.html"
            path.write_text(_page(name))
            pages[name] = context.new_page()
            pages[name].set_viewport_size(size)
            pages[name].goto(path.as_uri())
        # Chromium draws a page in the background only once a second.
        pages[name].bring_to_front()
        pages[name].set_viewport_size(size)
        pages[name].evaluate(TWO_FRAMES)
        return pages[name]

    yield show
    context.close()


@functools.cache
def _page(name: str) -> str:
    """Return the page of an example, of a comparison, or of a watch."""
    if name == "compare":
        return compare_page(compared())
    if name == "long names":
        return compare_page(with_long_names())
    if name == "watch":
        return watch_page(watched())
    return render(EXAMPLES[name]())
