"""Statements that pgdyno prints for a person name their schema, wherever they are pasted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ROOT / "python" / "pgdyno"
# Functions that act on the server. Only scripts of the user call them without a schema.
ACTING = re.compile(
    r"(?<!pg_catalog\.)\bpg_(terminate_backend|cancel_backend|reload_conf|drop_replication_slot"
    r"|promote|switch_wal|notification_queue_usage)\("
)
# The names of our sessions mean pg_catalog; those of a person mean what the database sets.
UNQUALIFIED = re.compile(
    r"\b(?:FROM|JOIN|ON|ON FUNCTION|SELECT) pg_(?!catalog\.|stat_statements)\w+"
)
# What is printed is the value of such a name or argument.
ADVICE = re.compile(r"hint|HINT|step|mend|advice|^first$|^where$")


def joined(node: ast.AST) -> str:
    """Return the text of a literal or of an expression of literals, with {} for values."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "{}"
    if isinstance(node, ast.JoinedStr):
        return "".join(joined(value) for value in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{}"
    return " | ".join(joined(child) for child in ast.iter_child_nodes(node))


def advice_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and ADVICE.search(node.arg or ""):
            yield joined(node.value)
        elif isinstance(node, ast.Assign):
            names = [name.id for name in ast.walk(node) if isinstance(name, ast.Name)]
            is_sql = any(name.endswith("SQL") for name in names)
            if not is_sql and any(ADVICE.search(name) for name in names[:1]):
                yield joined(node.value)


def modules() -> list[Path]:
    return sorted(path for path in PRODUCT.rglob("*.py") if " pg_" in path.read_text())


def test_what_acts_on_the_server_is_named_with_its_schema() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and ACTING.search(text := joined(node))
    ]
    assert wrong == []


def test_advice_names_the_schema_of_catalogs_and_functions() -> None:
    texts = {path: list(advice_of(ast.parse(path.read_text()))) for path in modules()}
    assert sum(len(advice) for advice in texts.values()) > 50, "the walk finds the advice"
    wrong = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, advice in texts.items()
        for text in advice
        for match in [UNQUALIFIED.search(text)]
        if match
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", ["docs", "tests/outputs/snapshots"])
def test_printed_examples_name_the_schema_of_what_acts(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".md", ".txt", ".html")
        for match in ACTING.finditer(path.read_text())
    ]
    assert wrong == []
