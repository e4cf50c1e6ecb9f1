"""Types and values that a server accepts for the parameters of a statement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psycopg

from pgdyno.engine.distribution import Spread
from pgdyno.features.capture.mirror.candidates import columns_of
from pgdyno.features.capture.model import (
    Capture,
    Constant,
    Drawn,
    Fresh,
    Linear,
    ListOf,
    Now,
    OfColumn,
    Source,
)
from pgdyno.features.capture.observed import Statement
from pgdyno.features.capture.reading.casts import forms_of, type_in_use
from pgdyno.features.capture.schema import KIND_OF_TYPE
from pgdyno.features.capture.typical import text_of
from pgdyno.server.connect import Connection

# How often other values are tried.
TURNS = 3
# States that only the unknown type of a parameter may cause.
_OF_TYPES = frozenset({"42P18", "42P08", "42804", "42883", "42725", "42846", "42601"})
# A missing right, and tables that the load itself makes.
_OF_THIS_SESSION = frozenset({"42501", "42P01", "42P07"})
_CANDIDATES = (
    *("text", "integer", "bigint", "numeric", "timestamptz", "date", "interval", "boolean"),
    *("uuid", "jsonb", "text[]", "integer[]", "double precision"),
)
_PLACE = re.compile(r"parameter \$(\d+)")
_NUMBER = re.compile(r"\$(\d+)")


@dataclass(frozen=True, slots=True)
class Asked:
    """A server that parses statements as the load's sessions do."""

    connection: Connection
    search_path: str

    def parameter_types(self, text: str, types: Mapping[int, str]) -> tuple[str, ...]:
        """Return the types of a statement's parameters, some of which are given.

        Raises: psycopg.Error if the server refuses the statement.
        """
        count = max(map(int, _NUMBER.findall(text)), default=0)
        given = ", ".join(types.get(number, "unknown") for number in range(1, count + 1))
        declared = f"({given})" if types else ""
        with self.connection.transaction(force_rollback=True):
            path = "SELECT pg_catalog.set_config('search_path', %s, true)"
            self.connection.execute(path, [self.search_path or self.connection.load_path])
            self.connection.execute(f"PREPARE pgdyno_probe{declared} AS {text}".encode())
            known = self.connection.execute(
                "SELECT parameter_types::text[] FROM pg_catalog.pg_prepared_statements"
                " WHERE name = 'pgdyno_probe'"
            ).fetchone()
            self.connection.execute("DEALLOCATE pgdyno_probe")
        return tuple(map(str, known[0])) if known else ()


def accepted_types(asked: Asked, statement: Statement, text: str) -> tuple[dict[int, str], str]:
    """Return types with which the server accepts a statement; and why it refuses it, if so.

    First come the types that the driver sent. Both are empty if no types are necessary, or if only
    the load can show what the server says.
    """
    first = ""
    for types in _guesses(asked, statement, text):
        try:
            asked.parameter_types(text, types)
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if not state.startswith("42") or state in _OF_THIS_SESSION:
                return {}, ""
            first = first or str(error.diag.message_primary)
            if state not in _OF_TYPES:
                return {}, first
        else:
            return types, ""
    return {}, first


def _guesses(asked: Asked, statement: Statement, text: str) -> Iterator[dict[int, str]]:
    """Yield types by number: none, those of the driver, and the same candidate for the unknown."""
    yield {}
    sent = dict(enumerate(statement.parameter_types, 1))
    sent = {number: kind for number, kind in sent.items() if kind}
    if sent:
        yield sent
    numbers = sorted({int(number) for number in _NUMBER.findall(text)})
    for candidate in _CANDIDATES:
        for known in ({}, sent):
            rest = {number: candidate for number in numbers if number not in known}
            if rest:
                yield from _of_the_unknown(asked, text, known, candidate)
                yield {**known, **rest}


