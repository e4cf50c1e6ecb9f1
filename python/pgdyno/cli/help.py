"""`pgdyno help [TOPIC]`: the pages of docs/ in the terminal: a page, a section, or a word."""

from __future__ import annotations

import difflib
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import click

from pgdyno import feature
from pgdyno.cli import output
from pgdyno.cli.headings import Verb
from pgdyno.cli.page_search import (
    SMALL,
    Section,
    in_headings,
    pages,
    ranked,
    stems,
    subject,
    unknown,
)
from pgdyno.errors import SpecError

_SECTIONS_MAX = 2
_MORE_MAX = 6
_LINES_MAX = 16
# The longest names of topics have four words; a question that is pasted may have thousands.
_PHRASE_MAX = 5
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


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
    """Return a page, or the word in the glossary and the sections that say most about a question.

    Raises: SpecError with the nearest topics if the documentation does not have the words.
    """
    plain = asked.rstrip("?!. ")
    if len(plain) >= 3 and plain not in topics() and not ranked(plain):
        begun = [topic for topic in topics() if topic.startswith(plain)]
        plain = begun[0] if len(begun) == 1 else plain
    of_features = [] if plain in topics() else _of_features(plain)
    other = "" if plain in _words() or of_features else other_words().get(plain, "")
    if (page := pages().get(asked) or pages().get(other)) is not None:
        return "\n".join(_shown(section) for section in page)
    if asked.startswith("-") and (options := "\n".join(_options(asked.split()[0]))):
        return options
    parts = list(of_features)
    also = [other_words()[part] for part in _parts(plain) if part in other_words()]
    phrases = [part for part in _parts(plain) if " " in part]
    terms = (word for word in (plain, _short(plain), *also, *phrases) if word in _words())
    if (term := next(terms, None)) is not None:
        parts.append(f"{term}: {_without_targets(_words()[term])}\n")
    # A word that no heading has stands for the word of the documentation.
    best = ranked(plain if in_headings(plain) else other_words().get(plain, plain), also)
    about = [*subject(plain), *(stem for words in also for stem in stems(words))]
    parts += [_shown(section, about) for section in best[:_SECTIONS_MAX]]
    if not parts:
        near = ", ".join(_nearest(asked))
        raise SpecError(
            f"The documentation says nothing about {asked!r}.",
            hint=f"the nearest topics are {near}; pgdyno help lists the pages",
        )
    if any(section.heading == f"## pgdyno {plain}" for section in best):
        parts.append(f"pgdyno {plain} --help has its options.\n")
    for word in unknown(plain):
        alike = difflib.get_close_matches(word, topics(), n=1, cutoff=0.7)
        parts.append(f"No page has the word {word}{f'; nearest: {alike[0]}' if alike else ''}.\n")
    if more := best[_SECTIONS_MAX : _SECTIONS_MAX + _MORE_MAX]:
        lines = "\n".join(f"  pgdyno help {s.page:<14} {s.title}" for s in more)
        parts.append(f"See also:\n{lines}\n")
    return "\n".join(parts)


def _of_features(plain: str) -> list[str]:
    """Return what features say about a question of one word, or a name_like_this."""
    words = dict.fromkeys(word for word in plain.split() if "_" in word)
    words |= dict.fromkeys((plain, _short(plain)))
    said = (say(word) for say in feature.parts("word_help") for word in words)
    return [text for text in said if text]


def _shown(section: Section, about: Sequence[str] = ()) -> str:
    """Return a section for a terminal: no targets of links, no comments.

    Args: about, stems; a long section is cut to the paragraphs that have most of them.
    """
    text = re.sub(r"<!--.*?-->\n?", "", section.text, flags=re.DOTALL)
    text = _without_targets(text).strip()
    if about and text.count("\n") > _LINES_MAX:
        text = f"{_paragraphs(text, about)}\n\n... pgdyno help {section.page} has the rest."
    return f"{section.title} ({section.page})\n\n{text}\n"


