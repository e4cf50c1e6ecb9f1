"""The commands that README, the pages, the examples and the helps show to a reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.tidy.source import ROOT

from pgdyno.cli.main import VERBS
from pgdyno.cli.verb_help import EXAMPLES

# The reference is made from the options, and has no commands but those of the helps.
DOCUMENTS = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "cli.md"),
]
BLOCKS = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The first words of a command that is not pgdyno.
_OTHERS = ("make", "apt", "pip", "uv", "pg_dump", "pg_restore", "psql", "export", "scripts/")
_OTHERS += (".venv/", "python -m", "ssh -o")


@dataclass(frozen=True)
class Shown:
    """A command as a page shows it, without `$` and without the remark behind it."""

    page: str
    typed: str

    @property
    def verb(self) -> str:
        """Return the verb, or the program if it is not pgdyno."""
        first, *words = self.typed.split()
        return words[0] if first == "pgdyno" else first


# The words that begin a line of an output; names of variants and results are others.
_LABEL = re.compile(r"^([a-z][\w /-]*?)(?: {2,}|$)", re.MULTILINE)
# Lines that only some results have.
_SOMETIMES = {"repeated", "confound", "differs", "not shown", "statement", "time", "more", "done"}
_SOMETIMES |= {"good", "memory", "tables", "waits", "mean"}


def labels(output: str) -> list[str]:
    """Return the words that begin the lines of an output, each once, without those of a result."""
    return [word for word in dict.fromkeys(_LABEL.findall(output)) if word not in _SOMETIMES]


def outputs() -> dict[str, list[str]]:
    """Return the labels of an output that a page shows, by the command that prints it.

    An output stands below its command, in the same block or in the next one.
    """
    shown: dict[str, list[str]] = {}
    for path in DOCUMENTS:
        text, before, end = path.read_text(), "", 0
        for block in BLOCKS.finditer(text):
            typed = [shown.typed for shown in _lines(path.name, block[2], "")]
            is_whole = block[2].startswith("$ ")
            if is_whole and typed:
                shown[typed[0]] = labels(re.sub(r"^\$ .*(?:\n .*)*", "", block[2]))
            elif not typed and before and not text[end : block.start()].strip():
                shown[before] = labels(block[2])
            before, end = typed[-1] if typed and not is_whole else "", block.end()
    return {typed: words for typed, words in shown.items() if words}


def commands() -> list[Shown]:
    """Return each command once, with the first page that shows it."""
    first_shown: dict[str, Shown] = {}
    for shown in (*_of_documents(), *_of_examples(), *_of_helps()):
        first_shown.setdefault(shown.typed, shown)
    return list(first_shown.values())


def _of_documents() -> Iterator[Shown]:
    for path in DOCUMENTS:
        text = path.read_text()
        for _, block in BLOCKS.findall(text):
            yield from _lines(path.name, block, "")
        prose = BLOCKS.sub("", text)
        yield from _lines(path.name, prose, " {4}")
        for span in re.findall(r"`([^`]+)`", prose):
            # The name of a verb in a sentence is not a command.
            if len(span.split()) > 2 and not span.startswith("export"):
                yield from _command(path.name, " ".join(span.split()))


def _of_examples() -> Iterator[Shown]:
    for path in sorted((ROOT / "examples").iterdir()):
        for typed in re.findall(r"(pgdyno [a-z]+ [^`\n]*)", path.read_text()):
            yield from _command(path.name, typed)


def _of_helps() -> Iterator[Shown]:
    for verb, pair in EXAMPLES.items():
        for _, typed in pair:
            yield from _command(f"{verb} --help", typed)


def _lines(page: str, text: str, indent: str) -> Iterator[Shown]:
    """Yield the commands that begin a line; the lines of an output begin otherwise."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in re.findall(rf"^{indent}((?:\$ )?\S.*)$", joined, re.MULTILINE):
        yield from _command(page, line.removeprefix("$ "))


def _command(page: str, line: str) -> Iterator[Shown]:
    typed = re.split(r"\s+#|\s{3,}", line)[0].strip()
    words = typed.split()
    is_ours = len(words) > 1 and words[0] == "pgdyno" and words[1] in {*VERBS, "--version"}
    if is_ours or typed.startswith(_OTHERS):
        yield Shown(page, typed)
