"""The site is docs/: every page is in its navigation, and every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.tidy.source import ROOT

DOCS = ROOT / "docs"
_OUTSIDE = re.compile(r"(https?|mailto|data|javascript):")


class Links(HTMLParser):
    """The targets of a page, and the places that can be targets."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes of an element."""
        values = dict(attrs)
        target = values.get("href") or values.get("src")
        if tag in ("a", "img", "link", "script") and target:
            self.targets.append(target)
        if place := values.get("id"):
            self.places.add(place)


def dead_links(site: Path) -> Iterator[str]:
    """Yield each link of a built site that leads nowhere."""
    pages = {path: Links(path) for path in site.rglob("*.html")}
    for page, links in pages.items():
        for target in links.targets:
            path, _, place = target.partition("#")
            if _OUTSIDE.match(target) or path.startswith("/"):
                continue
            reached = (page.parent / path).resolve() if path else page
            reached = reached / "index.html" if reached.is_dir() else reached
            is_here = reached.is_relative_to(site) and reached.exists()
            if not is_here or (reached in pages and place not in {"", *pages[reached].places}):
                yield f"{page.name}: {target}"


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert sorted(listed) == sorted(path.name for path in DOCS.glob("*.md"))


def test_a_page_links_out_of_the_documentation_only_to_specs() -> None:
    leading_out = re.compile(r"\]\(\.\./(?!examples/\w+\.(?:toml|conf))[^)]*\)")
    for page in DOCS.glob("*.md"):
        assert not leading_out.findall(page.read_text()), page.name


@pytest.mark.slow
def test_every_link_of_the_built_site_leads_somewhere_and_the_search_is_in_it() -> None:
    subprocess.run([ROOT / "scripts/site"], check=True, capture_output=True)
    site = ROOT / "site"
    assert sorted(dead_links(site)) == []
    assert "synchronous_commit" in (site / "search.json").read_text()
    # Nothing is loaded from another host.
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|link)[^>]* (?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert [url for url in loaded if "canonical" not in url] == [], page.name
