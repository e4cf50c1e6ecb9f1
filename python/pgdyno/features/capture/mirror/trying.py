"""Values with which a refused statement succeeds: tried one after the other, and rolled back.

A candidate is kept if the statement succeeds, or if the server then refuses it for another reason.
A statement that found rows in the source has not succeeded if it finds none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgdyno.errors import SpecError
from pgdyno.features.capture.mirror.candidates import columns_of
from pgdyno.features.capture.mirror.fitting import NO_ROWS, Fitting
from pgdyno.features.capture.model import (
    Constant,
    Drawn,
    Fresh,
    Linear,
    ListOf,
    Now,
    OfColumn,
    Source,
    Step,
)
from pgdyno.features.capture.observed import Statement
from pgdyno.features.capture.reading.trees import alone, function_name
from pgdyno.server.connect import Connection
from pgdyno.server.grammar import statements_of

_REASONS_MAX, _WORDS_MAX = 4, 24
_TEXTS = ("text", "character varying", "character", "name")
_FREE = Constant | Drawn | Linear | ListOf | Now | OfColumn
_DOCUMENTS = ("[]", "{}", "[{}]")
_WORD = re.compile(r"'([^'\s]{1,40})'")
# The server wants a value, so NULL does not help.
_NO_NULL = ("23502", "22004")
# Bodies of functions in these languages have the words with which they compare arguments.
_BODIES = (
    "SELECT p.prosrc FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang"
    " WHERE p.proname = ANY(%s) AND l.lanname IN ('sql', 'plpgsql')"
)


def found_values(
    fitting: Fitting, statement: Statement, text: str
) -> tuple[dict[int, Source], bool]:
    """Return values for parameters, and whether the statement succeeds with them.

    Empty if none are found. It does not quite succeed if it finds no rows.
    """
    trial = fitting.trial_of(statement, text)
    if trial is None:
        return {}, False
    chosen: dict[int, Source] = {}
    refused = trial.refusal(chosen)
    step = trial.template.steps[trial.step]
    offers = list(_candidates(fitting.connection, statement, text, trial.types, step))
    seen = {refused}
    for _ in range(_REASONS_MAX if refused else 0):
        better: tuple[int, Source, tuple[str, str]] | None = None
        for place, source in offers:
            if fitting.is_over():
                break
            said = trial.refusal({**chosen, place: source})
            if said is None:
                return {**chosen, place: source}, True
            is_new = said not in seen and said[0] not in _NO_NULL
            if is_new and (better is None or (said == NO_ROWS != better[2])):
                better = place, source, said
        if better is None:
            break
        chosen[better[0]] = better[1]
        refused = better[2]
        seen.add(refused)
    return (chosen if refused == NO_ROWS else {}), False


def _candidates(
    connection: Connection,
    statement: Statement,
    text: str,
    types: Sequence[str],
    step: Step,
) -> Iterator[tuple[int, Source]]:
    """Yield other values by place: of the column, new, words of functions, documents, NULL."""
    own = step.parameters
    columns = {column.name: column for column in columns_of(connection, statement.tables)}
    inserted, called = _inserted(text)
    words = _words(connection, called)
    places = [
        (place, kind)
        for place, (kind, source) in enumerate(zip(types, own, strict=False))
        if isinstance(source, _FREE)
    ]
    for place, source in enumerate(own[: len(types)]):
        column = columns.get(inserted.get(place + 1, ""))
        if column is not None and isinstance(source, _FREE | Fresh):
            given = OfColumn(table=column.table, column=column.name, is_not_null=True)
            if given != source:
                yield place, given
            # An index on an expression, such as lower(email), allows only new values.
            if isinstance(source, OfColumn):
                yield place, Fresh(table=column.table, column=column.name)
    for place, kind in places:
        for word in words if kind in _TEXTS else ():
            yield place, Constant(value=word)
        for document in _DOCUMENTS if kind in ("json", "jsonb") else ():
            yield place, Constant(value=document)
    # With NULL in one of the others, the engine leaves the step out.
    for place, _ in places:
        if place not in step.not_null:
            yield place, Constant(value=None)


def _inserted(text: str) -> tuple[dict[int, str], set[str]]:
    """Return the column of each parameter that an INSERT writes, and the functions called."""
    columns: dict[int, str] = {}
    called: set[str] = set()
    try:
        statements = statements_of(text, where="a statement")
    except SpecError:
        return columns, called
    for name, item in (node for own in statements for node in own.nodes()):
        if name == "FuncCall":
            called.add(function_name(item))
        elif name == "InsertStmt":
            names = [column["ResTarget"]["name"] for column in item.get("cols", ())]
            select = item.get("selectStmt", {}).get("SelectStmt", {})
            for row in select.get("valuesLists", ()):
                for column, value in zip(names, row["List"]["items"], strict=False):
                    columns |= dict.fromkeys(alone(value), column)
    return columns, called


def _words(connection: Connection, called: set[str]) -> list[str]:
    rows = connection.execute(_BODIES, [sorted(called)]).fetchall() if called else []
    words = dict.fromkeys(word for (body,) in rows for word in _WORD.findall(body))
    return list(words)[:_WORDS_MAX]
