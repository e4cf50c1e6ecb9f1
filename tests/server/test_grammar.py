"""Statements as PostgreSQL's grammar reads them, and values that become literals."""

from __future__ import annotations

import pytest

from pgdyno.errors import SpecError
from pgdyno.server.grammar import literal, statements_of, with_literals


def test_a_text_is_cut_where_the_grammar_cuts_it() -> None:
    text = "SELECT 'é;'; /* ; /* ; */ */ SELECT E'it\\';s'; SELECT $x$;$x$ ; ;"
    statements = statements_of(text, where="a.sql")
    assert [statement.kind for statement in statements] == ["SelectStmt"] * 3
    # The comment before a statement belongs to it.
    assert [statement.text for statement in statements] == [
        "SELECT 'é;'",
        "/* ; /* ; */ */ SELECT E'it\\';s'",
        "SELECT $x$;$x$",
    ]


def test_text_that_is_not_sql_is_refused_with_the_parsers_message() -> None:
    with pytest.raises(SpecError, match=r'a\.sql cannot be read as SQL: syntax error .* "FROM"'):
        statements_of("SELECT 1 FROM FROM x", where="a.sql")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("1", "1"),
        ("1.5e-3", "1.5e-3"),
        ("-1", "(-1)"),
        ("true", "true"),
        ("NULL", "NULL"),
        ("O'Hara", "'O''Hara'"),
        ("'O''Hara'", "'O''Hara'"),
        ("a\\b", " E'a\\\\b'"),
        ("'a\\'", " E'''a\\\\'''"),
        ("", "''"),
        ("now()", "'now()'"),
        ("1; DELETE", "'1; DELETE'"),
    ],
)
def test_a_value_is_a_number_a_truth_value_or_a_string(value: str, written: str) -> None:
    assert literal(value) == written


def test_only_variables_are_replaced() -> None:
    text = "SELECT ':x', \":x\", $$:x$$, E'\\':x', a::x, :x -- :x\n/* :x */"
    written = with_literals(text, {"x": "5"}, where="a.sql")
    assert written == text.replace(", :x -", ", 5 -")
    with pytest.raises(SpecError, match="variable :y has no value"):
        with_literals("SELECT :y", {}, where="a.sql")
