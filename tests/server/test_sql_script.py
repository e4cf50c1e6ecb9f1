"""SQL of several statements is split at the semicolons that end a statement, and at no others."""

from __future__ import annotations

import pytest

from pgdyno.server.sql_script import split_statements

SPLIT = {
    "VACUUM a; -- now; later\nSELECT 1": ["VACUUM a", "SELECT 1"],
    "SELECT ';', 'it''s;'; SELECT \"a;b\"": ["SELECT ';', 'it''s;'", 'SELECT "a;b"'],
    r"SELECT E'it\'s;'; SELECT DATE'2026-01-01\'": [
        r"SELECT E'it\'s;'",
        r"SELECT DATE'2026-01-01\'",
    ],
    "DO $x$ BEGIN PERFORM 1; END $x$; SELECT 2": ["DO $x$ BEGIN PERFORM 1; END $x$", "SELECT 2"],
    "/* a; b */ SELECT 4/2 - 1; ;": ["SELECT 4/2 - 1"],
}


@pytest.mark.parametrize("text", SPLIT)
def test_only_a_semicolon_outside_of_strings_and_comments_ends_a_statement(text: str) -> None:
    assert list(split_statements(text)) == SPLIT[text]
