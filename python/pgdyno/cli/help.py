"""`pgdyno help [TOPIC]`: the pages of docs/ in the terminal: a page, a section, or a word."""

from __future__ import annotations

import difflib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

from pgdyno.cli import output
from pgdyno.cli.headings import Verb
from pgdyno.errors import SpecError

_SECTIONS_MAX = 2
_MORE_MAX = 6
# Pages that answer questions come before pages that list options.
_LAST = ("cli", "errors", "prove-summary", "performance", "adding")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: its heading, and the lines below it up to the next heading."""

    page: str
    heading: str
    text: str

    def shown(self) -> str:
        """Return the section for a terminal: no targets of links, no comments."""
        text = re.sub(r"<!--.*?-->\n?", "", self.text, flags=re.DOTALL)
        return f"{self.title} ({self.page})\n\n{_without_targets(text).strip()}\n"

    @property
    def title(self) -> str:
        """The heading without its marks."""
        return self.heading.lstrip("# ")


@click.command("help", cls=Verb, short_help="Explain a word, the method or an option.")
@click.argument("topic", nargs=-1)
def command(topic: tuple[str, ...]) -> int:
    """Print a page of the documentation, or what it says about a word; without TOPIC, list pages.

    TOPIC is the name of a page (method, glossary, tuning), or words of a question, such as noise,
    valid, knee or likeness.
    """
    asked = " ".join(topic).strip().lower()
    text = _contents() if not asked else answer_to(asked)
    if sys.stdout.isatty():
        click.echo_via_pager(text)
    else:
        output.data(text.rstrip())
    return 0


def topics() -> list[str]:
    """Return the names of the pages and the words of the glossary, for completion."""
    return sorted({*pages(), *_words()})


def answer_to(asked: str) -> str:
    """Return a page, or the word in the glossary and the sections that say most about it.

    Raises: SpecError with the nearest topics if the documentation does not have the words.
    """
    if (page := pages().get(asked)) is not None:
        return "\n".join(section.shown() for section in page)
    parts = []
    if (meaning := _words().get(asked)) is not None:
        parts.append(f"{asked}: {_without_targets(meaning)}\n")
    ranked = _ranked(asked)
    parts += [section.shown() for section in ranked[:_SECTIONS_MAX]]
    if not parts:
        near = difflib.get_close_matches(asked, topics(), n=3) or sorted(pages())
        raise SpecError(
            f"The documentation says nothing about {asked!r}.",
            hint=f"pgdyno help lists the pages; the nearest are {', '.join(near)}",
        )
    if more := ranked[_SECTIONS_MAX : _SECTIONS_MAX + _MORE_MAX]:
        also = "\n".join(f"  pgdyno help {s.page:<14} {s.title}" for s in more)
        parts.append(f"See also:\n{also}\n")
    return "\n".join(parts)


@cache
def pages() -> Mapping[str, tuple[Section, ...]]:
    """Return name -> sections of every page: those of the wheel, or of docs/ in a source tree."""
    package = Path(__file__).parents[1]
    folders = (package / "docs", package.parents[1] / "docs")
    folder = next((folder for folder in folders if (folder / "glossary.md").exists()), None)
    if folder is None:
        raise SpecError(
            f"This installation has no documentation: {folders[0]} does not exist.",
            hint="install pgdyno again; docs/ of its sources has the same pages",
        )
    return {
        path.stem: tuple(_sections(path.stem, path.read_text(encoding="utf-8")))
        for path in sorted(folder.glob("*.md"))
    }


def _sections(page: str, text: str) -> Iterator[Section]:
    for part in re.split(r"^(?=#{1,4} \S)", text, flags=re.MULTILINE):
        heading, _, rest = part.partition("\n")
        if heading.startswith("#") and rest.strip():
            yield Section(page, heading, rest)


@cache
def _words() -> Mapping[str, str]:
    """Return term -> meaning: the rows of the tables of the glossary."""
    rows = (
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for section in pages().get("glossary", ())
        for line in section.text.splitlines()
        if line.startswith("| ")
    )
    return {row[0].lower(): row[1] for row in rows if len(row) > 1 and row[0] != "term"}


def _ranked(asked: str) -> list[Section]:
    """Return the sections that have all the words, those with the words in the heading first."""
    words = [re.compile(rf"\b{re.escape(word)}", re.IGNORECASE) for word in asked.split()]
    counts: Counter[Section] = Counter()
    for page, sections in pages().items():
        for section in sections:
            inside = min(len(word.findall(section.text)) for word in words)
            if all(word.search(section.heading) for word in words):
                inside += 100
            if inside:
                counts[section] = inside * (1 if page in _LAST else 10)
    return [section for section, _ in counts.most_common()]


def _without_targets(text: str) -> str:
    return _LINK.sub(r"\1", text)


def _contents() -> str:
    lines = [
        "pgdyno help PAGE prints a page; pgdyno help WORD what the pages say about a word.",
        "",
    ]
    lines += [f"  {page:<21} {sections[0].heading[2:]}" for page, sections in pages().items()]
    return "\n".join(lines)
