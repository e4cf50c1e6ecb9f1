"""One Chromium for the tests of a process, and a report opened in it as a file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Page,
    Request,
    ViewportSize,
)
from tests.features.watch.examples import watch_page, watched
from tests.report.compare_examples import compared, with_long_names
from tests.report.examples import EXAMPLES

from pgdyno.designs import page_of

OpenReport = Callable[..., "OpenedReport"]
OpenOnce = Callable[..., "OpenedReport"]
AtWidth = Callable[[str, int], Page]
# Charts follow a new width in the next frame.
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class OpenedReport:
    """A page, with its error messages and its network requests."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._heard = {"console": self._note, "pageerror": self._fail, "request": self._ask}
        for event, listener in self._heard.items():
            page.on(event, listener)  # type: ignore[call-overload]
        page.goto(path.as_uri())

    def leave(self) -> None:
        """Make the page as a new one, for the next report."""
        for event, listener in self._heard.items():
            self.page.remove_listener(event, listener)
        self.page.evaluate("localStorage.clear()")
        self.page.emulate_media(media="null")
        self.page.mouse.move(0, 0)

    def _note(self, message: ConsoleMessage) -> None:
        # This advice of Chromium to tests that read a canvas twice is not an error of the page.
        if not message.text.startswith("Canvas2D: Multiple readback"):
            self.complaints.append(message.text)

    def _fail(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _ask(self, request: Request) -> None:
        self.requests.append(request.url)


@pytest.fixture(scope="session")
def empty_page(browser: Browser) -> Callable[[str, bool], Page]:
    """Return the page of a colour scheme, with or without JavaScript.

    A new window takes twice the CPU time of a report in it.
    """

    @functools.cache
    def page(scheme: str, javascript: bool) -> Page:
        context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=javascript,
        )
        return context.new_page()

    return page


@pytest.fixture
def open_report(empty_page: Callable[[str, bool], Page], tmp_path: Path) -> Iterator[OpenReport]:
    """Open an example by name, with a window size, a colour scheme, with or without JavaScript.

    The next report replaces it.
    """
    opened: list[OpenedReport] = []

    def opener(
        name: str,
        size: tuple[int, int] = (1280, 720),
        *,
        scheme: str = "light",
        javascript: bool = True,
    ) -> OpenedReport:
        assert not opened
        path = tmp_path / f"{name}.html"
        path.write_text(_page(name))
        page = empty_page(scheme, javascript)
        page.bring_to_front()
        page.set_viewport_size({"width": size[0], "height": size[1]})
        opened.append(OpenedReport(page, path))
        return opened[0]

    yield opener
    for report in opened:
        report.leave()


@pytest.fixture(scope="session")
def opened_once(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenOnce]:
    """Show an example by name, for tests that only look at it."""
    folder = tmp_path_factory.mktemp("pages")
    context = browser.new_context()
    reports: dict[str, OpenedReport] = {}

    def show(name: str, width: int = 1280) -> OpenedReport:
        size: ViewportSize = {"width": width, "height": 800}
        if name not in reports:
            path = folder / f"{name}.html"
            path.write_text(_page(name))
            page = context.new_page()
            page.set_viewport_size(size)
            reports[name] = OpenedReport(page, path)
        page = reports[name].page
        # Chromium draws a page in the background only once a second.
        page.bring_to_front()
        page.set_viewport_size(size)
        page.evaluate(TWO_FRAMES)
        return reports[name]

    yield show
    context.close()


@pytest.fixture
def at_width(opened_once: OpenOnce) -> AtWidth:
    """Show an example by name at a width."""
    return lambda name, width: opened_once(name, width).page


@functools.cache
def _page(name: str) -> str:
    """Return the page of an example, of a comparison, or of a watch."""
    if name == "compare":
        return page_of(compared())
    if name == "long names":
        return page_of(with_long_names())
    if name == "watch":
        return watch_page(watched())
    return page_of(EXAMPLES[name]())
