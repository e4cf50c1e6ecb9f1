"""Names, texts and notes that others chose are text on a page, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from tests.browser.conftest import OpenedReport
from tests.features.crash.records import crash, losing
from tests.features.crash.test_document import stored
from tests.features.watch.examples import DOCUMENT, findings, watch_page
from tests.outputs.rendered import BUILT

from pgdyno.designs import blocks_of, page_of
from pgdyno.features.crash.blocks import crash_blocks
from pgdyno.features.crash.document import document_of
from pgdyno.report.html import answer_page
from pgdyno.report.markdown import answer_markdown
from pgdyno.report.notebook import answer_fragment

# It would leave an attribute, a tag, a script, a style, a comment and a template.
HOSTILE = (
    'x"\'><img src=x onerror="window.slipped=1"><script>window.slipped=1</script></script>'
    "</style></title></svg><svg onload='window.slipped=1'>--><!--${window.slipped=1}{{ 7*7 }}"
    "<a href='javascript:window.slipped=1' id=slipped>a</a>\\u003cscript\u2028\u202e\x00\x1b[31m"
)
CONTROLS = ("\x00", "\x1b", "\u202e", "\u2028")
NOT_SHOWN = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
# What selects among words of pgdyno's own.
OWN_WORDS = {
    *("kind", "verb", "key", "metric", "unit", "scope", "wait", "verdict", "look", "css", "class"),
    *(
        "version",
        "wait_event",
        "format",
        "design",
        "role",
        "reference",
        "decided_by",
        "quantity",
        "area",
    ),
}


def poisoned(node: Any) -> Any:
    """Return a tree in which each text that somebody else may choose has a hostile end."""
    if isinstance(node, str):
        return node + HOSTILE if any(sign in node for sign in " ._@/=") else node
    if is_dataclass(node) and not isinstance(node, type):
        changed = {
            field.name: poisoned(getattr(node, field.name))
            for field in fields(node)
            if field.init and field.name not in OWN_WORDS
        }
        return replace(node, **changed)
    if isinstance(node, Mapping):
        return {key: node[key] if key in OWN_WORDS else poisoned(node[key]) for key in node}
    if isinstance(node, tuple | list):
        return type(node)(map(poisoned, node)) if not hasattr(node, "_fields") else node
    return node


def watched(_: Path) -> str:
    return watch_page(findings(document=poisoned(DOCUMENT)))


def crashed(folder: Path) -> str:
    lost = crash(3, answered_ns=None, recovery_error="no such file")
    document = document_of(stored(folder, crash(1), losing(2), lost), is_complete=True)
    return answer_page(crash_blocks(poisoned(document)))


PAGES: dict[str, Callable[[Path], str]] = {
    **{
        name: lambda _, make=make: page_of(poisoned(make()))  # type: ignore[misc]
        for name, make in BUILT.items()
        if name in ("bench", "sweep", "compare", "matrix", "tune", "tpcc", "plans")
    },
    "watch": watched,
    "crash": crashed,
}


class Tags(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.strange: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag or an attribute that no page of pgdyno has."""
        names = {name for name, _ in attrs}
        if tag in ("img", "iframe") or any(name.startswith("on") for name in names):
            self.strange.append(self.get_starttag_text() or tag)
        if ("id", "slipped") in attrs:
            self.strange.append("id=slipped")


@pytest.mark.parametrize("name", PAGES)
def test_what_others_wrote_is_text_on_a_page(browser: Browser, tmp_path: Path, name: str) -> None:
    text = PAGES[name](tmp_path / "store")
    assert "onerror=" in text, "the page shows none of the hostile texts"
    assert [sign for sign in CONTROLS if sign in NOT_SHOWN.sub("", text)] == []
    tags = Tags()
    tags.feed(text)
    assert tags.strange == []
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    report = OpenedReport(page, path)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
    page.keyboard.press("Tab")
    assert page.evaluate("window.slipped") is None
    assert page.locator("#slipped").count() == 0
    assert report.complaints == []
    assert [url for url in report.requests if not url.startswith(("file:", "data:"))] == []
    context.close()


@pytest.mark.parametrize("name", ["bench", "compare", "tune"])
def test_what_others_wrote_is_no_tag_in_markdown(name: str) -> None:
    text = answer_markdown(blocks_of(poisoned(BUILT[name]())), stem="report")
    assert "onerror" in text
    # A fence ends at a line of as many backticks, so what is inside stays text.
    text = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "<img" not in text.replace("\\<img", "").replace("&lt;img", "")
    assert "<script" not in text.replace("\\<script", "").replace("&lt;script", "")
    assert [sign for sign in CONTROLS if sign in text] == []


@pytest.mark.parametrize("name", BUILT)
def test_what_others_wrote_is_text_in_a_notebook(name: str) -> None:
    text = answer_fragment(blocks_of(poisoned(BUILT[name]())))
    assert "onerror=" in text
    assert [sign for sign in CONTROLS if sign in NOT_SHOWN.sub("", text)] == []
    tags = Tags()
    tags.feed(text)
    assert tags.strange == []
    assert "<script" not in text
