"""The pages of docs/ as sections, and the sections that say most about a question."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from pgdyno.errors import SpecError

# Words of a question that say nothing about its subject.
SMALL = re.compile(
    r"an?|and|any|are|at|be|by|can|could|did|do|does|for|from|get|give|go|happens?|has|have|how|i"
    r"|if|in|is|it|its|me|mean|my|of|on|or|our|own|pgdyno|please|postgres|postgresql|press|say|see"
    r"|shall|should|so|support|supported|tell|than|that|the|their|them|then|there|they|this|to|us"
    r"|use|want|was|we|were|wh\w+|will|with|would|you|your"
)
_WORD = re.compile(r"[a-z0-9]\w*|(?<![\w-])-{1,2}[a-z][\w-]*", re.IGNORECASE)
_TABLE = re.compile(r"^\|.*$", re.MULTILINE)
# Pages that answer questions come before pages that list options.
_LESS = {"cli": 0.5, "errors": 0.5} | dict.fromkeys(
    ("own-workload-tried", "prove-summary", "performance", "adding", "examples", "index"), 0.4
)
# How much a word counts in the title of a page and in a heading, against a word of the text.
_IN_TITLE, _IN_HEADING = 4, 6
# As in Okapi BM25 (Robertson and Zaragoza, 2009): how quickly repetition stops to count, and how
# much of the length of a section is divided out.
_SATURATION, _LENGTH_SHARE = 1.5, 0.45


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a page: its heading, and the lines below it up to the next heading."""

    page: str
    heading: str
    text: str
    page_title: str

    @property
    def title(self) -> str:
        """The heading without its marks."""
        return self.heading.lstrip("# ")

    @cached_property
    def counts(self) -> Mapping[str, float]:
        """How often the text has a stem; a row of a table explains half as much as a sentence."""
        counts: Counter[str] = Counter()
        counts.update(stems(self.text))
        counts.update(stems(_TABLE.sub("", self.text)))
        return {stem: count / 2 for stem, count in counts.items()}

    @cached_property
    def weights(self) -> Mapping[str, float]:
        """What each stem counts: in the text, by its length, in the heading and in the title."""
        length = sum(self.counts.values()) / 150
        by_length = 1 - _LENGTH_SHARE + _LENGTH_SHARE * length
        weights = Counter({stem: count / by_length for stem, count in self.counts.items()})
        for text, weight in (
            (self.title, _IN_HEADING),
            (f"{self.page_title} {self.page}", _IN_TITLE),
        ):
            weights.update(dict.fromkeys(stems(text), weight))
        return weights


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
    title = text.partition("\n")[0].lstrip("# ")
    for part in re.split(r"^(?=#{1,4} \S)", text, flags=re.MULTILINE):
        heading, _, rest = part.partition("\n")
        if heading.startswith("#") and rest.strip():
            yield Section(page, heading, rest, title)


def ranked(question: str, also: Sequence[str] = ()) -> list[Section]:
    """Return the sections about a question, those that say most about it first.

    Args: question, as typed; also, what the documentation calls a part of the question.
    A section counts if it has at least half of what the question says: a rare word says more.
    """
    rarity = _rarity()
    asked = [stem for stem in dict.fromkeys(subject(question)) if stem in rarity]
    named = [stem for words in also for stem in stems(words) if stem in rarity]
    if not asked + named:
        return []
    wanted = dict.fromkeys(asked + named)
    scores: dict[Section, float] = {}
    for section in _searched():
        weights = section.weights
        hits = {stem: weights[stem] for stem in wanted if weights.get(stem)}
        share = _share(hits, asked, rarity) if asked else 1.0
        if also:
            share = max(share, 0.9 * max(_share(hits, stems(words), rarity) for words in also))
        if share < 0.5:
            continue
        score = sum(rarity[s] * weight / (weight + _SATURATION) for s, weight in hits.items())
        score *= share * share * _LESS.get(section.page, 1.0)
        scores[section] = score * (1 + _likeness(question, section))
    return sorted(scores, key=lambda section: -scores[section])


def subject(question: str) -> list[str]:
    """Return the stems of a question without its small words, or of all if it has no others."""
    words = [word for word in _WORD.findall(question.lower()) if not SMALL.fullmatch(word)]
    return stems(" ".join(words) or question)


def in_headings(question: str) -> bool:
    """Return whether a heading has every word of a question but the small ones."""
    wanted = {*subject(question)}
    return any(wanted.issubset(stems(section.title)) for section in _searched())


def unknown(question: str) -> list[str]:
    """Return the words of a question that no page has."""
    words = [word for word in _WORD.findall(question) if not SMALL.fullmatch(word.lower())]
    return [word for word in words if not any(stem in _rarity() for stem in stems(word))]


def stems(text: str) -> list[str]:
    """Return the words of a text without their endings. Example: "Slower disks" -> slow, disk."""
    return [_stem(word) for word in _WORD.findall(text.lower())]


@cache
def _stem(word: str) -> str:
    if "_" in word or not word.isalpha() or len(word) < 4:
        return word
    word = word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
    for ending in ("ation", "ion", "ing", "est", "ed", "er", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word[-1] in "eyi" else word


@cache
def _searched() -> tuple[Section, ...]:
    """Return all sections but the glossary's, whose words are found by their names."""
    return tuple(s for page, parts in pages().items() for s in parts if page != "glossary")


@cache
def _rarity() -> Mapping[str, float]:
    """Return stem -> how much it says: more if fewer sections have it."""
    count = len(_searched())
    having = Counter(stem for section in _searched() for stem in section.weights)
    return {stem: math.log(1 + count / number) for stem, number in having.items()}


def _share(hits: Mapping[str, float], wanted: Sequence[str], rarity: Mapping[str, float]) -> float:
    """Return how much of what `wanted` says is in `hits`, 0 to 1."""
    whole = sum(rarity.get(stem, 0.0) for stem in wanted)
    return sum(rarity[stem] for stem in wanted if stem in hits) / whole if whole else 0.0


def _likeness(question: str, section: Section) -> float:
    """Return how alike a question and a heading are, with their small words: 0 to 2.

    The title of a page counts twice, because a page says more than a part of another one.
    """
    asked, title = set(stems(question)), set(stems(section.title.removeprefix("pgdyno ")))
    alike = 2 * len(asked & title) / (len(asked) + len(title))
    return alike * (2 if section.heading.startswith("# ") else 1) if alike >= 0.5 else 0.0
