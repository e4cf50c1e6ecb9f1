"""Plain English: phrases that documents and texts of the program avoid (STYLE.md has the table)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.source import Source

AVOIDED = re.compile(
    r"\b(?:is|are|was|were) (?:said|told)\b|\bof (?:its|their) own(?=[.,;:)]|$)|\bbeside\b"
    r"|\bso many\b|\bis none\b|(?<!')\bothers'|\bwhoever\b",
    re.IGNORECASE,
)
# STYLE.md quotes the phrases; the changelog keeps its history; the rest is written from results.
_EXCEPTED = ("STYLE.md", "CHANGELOG.md", "docs/prove-summary.md", "docs/performance.md")


def plain_documents(source: Source) -> Iterator[str]:
    """A document does not use the avoided phrases."""
    is_excepted = source.path in _EXCEPTED or source.path.startswith("docs/examples/")
    if not source.path.endswith(".md") or is_excepted:
        return
    for number, line in enumerate(source.lines, 1):
        if phrase := AVOIDED.search(line):
            yield source.problem(number, f'avoid "{phrase[0]}": STYLE.md has plain words')


def plain_texts(source: Source) -> Iterator[str]:
    """A text of the program does not use the avoided phrases; docstrings are not texts."""
    if source.package is None:
        return
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(source.syntax)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(source.syntax):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            phrase = AVOIDED.search(node.value)
            # A name or key has no space.
            if phrase and " " in node.value.strip() and id(node) not in docstrings:
                yield source.problem(node.lineno, f'avoid "{phrase[0]}": STYLE.md has plain words')
