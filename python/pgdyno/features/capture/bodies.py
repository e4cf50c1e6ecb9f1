"""The bodies of a capture's functions and DO blocks, read by the grammar. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pgparse

from pgdyno.errors import SpecError
from pgdyno.server.grammar import SyntaxNode, statements_of

_LANGUAGES = frozenset(("sql", "plpgsql"))
# parseMode of plpgsql: a statement, a type, an expression, and assignments.
_STATEMENT, _EXPRESSION = 0, 2
_TARGET = re.compile(r"^[^=]*?:?=", re.S)
_DYNAMIC = frozenset(("PLpgSQL_stmt_dynexecute", "PLpgSQL_stmt_dynfors", "dynquery"))


class BodyError(Exception):
    """Why a body cannot be permitted, in words that follow "the function f:"."""


def statements_of_function(tree: Mapping[str, Any], text: str) -> Iterator[SyntaxNode]:
    """Yield the statements of a function's body; an expression is a SELECT of it.

    Args: tree and text, of CREATE FUNCTION. A body in standard SQL was read with the statement.
    Raises: BodyError for a language that pgdyno cannot read, and for dynamic SQL.
    """
    options = {item["DefElem"]["defname"]: item["DefElem"].get("arg") for item in tree["options"]}
    language = options.get("language", {"String": {"sval": "sql"}})["String"]["sval"].lower()
    if language not in _LANGUAGES:
        raise BodyError(f"it is in the language {language}, which pgdyno cannot read")
    if "as" not in options:
        return
    parts = [part["String"]["sval"] for part in options["as"]["List"]["items"]]
    if len(parts) != 1:
        raise BodyError("its body is not one text")
    if language == "sql":
        yield from _read(parts[0])
    else:
        yield from _statements_of_plpgsql(text)


def statements_of_block(body: str) -> Iterator[SyntaxNode]:
    """Yield the statements of a DO block of PL/pgSQL. Raises: BodyError as for functions."""
    tag = "$pgdyno$"
    if tag in body:
        raise BodyError("its body has another text inside")
    text = f"CREATE FUNCTION block() RETURNS void LANGUAGE plpgsql AS {tag}{body}{tag}"
    yield from _statements_of_plpgsql(text)


def _statements_of_plpgsql(text: str) -> Iterator[SyntaxNode]:
    try:
        tree = pgparse.parse_pgsql(text)
    except (pgparse.PGQueryError, RecursionError, ValueError) as error:
        message = getattr(error, "message", error)
        raise BodyError(f"its body cannot be read as PL/pgSQL: {message}") from None
    for name, content in _parts(tree):
        if name in _DYNAMIC:
            raise BodyError("it makes statements of texts (EXECUTE), which nobody can check before")
        if name == "PLpgSQL_expr":
            yield from _statements_of_expression(content)
        elif name == "typname":
            yield from _statements_of_type(str(content))


def _statements_of_type(text: str) -> Iterator[SyntaxNode]:
    """Yield a cast to the type of a variable, so that the type counts as used."""
    plain = text.strip()
    # UNKNOWN stands for the type of a column (%TYPE) or the row of a table.
    if plain and plain != "UNKNOWN" and "%" not in plain:
        yield from _read(f"SELECT NULL::{plain}")


def _statements_of_expression(content: Mapping[str, Any]) -> Iterator[SyntaxNode]:
    query, mode = content["query"], content.get("parseMode", _STATEMENT)
    if mode == _STATEMENT:
        yield from _read(query)
        return
    if mode != _EXPRESSION:
        # The target of an assignment may have subscripts, which are expressions, too.
        target = _TARGET.match(query)
        if target is None:
            raise BodyError(f"it has an assignment that cannot be read: {query[:40]}")
        if "[" in target[0]:
            yield from _read("SELECT " + target[0].rstrip(":= \n\t"))
        query = query[target.end() :]
    yield from _read(f"SELECT {query}")


def _read(text: str) -> tuple[SyntaxNode, ...]:
    try:
        return statements_of(text, where="its body")
    except SpecError as error:
        raise BodyError(str(error.message).rstrip(".")) from None


def _parts(tree: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for name, content in tree.items():
            yield name, content
            yield from _parts(content)
    elif isinstance(tree, list):
        for item in tree:
            yield from _parts(item)