def _options(name: str) -> Iterator[str]:
    """Yield what the reference says about an option: the verb, and the lines of its help."""
    lines = re.compile(
        rf"^  (?:-[\w-]+, )*{re.escape(name)}(?![\w-]).*(?:\n {{6,}}.*)*", re.MULTILINE
    )
    for section in pages()["cli"]:
        for entry in lines.finditer(section.text):
            yield f"{section.title}\n\n{entry[0]}\n"


def _parts(question: str) -> list[str]:
    """Return a question and the phrases and words in it, the longest first."""
    words = question.split()
    phrases = [
        " ".join(words[start:end])
        for length in range(min(len(words), _PHRASE_MAX), 0, -1)
        for start in range(len(words) - length + 1)
        for end in [start + length]
    ]
    return [question, _short(question), *(phrase for phrase in phrases if phrase)]


def _short(question: str) -> str:
    return " ".join(word for word in question.split() if not SMALL.fullmatch(word))


def _nearest(asked: str) -> list[str]:
    """Return three topics that are spelled alike, or that have a word of the question."""
    every = [*topics(), *other_words()]
    near = [topic for topic in every if topic.startswith(asked)][:2]
    near += difflib.get_close_matches(asked, every, n=3, cutoff=0.5)
    for word in asked.split():
        near += difflib.get_close_matches(word, every, n=2)
    return list(dict.fromkeys(near))[:3] or ["glossary", "tutorial", "index"]


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


def _paragraphs(text: str, words: Sequence[str]) -> str:
    """Return the paragraphs that have most of the words, in their order, cut to a part of a screen.

    A row of a long table is a paragraph.
    """
    parts = [
        piece
        for part in re.split(r"\n\n+", text)
        for piece in (part.splitlines() if part.startswith("|") else [part])
    ]
    hits = {part: len(set(words).intersection(stems(part))) for part in parts}
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


_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_RULE = re.compile(r"\|[-|: ]+$")
# A blank at which no line ends.
_HARD = "\xa0"


def for_terminal(text: str, width: int) -> str:
    """Return a page without the marks of Markdown, in lines of at most `width` columns.

    Commands, outputs and lines that begin with blanks stay as they are. A row of a table becomes a
    paragraph: "first cell: heading: second cell; heading: third cell".
    """
    lines: list[str] = []
    block: list[str] = []
    is_code = False
    for line in (*text.splitlines(), ""):
        is_mark = line.startswith("```")
        if block and (is_mark or not _belongs(line, block[0])):
            lines += _table(block, width) if block[0].startswith("|") else _filled(block, width)
            block = []
        if is_mark:
            is_code = not is_code
        elif is_code or not line.strip() or (line.startswith(" ") and not block):
            lines.append(line)
        else:
            block.append(line)
    return "\n".join(lines).strip("\n")


def _belongs(line: str, first: str) -> bool:
    """Return whether a line goes on with the paragraph, item or table that begins with `first`."""
    if not line.strip() or line.startswith("|") != first.startswith("|") or _ITEM.match(line):
        return False
    return not line.startswith(" ") or _ITEM.match(first) is not None


def _filled(block: list[str], width: int) -> list[str]:
    item = _ITEM.match(block[0])
    return _wrapped(" ".join(line.strip() for line in block), width, len(item[0]) if item else 0)


def _table(block: list[str], width: int) -> Iterator[str]:
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in block]
    has_head = len(block) > 1 and _RULE.match(block[1]) is not None
    heads = rows[0] if has_head and len(rows[0]) > 2 else []
    for line, row in zip(block, rows, strict=True):
        if _RULE.match(line) or row is heads:
            continue
        first, *others = row
        named = heads[1:] + [""] * len(others)
        said = [f"{n}: {cell}" if n else cell for n, cell in zip(named, others, strict=False)]
        yield from _wrapped(": ".join(filter(None, (first, "; ".join(said)))), width, 4)


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    """Return lines; a command between backquotes stays in one line, so that it can be copied."""
    text = text.replace("**", "").replace("\\|", "|")
    text = re.sub(r"`[^`]+`", lambda span: span[0].replace(" ", _HARD), text)
    lines = textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace(_HARD, " ") for line in lines]
