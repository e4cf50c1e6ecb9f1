"""Plain English: phrases that no text of the project uses (STYLE.md has the table)."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

from tests.tidy.source import Source

AVOIDED = re.compile(
    r"\b[Ii]s (?:said|told)\b|\b(?:are|was|were) (?:said|told)\b"
    r"|\bof (?:its|their) own(?=[.,;:)]|$)|\b[Bb]eside\b|\b[Ss]o many\b"
    r"|(?<![Tt]here )\bis none\b(?! %)|(?<!')\bothers'|\b[Ww]hoever\b"
    # "is no number": say "is not a number". "from 5 on": say "at least 5", or "since 5".
    r"|(?<=[\w`)] )(?<![Tt]here )\b(?:is|was) no "
    r"(?!longer|more|way|need|such|other|reason|less|slot)"
    r"|\b[Ff]rom \d[\d,.]*(?: \w+)? on\b|\beach is on another\b"
)
# STYLE.md and the tests quote the phrases; programs write the pages in docs/.
_EXCEPTED = (
    "STYLE.md",
    "tests/test_tidy.py",
    "tests/tidy/english.py",
    "tests/tidy/snippets.py",
    "docs/prove-summary.md",
    "docs/performance.md",
)
_WHOLE_LINES = (".md", ".toml", ".css", ".j2", ".sql", ".sh")
_RUST_PROSE = re.compile(r'//.*|"(?:\\.|[^"\\])*"?')


def plain_prose(source: Source) -> Iterator[str]:
    """Documents, comments, docstrings and texts do not use the avoided phrases."""
    is_excepted = source.path in _EXCEPTED or source.path.startswith("docs/examples/")
    if is_excepted or source.is_generated:
        return
    for number, text in _prose(source):
        if phrase := AVOIDED.search(text):
            yield source.problem(number, f'avoid "{phrase[0]}": STYLE.md has plain words')


def _prose(source: Source) -> Iterator[tuple[int, str]]:
    """Yield line number and text of every line that a person reads as a sentence."""
    if source.is_python:
        kinds = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            if token.type in kinds:
                for offset, text in enumerate(token.string.splitlines()):
                    # A name or key has no space.
                    if " " in text.strip():
                        yield token.start[0] + offset, text.removesuffix('"""')
    elif source.is_rust:
        for number, line in enumerate(source.lines, 1):
            for text in _RUST_PROSE.findall(line):
                yield number, text
    elif source.path.endswith(_WHOLE_LINES):
        yield from enumerate(source.lines, 1)
