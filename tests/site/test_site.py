"""The site is docs/: pages by question, every link leads somewhere, the search needs no network."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, expect
from tests.fixtures.networks import without_network
from tests.tidy.source import ROOT

DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text()
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
    listed = re.findall(r": ([\w-]+\.md)$", CONFIG, re.M)
    assert sorted(listed) == sorted(path.name for path in DOCS.glob("*.md"))


def test_the_navigation_has_a_page_for_each_question() -> None:
    titles = dict(re.findall(r"^      - (.*\?): ([\w-]+\.md)$", CONFIG, re.M))
    assert titles.keys() >= {
        *("Should I upgrade?", "Which disk?", "How many connections?", "Why is it slow now?"),
        *("Is this setting worth it?", "What does a commit survive?"),
        "Did last night's build get slower?",
    }
    for title, name in titles.items():
        text = (DOCS / name).read_text()
        assert text.startswith(f"# {title}\n")
        assert "\npgdyno " in text, f"{name} has no command"
        assert f"({name})" in (DOCS / "index.md").read_text()


def test_a_page_links_out_of_the_documentation_only_to_specs() -> None:
    leading_out = re.compile(r"\]\(\.\./(?!examples/\w+\.(?:toml|conf))[^)]*\)")
    for page in DOCS.glob("*.md"):
        assert not leading_out.findall(page.read_text()), page.name


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site from a copy of its sources, without network where a test may take it away."""
    copy = tmp_path_factory.mktemp("clone")
    for folder in ("docs", "examples"):
        shutil.copytree(ROOT / folder, copy / folder)
    shutil.copytree(ROOT / "scripts", copy / "scripts")
    shutil.copy(ROOT / "mkdocs.yml", copy)
    (copy / ".tools").symlink_to(ROOT / ".tools")
    argv = [*without_network(), copy / "scripts/site"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "site"


def test_every_link_of_the_built_site_leads_somewhere(site: Path) -> None:
    assert sorted(dead_links(site)) == []
    # Nothing is loaded from another host.
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|link)[^>]* (?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert [url for url in loaded if "canonical" not in url] == [], page.name


def test_a_broken_link_in_a_page_is_found(site: Path) -> None:
    page = site / "glossary.html"
    page.write_text(page.read_text().replace("</body>", '<a href="nowhere.html">x</a></body>'))
    assert list(dead_links(site)) == ["glossary.html: nowhere.html"]


@pytest.mark.browser
@pytest.mark.parametrize("how", ["file", "http"])
def test_the_search_finds_a_word_without_network(how: str, site: Path, browser: Browser) -> None:
    handler = functools.partial(SilentHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = site.as_uri() if how == "file" else f"http://127.0.0.1:{server.server_port}"
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{base}/index.html")
        page.get_by_role("button", name="Search").first.click()
        # What is typed before the dialog is there would be lost.
        box = page.locator("input:visible:not([type=checkbox])").first
        box.wait_for()
        box.press_sequentially("synchronous_commit", delay=20)
        durability = page.locator("a[href*='durability.html']", has_text=re.compile("commit"))
        durability.first.wait_for(timeout=60_000)
        durability.first.click()
        page.wait_for_url("**/durability.html**")
        page.close()
        server.shutdown()
    assert [url for url in asked if not url.startswith((base, "data:", "blob:"))] == []


# What people type -> the pages of which one must come first.
_QUESTIONS = {
    "why is my database slow": ("slow-now",),
    "is synchronous_commit off safe": ("commit", "durability"),
    "how many connections": ("how-many-connections",),
    "which disk is faster": ("which-disk",),
    "upgrade postgres 15 to 18": ("upgrade",),
    "pgbouncer": ("pooler",),
    "noise": ("glossary", "method"),
    "confidence interval": ("glossary", "method"),
    "pgbench replacement": ("pgbench",),
    "record production workload": ("capture", "own-workload"),
    "is it safe on production": ("safety",),
    "nightly regression ci": ("last-night",),
    "shared_buffers": ("tuning", "settings"),
    "install without network": ("install",),
    "jupyter notebook": ("api",),
    "tpcc": ("tpcc",),
    "HDD": ("which-disk",),
    "idle in transaction": ("slow-now",),
    "WAL": ("durability",),
    "csv": ("api",),
    "replication": ("connections",),
    "vacuum": ("watch",),
    "exit code": ("cli",),
    "deadlock": ("slow-now",),
    "p99": ("glossary",),
    "standard deviation": ("glossary", "method"),
}


@pytest.mark.browser
def test_the_search_answers_questions_in_the_words_of_people(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"{site.as_uri()}/index.html")
    page.get_by_role("button", name="Search").first.click()
    box = page.locator("input:visible:not([type=checkbox])").first
    box.wait_for()
    first = page.locator("a[href*='?h=']").first
    for question, right in _QUESTIONS.items():
        box.fill(question)
        pattern = re.compile(rf"/({'|'.join(right)})\.html")
        expect(first).to_have_attribute("href", pattern, timeout=60_000)
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_its_screen_and_the_browser_reports_no_error(
    width: int, scheme: Literal["light", "dark"], site: Path, browser: Browser
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    reported: list[str] = []
    page.on("console", lambda said: reported.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: reported.append(str(error)))
    backgrounds = set()
    for path in sorted(site.glob("*.html")):
        page.goto(path.as_uri())
        too_wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert too_wide <= 0, path.name
        backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert reported == []
    [background] = backgrounds
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    context.close()


class SilentHandler(http.server.SimpleHTTPRequestHandler):
    """Serves the site without a line for each request."""

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