def _of_the_unknown(
    asked: Asked, text: str, known: Mapping[int, str], candidate: str
) -> Iterator[dict[int, str]]:
    """Yield types in which only the parameters that the server names have the candidate."""
    types = dict(known)
    for _ in _NUMBER.findall(text):
        try:
            asked.parameter_types(text, types)
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            place = _PLACE.search(str(error.diag.message_primary))
            if place is None or int(place[1]) in types:
                return
            types[int(place[1])] = candidate
            yield dict(types)
        else:
            return


def other_values(
    asked: Asked, capture: Capture, name: str, text: str, *, turn: int
) -> dict[int, Source]:
    """Return other values for the parameters of a statement whose values the server refuses.

    The first turn takes existing values of columns that have the type of the parameter, where the
    type of the capture's values differs, and makes a single value an array. In the second, what
    may be NULL is NULL. The third turn takes one value of each type, and NULL for texts. NULL is no
    choice where the engine would leave the step out (`Step.not_null`).
    """
    steps = [step for kind in capture.templates for step in kind.steps if step.statement == name]
    if not steps or turn > TURNS:
        return {}
    try:
        types = asked.parameter_types(text, {})
    except psycopg.Error:
        return {}
    known = columns_of(asked.connection, capture.statement(name).tables)
    kinds = {(own.table, own.name): own.kind for own in known}
    columns = {
        own.kind: OfColumn(table=own.table, column=own.name, is_not_null=True)
        for own in reversed(known)
    }
    values: dict[int, Source] = {}
    forms = forms_of(text)
    for place, declared in enumerate(types[: len(steps[0].parameters)]):
        kind, number = type_in_use(text, place + 1, declared), place + 1
        own = steps[0].parameters[place]
        if not isinstance(own, Constant | Drawn | Fresh | OfColumn | Linear | ListOf | Now):
            continue
        fits = _fits(own, kind, kinds)
        is_guessed = not isinstance(own, Constant) or not fits
        if turn == 1 and kind.endswith("[]") and isinstance(own, Drawn | Fresh | Now):
            values[place] = ListOf(of=own, length=Spread())
        elif turn == 1 and kind in columns and not fits:
            values[place] = columns[kind]
        elif (
            is_guessed
            and not any(place in step.not_null for step in steps)
            and (
                (turn > 1 and number in forms.nullables)
                or (turn == TURNS and KIND_OF_TYPE.get(kind) == "text")
            )
        ):
            values[place] = Constant(value=None)
        elif number in forms.arrays:
            values[place] = Constant(value="[{}]")
        elif (turn == TURNS or not fits) and (word := _neutral(kind)) is not None:
            values[place] = Constant(value=word)
    return values


def _neutral(kind: str) -> str | None:
    if kind.endswith(("[]", "multirange")):
        return "{}"
    return text_of(kind) or ("empty" if kind.endswith("range") else None)


# Kinds of values that a parameter of another kind takes, too.
_TAKEN = {
    "integer": ("integer", "numeric", "real"),
    **dict.fromkeys(("numeric", "real"), ("numeric", "real")),
    **dict.fromkeys(("timestamptz", "timestamp", "date"), ("timestamptz", "timestamp", "date")),
    **{kind: (kind,) for kind in ("text", "boolean", "uuid")},
}


def _fits(source: Source, kind: str, columns: Mapping[tuple[str, str], str]) -> bool:
    """Return whether the values of a source are of a type. Args: columns, their types."""
    if isinstance(source, ListOf):
        return kind.endswith("[]")
    own = KIND_OF_TYPE.get(kind, "other")
    if isinstance(source, Constant):
        return source.value is None or own == "text"
    if isinstance(source, Drawn):
        return own in _TAKEN.get(source.distribution.kind, ())
    if isinstance(source, Now):
        return own in _TAKEN["timestamptz"]
    if isinstance(source, OfColumn):
        other = columns.get((source.table, source.column), kind)
        is_other = other != kind and text_of(other) is not None and text_of(kind) is not None
        # Every value has a text.
        both = {own, KIND_OF_TYPE.get(other, "")}
        return not is_other or own == "text" or any(both <= {*taken} for taken in _TAKEN.values())
    return isinstance(source, Fresh | Linear)
