"""An INSERT of many rows as one of any number of rows, whose columns are arrays. Pure.

`INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4), ...` becomes `INSERT INTO t (a, b) SELECT c1, c2
FROM unnest($1::integer[], $2::text[]) AS pgdyno_rows (c1, c2)`. So programs that write 50 or 5,000
rows at a time have one statement, and its rows a call are those of the source.

Limits: what two rows have to do with each other is lost, such as a debit with its credit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pgdyno.features.capture.reading.names import Names

# One row stays as it is.
ROWS_MAX = 1
ALIAS = "pgdyno_rows"
_NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_][\w$]*)'
_INSERT = re.compile(
    rf"\s*INSERT\s+INTO\s+(?:(?P<schema>{_NAME})\s*\.\s*)?(?P<table>{_NAME})"
    rf"\s*(?:\((?P<columns>\s*{_NAME}(?:\s*,\s*{_NAME})*\s*)\))?"
    r"(?:\s*OVERRIDING\s+(?:SYSTEM|USER)\s+VALUE)?\s*(?P<values>VALUES)\s*(?=\()",
    re.I,
)
# A parameter with its cast, or what is the same in every row.
_VALUE = (
    r"\s*(\$\d+|default|null|now\(\)|(?:current|local)_(?:timestamp|date|time))"
    r"(?:\s*::\s*([a-z_][a-z_0-9 ]*))?\s*"
)
_ITEM = re.compile(_VALUE, re.I)
_PLAIN_VALUE = _VALUE.replace("(\\$", "(?:\\$").replace("([a-z_]", "(?:[a-z_]")
_ROW = re.compile(rf"\s*\(({_PLAIN_VALUE}(?:,{_PLAIN_VALUE})*)\)", re.I)
_COMMA = re.compile(r"\s*,")
# The server shortens a list: it had more rows.
_MORE = re.compile(r"\s*/\*, \.\.\. \*/")
_NUMBERED = re.compile(r"\$(\d+)")
# A constant in a text: begin, end, and whether it is a list.
Literal: TypeAlias = tuple[int, int, bool]


@dataclass(frozen=True, slots=True)
class FoldedRows:
    """Values that became arrays. `first_place`: the place of the first one, of `count * width`.

    `of_constants`: they were constants of the text, and are parameters behind those of the program.
    """

    first_place: int
    count: int
    width: int
    of_constants: bool

    def folded(
        self, parameters: Sequence[Any], constants: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Return parameters and constants of a call; False for an array with an unknown value."""
        values = constants if self.of_constants else parameters
        end = self.first_place + self.count * self.width
        own = values[self.first_place : end]
        columns = [list(own[place :: self.width]) for place in range(self.width)]
        is_whole = len(own) == self.count * self.width
        arrays = [column if is_whole and False not in column else False for column in columns]
        if self.of_constants:
            return [*parameters, *arrays], [*constants[: self.first_place], *constants[end:]]
        return [*parameters[: self.first_place], *arrays, *parameters[end:]], list(constants)


@dataclass(slots=True)
class _Column:
    """One place of all rows: its text if it is the same in each row, and the type of its cast."""

    text: str
    cast: str = ""


def folded(
    sql: str, names: Names, literals: Sequence[Literal] = ()
) -> tuple[str, list[Literal], FoldedRows] | None:
    """Return the text with arrays, its other constants, and what became arrays.

    None of another statement, and if the values are not all parameters, or all constants.
    """
    if any(is_list for *_, is_list in literals) or not _INSERT.match(sql):
        return None
    count = max((int(n) for n in _NUMBERED.findall(_marked(sql, literals, None))), default=0)
    marked = _marked(sql, literals, count)
    head = _INSERT.match(marked)
    assert head is not None, "the constants follow VALUES"
    rows, end = _rows_of(marked, head.end())
    more = _MORE.match(marked, end)
    numbers = [int(item[0][1:]) for row in rows for item in row if item[0][0] == "$"]
    columns = _columns(rows) if len(rows) > ROWS_MAX or more else None
    if columns is None or not numbers or numbers != list(range(numbers[0], numbers[-1] + 1)):
        return None
    if numbers[0] <= count < numbers[-1]:
        return None
    table = names.table(_plain(head["schema"]), _plain(head["table"]) or "")
    known = [_plain(name) or "" for name in re.findall(_NAME, head["columns"] or "")]
    known = known or names.copied_columns(table)[: len(columns)]
    if len(known) != len(columns):
        return None
    beginning = _beginning(marked, head, columns)
    select = _select(columns, [names.type_of(table, name) for name in known], numbers[0], count)
    if beginning is None or select is None:
        return None
    of_constants = numbers[0] > count
    width = len(numbers) // len(rows)
    made, places = _with_literals(
        marked[more.end() if more else end :],
        (sql, literals, count),
        beginning + select,
        moved=width if of_constants else width - len(numbers),
        last=count if of_constants else numbers[-1],
    )
    first = numbers[0] - 1 - (count if of_constants else 0)
    return made, places, FoldedRows(first, len(rows), width, of_constants)


