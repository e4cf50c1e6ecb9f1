"""`pgdyno help [TOPIC]`: the pages of docs/ in the terminal: a page, a section, or a word."""

from __future__ import annotations

import difflib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

from pgdyno.cli import output
from pgdyno.cli.headings import Verb
from pgdyno.cli.page_text import for_terminal
from pgdyno.errors import SpecError

_SECTIONS_MAX = 2
_MORE_MAX = 6
_LINES_MAX = 16
# Words of a question that say nothing about its subject.
_SMALL = re.compile(
    r"an?|and|are|be|can|do|does|for|how|i|in|is|it|me|my|of|on|or|our|should|so|that|the|there|this"
    r"|to|wh\w+|with|your"
)
# Pages that answer questions come before pages that list options.
_LAST = ("cli", "errors", "prove-summary", "performance", "adding")
_TABLE = re.compile(r"^\|.*$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: its heading, and the lines below it up to the next heading."""

    page: str
    heading: str
    text: str

    def shown(self, about: Sequence[str] = ()) -> str:
        """Return the section for a terminal: no targets of links, no comments.

        Args: about, words; a long section is cut to the paragraphs that have one of them.
        """
        text = re.sub(r"<!--.*?-->\n?", "", self.text, flags=re.DOTALL)
        text = _without_targets(text).strip()
        if about and text.count("\n") > _LINES_MAX:
            text = f"{_paragraphs(text, about)}\n\n... pgdyno help {self.page} has the rest."
        return f"{self.title} ({self.page})\n\n{text}\n"

    @property
    def title(self) -> str:
        """The heading without its marks."""
        return self.heading.lstrip("# ")


@click.command(
    "help",
    cls=Verb,
    short_help="Explain a word, the method or an option.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("topic", nargs=-1)
def command(topic: tuple[str, ...]) -> int:
    """Print a page of the documentation, or what it says about a word; without TOPIC, list pages.

    TOPIC is the name of a page (method, glossary, tuning), an option (--check), or words of a
    question, such as noise, valid, knee or likeness.
    """
    asked = " ".join(topic).strip()
    asked = asked if asked.startswith("-") else asked.lower()
    text = _contents() if not asked else for_terminal(answer_to(asked), output.width())
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
    means = _means(asked)
    if (page := pages().get(means)) is not None:
        return "\n".join(section.shown() for section in page)
    if asked.startswith("-") and (options := "\n".join(_options(asked.split()[0]))):
        return options
    parts = []
    if (meaning := _words().get(means)) is not None:
        parts.append(f"{means}: {_without_targets(meaning)}\n")
    words = [word for word in means.split() if not _SMALL.fullmatch(word)] or means.split()
    ranked = _ranked(words)
    parts += [section.shown(about=words) for section in ranked[:_SECTIONS_MAX]]
    if not parts:
        near = ", ".join(_nearest(asked))
        raise SpecError(
            f"The documentation says nothing about {asked!r}.",
            hint=f"the nearest topics are {near}; pgdyno help lists the pages",
        )
    if any(section.heading == f"## pgdyno {means}" for section in ranked):
        parts.append(f"pgdyno {means} --help has its options.\n")
    if more := ranked[_SECTIONS_MAX : _SECTIONS_MAX + _MORE_MAX]:
        also = "\n".join(f"  pgdyno help {s.page:<14} {s.title}" for s in more)
        parts.append(f"See also:\n{also}\n")
    return "\n".join(parts)


def _options(name: str) -> Iterator[str]:
    """Yield what the reference says about an option: the verb, and the lines of its help."""
    lines = re.compile(
        rf"^  (?:-[\w-]+, )*{re.escape(name)}(?![\w-]).*(?:\n {{6,}}.*)*", re.MULTILINE
    )
    for section in pages()["cli"]:
        for entry in lines.finditer(section.text):
            yield f"{section.title}\n\n{entry[0]}\n"


def _means(asked: str) -> str:
    """Return the words of the documentation for what a user typed."""
    plain = asked.rstrip("?!. ")
    short = " ".join(word for word in plain.split() if not _SMALL.fullmatch(word))
    known = (words for words in (plain, short) if words in _words())
    others = (other_words()[words] for words in (plain, short) if words in other_words())
    return next(known, None) or next(others, plain)


def _nearest(asked: str) -> list[str]:
    """Return three topics that are spelled alike, or that have a word of the question."""
    every = [*topics(), *other_words()]
    near = difflib.get_close_matches(asked, every, n=3, cutoff=0.5)
    for word in asked.split():
        near += difflib.get_close_matches(word, every, n=2)
    return list(dict.fromkeys(near))[:3] or ["glossary", "tutorial", "index"]


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
    return {row[0].lower(): row[1] for row in _rows() if row[0] != "term" and len(row) == 3}


@cache
def other_words() -> Mapping[str, str]:
    """Return a word that people type -> the word of the documentation: its last table."""
    return {
        word.strip(): row[1]
        for row in _rows()
        if len(row) == 2
        for word in row[0].lower().split(",")
    }


def _rows() -> Iterator[list[str]]:
    for section in pages().get("glossary", ()):
        for line in section.text.splitlines():
            if line.startswith("| "):
                yield [cell.strip() for cell in line.strip("| ").split(" | ")]


def _ranked(words: Sequence[str]) -> list[Section]:
    """Return the sections that have all the words, those that say most about them first."""
    patterns = [_pattern(word) for word in words]
    scores: Counter[Section] = Counter()
    for page, sections in pages().items():
        for section in sections if page != "glossary" else ():
            # A row of a table explains less than a sentence.
            plain = _TABLE.sub("", section.text)
            inside = min(
                len(pattern.findall(section.text)) + 2 * len(pattern.findall(plain))
                for pattern in patterns
            )
            score = inside / (5 + section.text.count("\n")) ** 0.5
            score *= 1 if page in _LAST else 10
            if all(pattern.search(section.heading) for pattern in patterns):
                # A page about the words comes before a part of another page.
                score += (3000 if section.heading.startswith("# ") else 1000) / len(section.heading)
            if section.heading == f"## pgdyno {' '.join(words)}":
                score += 1000
            if score:
                scores[section] = score
    return [section for section, _ in scores.most_common()]


def _pattern(word: str) -> re.Pattern[str]:
    """Return what finds a word, the beginning of a longer one, or an option."""
    end = r"(?![\w-])" if word.startswith("-") or len(word) < 4 else ""
    return re.compile(rf"(?<![\w-]){re.escape(word)}{end}", re.IGNORECASE)


def _paragraphs(text: str, words: Sequence[str]) -> str:
    """Return the paragraphs that have most of the words, in their order, cut to a part of a screen.

    A row of a long table is a paragraph.
    """
    parts = [
        piece
        for part in re.split(r"\n\n+", text)
        for piece in (part.splitlines() if part.startswith("|") else [part])
    ]
    patterns = [_pattern(word) for word in words]
    hits = {part: sum(bool(pattern.search(part)) for pattern in patterns) for part in parts}
    best = max(hits.values())
    kept: list[str] = []
    for part in parts:
        if hits[part] == best and (not kept or len("\n".join(kept).splitlines()) < _LINES_MAX // 2):
            kept += part.splitlines()[:_LINES_MAX]
            kept += [] if part.startswith("|") else [""]
    return "\n".join(kept).strip()


def _without_targets(text: str) -> str:
    return _LINK.sub(r"\1", text)


def _contents() -> str:
    lines = [
        "pgdyno help PAGE prints a page; pgdyno help WORD what the pages say about a word.",
        "",
    ]
    lines += [f"  {page:<21} {sections[0].heading[2:]}" for page, sections in pages().items()]
    return "\n".join(lines)
