"""Columns of rows that a program knows when it names a row by its key, such as a version.

A program reads a row, and changes it later: `WHERE id = $1 AND version = $2`. Between the two the
version may be in a memory, in another session or in a web page; no log shows the way. But if nearly
each call finds its row, the value was that of the row. The engine knows what the load itself sent
and read of each row, so it sends that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from pgdyno.features.capture.model import (
    Constant,
    Drawn,
    Given,
    Giver,
    KnownValue,
    Linear,
    OfColumn,
    Recalled,
    Sighting,
    Source,
    Step,
    Taken,
    Template,
)
from pgdyno.features.capture.reading.parsed import Parsed

# A statement that finds this share of its rows knows them.
_FINDS = 0.9
Keys = Mapping[str, Sequence[tuple[str, ...]]]


class KnownRows:
    """Changes the sources of columns that are compared next to a key."""

    def __init__(
        self, templates: Sequence[Template], parsed: Mapping[str, Parsed], unique: Keys
    ) -> None:
        """Args: parsed, the statements by id; unique, the columns of the keys of each table."""
        self._templates, self._parsed, self._unique = templates, parsed, unique
        self._steps = {step.statement: step for kind in templates for step in kind.steps}
        self._sightings: dict[tuple[str, tuple[str, ...], str], tuple[Sighting, ...]] = {}

    def changed(self, rows: Mapping[str, float]) -> list[Template]:
        """Return the templates. Args: rows, of a call of each statement, by its id."""
        return [
            kind.model_copy(
                update={"steps": tuple(self._step(s, n, rows) for n, s in enumerate(kind.steps))}
            )
            for kind in self._templates
        ]

    def _step(self, step: Step, number: int, rows: Mapping[str, float]) -> Step:
        parsed, sources = self._parsed[step.statement], list(step.parameters)
        asked = list(_asked(parsed)) if parsed.kind in ("select", "update", "delete") else []
        if rows.get(step.statement, 1.0) < _FINDS * len(asked):
            return step
        for table, places in asked:
            keys = [key for key in self._unique.get(table, ()) if set(key) < places.keys()]
            self._with_whole_key(sources, number, table, places)
            self._with_row(sources, number, table, places)
            for column in sorted(places.keys() - set(keys[0])) if keys else ():
                sightings = self._seen(table, keys[0], column)
                if not sightings or max(places.values()) >= len(sources):
                    continue
                source = sources[places[column]]
                written = _written(parsed, table, column)
                if isinstance(source, Linear) and written is not None:
                    # The value after a change follows from the one before it, not the reverse.
                    is_of_change = (source.step, source.parameter) == (number, written)
                    if is_of_change and (source.slope, source.plus) != (1, None):
                        continue
                    if is_of_change:
                        at, offset = places[column], -source.offset
                        source = sources[written]
                        sources[written] = Linear(step=number, parameter=at, slope=1, offset=offset)
                # A version that was always the same is that of few transactions.
                is_version = isinstance(source, Constant) and self._grows(table, column)
                if is_version or isinstance(source, Drawn | OfColumn | Linear | Recalled):
                    sources[places[column]] = KnownValue(
                        table=table,
                        column=column,
                        given=tuple(
                            Given(column=c, step=number, parameter=places[c]) for c in keys[0]
                        ),
                        sightings=sightings,
                        otherwise=source,
                    )
        return step.model_copy(update={"parameters": tuple(sources)})

    def _grows(self, table: str, column: str) -> bool:
        known = (self._parsed[name] for name in self._steps)
        return any(own.written == table and column in own.adds for own in known)

    def _with_whole_key(
        self, sources: list[Source], number: int, table: str, places: Mapping[str, int]
    ) -> None:
        """Give the other columns of a key the values of the row whose key is taken."""
        for column, at in places.items():
            taken = sources[at] if at < len(sources) else None
            if not isinstance(taken, Taken) or taken.parameter is None:
                continue
            sent = _sent(self._parsed[taken.statement], table)
            keys = [key for key in self._unique.get(table, ()) if column in key]
            for other in {name for key in keys for name in key if name in places} - {column}:
                own = sources[places[other]]
                if other in sent and isinstance(own, Drawn | OfColumn | Recalled):
                    maker = partial(Giver, statement=taken.statement)
                    seen = Sighting(
                        key=(maker(parameter=taken.parameter),), value=maker(parameter=sent[other])
                    )
                    sources[places[other]] = KnownValue(
                        table=table,
                        column=other,
                        given=(Given(column=column, step=number, parameter=at),),
                        sightings=(seen,),
                        otherwise=own,
                    )

    def _with_row(
        self, sources: list[Source], number: int, table: str, places: Mapping[str, int]
    ) -> None:
        """Give the last column of a key the value of a row that has the others."""
        for key in self._unique.get(table, ()):
            *others, last = key
            if not others or not set(key) <= places.keys() or max(places.values()) >= len(sources):
                continue
            own = sources[places[last]]
            is_drawn = isinstance(own, OfColumn) and own.group is None and not own.given
            # Values of one earlier transaction are of one row.
            apart = {_remembered(sources[places[c]]) for c in key}
            if is_drawn or (isinstance(own, Recalled) and len(apart) > 1):
                made = (self._sighting(name, table, (*others,), last) for name in self._steps)
                sources[places[last]] = KnownValue(
                    table=table,
                    column=last,
                    given=tuple(Given(column=c, step=number, parameter=places[c]) for c in others),
                    sightings=tuple(seen for seen in made if seen is not None),
                    otherwise=own,
                )

    def _seen(self, table: str, key: tuple[str, ...], column: str) -> tuple[Sighting, ...]:
        """Return what sends or reads a column; nothing if no statement changes it."""
        place = table, key, column
        if place not in self._sightings:
            known = {name: self._parsed[name] for name in sorted(self._steps)}
            changes = any(
                own.kind == "update" and own.written == table
                for own in known.values()
                if column in own.adds or _written(own, table, column) is not None
            )
            made = [self._sighting(name, *place) for name in known] if changes else []
            self._sightings[place] = tuple(own for own in made if own is not None)
        return self._sightings[place]

    def _sighting(
        self, name: str, table: str, key: tuple[str, ...], column: str
    ) -> Sighting | None:
        parsed = self._parsed[name]
        returned = {c: Giver(statement=name, column=n) for n, (t, c) in enumerate(parsed.outputs)
                    if t == table}  # fmt: skip
        sent = {c: Giver(statement=name, parameter=at) for c, at in _sent(parsed, table).items()}
        parts = [returned.get(c) or sent.get(c) for c in key]
        givers = tuple(part for part in parts if part is not None)
        is_new = parsed.kind == "insert" and parsed.written == table
        if len(givers) < len(key) or not (is_new or parsed.kind in ("select", "update")):
            return None
        if column in returned:
            return Sighting(key=givers, value=returned[column])
        if (at := _written(parsed, table, column)) is not None:
            return Sighting(key=givers, value=Giver(statement=name, parameter=at))
        sign, number = parsed.adds.get(column, (0, 0)) if parsed.written == table else (0, 0)
        sources = self._steps[name].parameters
        added = sources[number - 1] if 0 < number <= len(sources) else None
        if not isinstance(added, Constant) or not (added.value or "").isdecimal():
            return None
        return Sighting(
            key=givers, value=sent.get(column), added_count=sign * int(added.value or 0)
        )


def _remembered(source: Source) -> frozenset[str]:
    givers = source.givers if isinstance(source, Recalled) else ()
    return frozenset(giver.statement for giver in givers)


def _asked(parsed: Parsed) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the rows that a statement asks for: the table, and the parameter of each column."""
    tables: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, use in sorted(parsed.parameters.items()):
        if use.use == "equal" and use.table and use.argument is None:
            tables[use.table][use.column].append(number - 1)
    for table, columns in tables.items():
        counts = {len(places) for places in columns.values()}
        for row in range(counts.pop()) if len(counts) == 1 else ():
            yield table, {column: places[row] for column, places in columns.items()}


def _sent(parsed: Parsed, table: str) -> dict[str, int]:
    """Return the parameters, from 0, that have the columns of the row which a statement names."""
    if parsed.kind == "insert":
        uses = parsed.parameters.items() if not parsed.copies else ()
        return {
            use.column: number - 1
            for number, use in uses
            if use.use == "insert" and use.table == table and not use.writes_elements
        }
    rows = [places for of, places in _asked(parsed) if of == table]
    return rows[0] if len(rows) == 1 else {}


def _written(parsed: Parsed, table: str, column: str) -> int | None:
    """Return the parameter, from 0, whose value a statement writes into a column."""
    uses = parsed.parameters.items() if parsed.written == table and not parsed.copies else ()
    wanted = ("insert" if parsed.kind == "insert" else "set", table, column)
    places = (n - 1 for n, use in uses if (use.use, use.table, use.column) == wanted)
    return next(places, None)