def _marked(sql: str, literals: Sequence[Literal], count: int | None) -> str:
    """Return a text with `$n` above `count` for its constants; without them if it is None."""
    made, last = [], 0
    for number, (start, end, _) in enumerate(literals, 1):
        made += [sql[last:start], " " if count is None else f"${count + number}"]
        last = end
    return "".join((*made, sql[last:]))


def _rows_of(sql: str, place: int) -> tuple[list[list[tuple[str, str]]], int]:
    """Return the rows that begin at a place: text and cast of each item; and where they end."""
    rows: list[list[tuple[str, str]]] = []
    end = place
    while (row := _ROW.match(sql, place)) is not None:
        rows.append([(item[1].lower(), (item[2] or "").lower()) for item in _ITEM.finditer(row[1])])
        end = row.end()
        comma = _COMMA.match(sql, end)
        if comma is None:
            break
        place = comma.end()
    return rows, end


def _columns(rows: Sequence[Sequence[tuple[str, str]]]) -> list[_Column] | None:
    """Return what each place of the rows has; None if rows differ."""
    if not rows or len({len(row) for row in rows}) > 1:
        return None
    made = []
    for items in zip(*rows, strict=True):
        texts = {"$" if text[0] == "$" else text for text, _ in items}
        casts = {cast for _, cast in items}
        if len(texts) > 1 or len(casts) > 1:
            return None
        made.append(_Column(texts.pop(), casts.pop()))
    return made


def _beginning(sql: str, head: re.Match[str], columns: Sequence[_Column]) -> str | None:
    """Return the text before VALUES; a SELECT has no DEFAULT, so its columns are not named."""
    is_kept = [column.text != "default" for column in columns]
    if head["columns"] is None:
        return sql[: head.start("values")] if all(is_kept) else None
    names = re.findall(_NAME, head["columns"])
    begin, end = head.span("columns")
    listed = ", ".join(name for name, is_own in zip(names, is_kept, strict=True) if is_own)
    return sql[:begin] + listed + sql[end : head.start("values")]


def _select(columns: Sequence[_Column], types: Sequence[str], first: int, count: int) -> str | None:
    """Return the SELECT in place of VALUES; None if the type of a column is not known."""
    number = first if first <= count else count + 1
    items: list[str] = []
    arrays: list[str] = []
    aliases: list[str] = []
    for column, type_ in zip(columns, types, strict=True):
        if column.text == "default":
            continue
        if column.text != "$":
            items.append(column.text)
            continue
        own = column.cast or type_.partition("(")[0]
        if not own or own.endswith("]"):
            return None
        alias = f"c{len(arrays) + 1}"
        items.append(alias)
        aliases.append(alias)
        arrays.append(f"${number + len(arrays)}::{own}[]")
    listed = f"unnest({', '.join(arrays)}) AS {ALIAS} ({', '.join(aliases)})"
    return f"SELECT {', '.join(items)} FROM {listed}"


def _with_literals(
    rest: str,
    of: tuple[str, Sequence[Literal], int],
    before: str,
    *,
    moved: int,
    last: int,
) -> tuple[str, list[Literal]]:
    """Return a text with the constants that are left, and their places.

    Args: rest, the marked text behind the rows; of, the original text, its constants and the number
    of its parameters; moved, what is added to the numbers of parameters above `last`.
    """
    sql, literals, count = of
    made, places, end = before, [], 0
    for mark in _NUMBERED.finditer(rest):
        made += rest[end : mark.start()]
        end, number = mark.end(), int(mark[1])
        if number > count:
            start, stop, is_list = literals[number - count - 1]
            places.append((len(made), len(made) + stop - start, is_list))
            made += sql[start:stop]
        else:
            made += f"${number + moved}" if number > last else mark[0]
    return made + rest[end:], places


def _plain(name: str | None) -> str | None:
    """Return a name as the catalog has it."""
    if name is None or name[0] != '"':
        return name and name.lower()
    return name[1:-1].replace('""', '"')
