"""Splits SQL with PostgreSQL's own grammar, and puts literals in place of variables.

Callers use this to see what a statement does before they send it to a server.

Limits: the grammar is that of PostgreSQL 17. A statement that only a newer version knows cannot be
read, and is refused rather than guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pgparse

from pgdyno.errors import SpecError

# Parts of a text without variables and meta-commands: strings, quoted names, comments.
_CLOSED = r"""
    ( [eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' | "[^"]*"
    | (\$(?:[A-Za-z_]\w*)?\$).*?\2 | --[^\n]* | /\*.*?\*/ | :: )
"""
_VARIABLES = re.compile(rf"{_CLOSED} | (?<![\w:]):([A-Za-z_]\w*)", re.X | re.S)
# A meta-command ends with its line, and goes on in the next line after a backslash.
_META_COMMANDS = re.compile(rf"{_CLOSED} | \\(?:[^\n]*\\[ \t]*\n)*[^\n]*", re.X | re.S)
_NUMBER = re.compile(r"(-?)(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WORDS = frozenset(("null", "true", "false"))
# A string that already has quotes, as in -D name="'x'"; the load puts it into the SQL unchanged. A
# string with a backslash does not match, because its end depends on standard_conforming_strings.
_QUOTED = re.compile(r"'(?:[^'\\]|'')*'")
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    """A statement of a text: `kind` is the name of its node in the grammar, such as SelectStmt."""

    text: str
    kind: str
    tree: Mapping[str, Any]

    def nodes(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the content of every part of the statement, itself included."""
        return _nodes({self.kind: self.tree})


def sql_name(*parts: str) -> str:
    """Return a name for a statement that a reader may copy; public is left out as a schema.

    A part gets quotes if it needs them, and escapes for what a terminal does not show as it is.
    """
    shown = parts[1:] if len(parts) > 1 and parts[0] == "public" else parts
    return ".".join(map(_sql_part, shown))


def _sql_part(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        try:
            pgparse.parse(f"TABLE {name}")
        except pgparse.PGQueryError:
            return f'"{name}"'  # A reserved word.
        return name
    quoted = name.replace('"', '""')
    if name.isprintable() and "  " not in name:
        return f'"{quoted}"'
    escaped = (
        f"\\+{ord(c):06x}" if c == "\\" or not c.isprintable() or c == " " else c for c in quoted
    )
    return f'U&"{"".join(escaped)}"'


def statements_of(text: str, *, where: str) -> tuple[SyntaxNode, ...]:
    """Return the statements of a text without the semicolons that end them.

    Raises: SpecError with the parser's own words; `where` names the text.
    """
    try:
        parsed = pgparse.parse(text)
    except (pgparse.PGQueryError, RecursionError) as error:
        message = getattr(error, "message", "it is nested too deeply")
        raise SpecError(
            f"{where} cannot be read as SQL: {message}.",
            hint="correct the statement; a variable stands for a number or a text, not for a name",
        ) from None
    # The parser gives places in bytes. A length of 0 means: up to the end of the text.
    raw, statements = text.encode(), []
    for item in parsed:
        begin = item.get("stmt_location", 0)
        length = item.get("stmt_len", 0)
        piece = raw[begin : begin + length] if length else raw[begin:]
        [(kind, tree)] = item["stmt"].items()
        statements.append(SyntaxNode(piece.decode().strip().rstrip(";"), kind, tree))
    return tuple(statements)


def with_constants(text: str, constants: Mapping[int, str], *, where: str) -> str:
    """Return a text with SQL in place of some of its numbered parameters, by their number.

    The grammar says where a parameter is: $1 in a string, a name or a comment is ordinary text.
    Raises: SpecError with the parser's own words; `where` names the text.
    """
    statements = statements_of(text, where=where)
    nodes = (node for statement in statements for node in statement.nodes())
    places = {
        content["location"]: content["number"] for name, content in nodes if name == "ParamRef"
    }
    raw = text.encode()
    for place, number in sorted(places.items(), reverse=True):
        if number in constants:
            end = place + len(f"${number}")
            raw = raw[:place] + constants[number].encode() + raw[end:]
    return raw.decode()


def with_literals(text: str, variables: Mapping[str, str], *, where: str) -> str:
    """Return a text with a literal in place of each :variable.

    A value can never end the literal, so it cannot add to the statement.
    Raises: SpecError for a variable without a value.
    """

    def replace(match: re.Match[str]) -> str:
        if match[3] is None:
            return match[0]
        if match[3] not in variables:
            raise SpecError(
                f"{where}: the variable :{match[3]} has no value.",
                hint=f"give a typical value: -D {match[3]}=1",
            )
        return literal(variables[match[3]])

    return _VARIABLES.sub(replace, text)


def without_meta_commands(text: str) -> str:
    """Return the SQL of a pgbench script, whose lines keep their numbers.

    A meta-command ends the statement before it, as in pgbench.
    """

    def ended(match: re.Match[str]) -> str:
        return match[0] if match[1] else ";" + "\n" * match[0].count("\n")

    return _META_COMMANDS.sub(ended, text)


def literal(value: str) -> str:
    """Return a value as a number, a truth value, NULL, or a string in quotes."""
    number = _NUMBER.fullmatch(value)
    if number is not None:
        # After another minus, a negative number would begin a comment.
        return f"({value})" if number[1] else value
    if value.lower() in _WORDS or _QUOTED.fullmatch(value):
        return value
    quoted = value.replace("'", "''")
    if "\\" not in quoted:
        return f"'{quoted}'"
    # This form means the same whether standard_conforming_strings is on or off.
    # As in libpq's PQescapeLiteral, the space separates the E from a name that may stand before it.
    return " E'" + quoted.replace("\\", "\\\\") + "'"


def _nodes(tree: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for name, content in tree.items():
            yield name, content
            yield from _nodes(content)
    elif isinstance(tree, list):
        for item in tree:
            yield from _nodes(item)
