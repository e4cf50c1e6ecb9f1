"""Texts of statements from pg_stat_statements, read before or after, not while a load is measured.

Texts are kept only without constants. The server leaves them in utility statements, and in the text
of a prepared statement of which it counted the first call after a reset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import psycopg

from pgdyno.errors import PgdynoError
from pgdyno.observe import catalogue
from pgdyno.observe.settings_seen import SETTINGS_SQL
from pgdyno.observe.sql.sql_collector import schema_sql
from pgdyno.observe.totals import SESSIONS_SQL
from pgdyno.server.connect import connect
from pgdyno.server.session_start import MARK
from pgdyno.server.target import Target

SCHEMA_SQL = schema_sql("pg_stat_statements")
TEXTS_SQL = (
    "SELECT queryid, min(left(query, 10000)) FROM {schema}.pg_stat_statements(true)"
    " WHERE queryid = ANY(%s) GROUP BY 1"
)
# The samples have the hundred dearest of their moment. Of two readings the ranks differ, so that
# texts of more statements are read.
DEAREST_SQL = (
    "SELECT queryid FROM {schema}.pg_stat_statements(false) WHERE queryid IS NOT NULL"
    " GROUP BY 1 ORDER BY sum({time}) DESC LIMIT 300"
)
# What stands for the text of a statement that pgdyno itself sent.
OWN = "pgdyno's own"
_NORMALISED = re.compile(r"(?i)\s*(select|insert|update|delete|merge|with|values)\b")
# A statement first seen in a PREPARE carries it; what it prepares is normalised.
_PREPARED_AS = re.compile(r"(?i)^prepare \S+(?: ?\([^)]*\))? as ")
_CONSTANT = re.compile(
    r"\$\d+|'(?:[^']|'')*'|\b\d+(?:\.\d+)?(?:e\d+)?\b|%s|\b(?:NULL|true|false|epoch)\b|\s+"
)
# The last string may have no end.
_VALUE = re.compile(
    r"(?i)'(?:[^']|'')*(?:'|$)|\$([a-z_]\w*|)\$.*?(?:\$\1\$|$)|(?<![\w$.])\d[\d.]*\b"
)
_TEXT_CHARACTERS = 300

Rows = Sequence[tuple[Any, ...]]


def read_texts(target: Target, *, verb: str, run: str) -> dict[str, str]:
    """Return texts of the 300 dearest statements by query id; empty where none are counted.

    Never raises: whatever is wrong with the server, a run is worth keeping without.
    """
    try:
        with connect(target, verb=verb, run=run, patient=True, read_only=True) as connection:
            schema = connection.execute(SCHEMA_SQL).fetchone()
            if schema is None:
                return {}
            time = "total_exec_time" if connection.info.server_version >= 130_000 else "total_time"
            dearest = DEAREST_SQL.format(schema=schema[0], time=time)
            ids = [row[0] for row in connection.execute(dearest).fetchall()]
            rows = connection.execute(TEXTS_SQL.format(schema=schema[0]), [ids]).fetchall()
            return {str(query): text for query, text in shown_texts(rows).items()}
    except (PgdynoError, psycopg.Error):
        return {}


def shown_texts(rows: Rows) -> dict[int, str]:
    """Return what is shown of statements: query id and text, as read."""
    return {
        int(query): OWN if is_own(str(text)) else without_constants(str(text))
        for query, text in rows
    }


def is_own(text: str) -> bool:
    """Return whether a statement is one that pgdyno sends while it watches."""
    return _signature(text) in _own_signatures()


@cache
def _own_signatures() -> frozenset[str]:
    sent = {sql for version in range(10, 19) for sql in catalogue.statements(version).values()}
    # What is asked just before and after a load, while it is counted.
    sent |= {SESSIONS_SQL, SETTINGS_SQL, TEXTS_SQL.format(schema="public")}
    return frozenset(map(_signature, sent))


def _signature(text: str) -> str:
    """Return what is left of a statement without constants, parameters and spaces."""
    return _CONSTANT.sub("", text.removesuffix(MARK))


def without_constants(text: str) -> str:
    """Return a statement on one line that shows nobody's data.

    Of utility statements the first two words remain. A text that cannot be parsed, for example
    because the server cut it, loses what looks like a value.
    """
    import pgparse  # Loading it takes 20 ms.

    line = _on_one_line(text)
    try:
        if not _PREPARED_AS.match(line):
            text, line = "", _on_one_line(pgparse.normalize(text))
    except (pgparse.PGQueryError, RecursionError, ValueError):
        pass
    line = _PREPARED_AS.sub("", line)
    if not _NORMALISED.match(line):
        words = line.rstrip(";").split()
        return " ".join(words[:2]).split("'")[0] + (" ..." if len(words) > 2 else "")
    if text:  # It was not parsed.
        line = _VALUE.sub("?", line)
    return line if len(line) <= _TEXT_CHARACTERS else line[: _TEXT_CHARACTERS - 4] + " ..."


def _on_one_line(text: str) -> str:
    return " ".join(re.sub(r"--[^\n]*|/\*.*?(?:\*/|$)", " ", text, flags=re.DOTALL).split())


_CHARACTERS = 60


class StatementNames:
    """Names of statements by query id; where no text is known it is the id."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._given: dict[str, str] = {}

    def is_own(self, query_id: str) -> bool:
        """Return whether pgdyno itself sent it."""
        return self._texts.get(query_id) == OWN

    def whole(self, query_id: str) -> str:
        """Return the text as it is kept, with the query id."""
        text = self._texts.get(query_id)
        return f"{text}, query id {query_id}" if text else f"query id {query_id}"

    def short(self, query_id: str) -> str:
        """Return the beginning of the text; of two that begin alike, one with its query id."""
        text = self._texts.get(query_id) or f"query id {query_id}"
        if len(text) > _CHARACTERS:
            text = text[: _CHARACTERS - 4].rstrip() + " ..."
        if self._given.setdefault(text, query_id) != query_id:
            return f"{text} ({query_id})"
        return text
