"""Keys of a template that must not be used twice: new values, and values of other transactions.

A statement that changes a row by its key, and each key once, takes the key that another transaction
returned. A unique column of an INSERT gets values that no row has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pgdyno.capture.distribution import Distribution
from pgdyno.capture.model import (
    Constant,
    Drawn,
    Equal,
    Fresh,
    ListOf,
    OfColumn,
    Returned,
    Source,
    Step,
    Taken,
)
from pgdyno.capture.schema import ColumnShape, SchemaObject
from pgdyno.capturing.parsed import Parsed

Place = tuple[str, str]
# As many different texts that no two are the same.
_UNIQUE_TEXTS = 1e15
_TIMES_MAX = 4.0
_FRESH_KINDS = ("integer", "text", "uuid", "timestamp", "timestamptz")
_UNIQUE = re.compile(r"\bUNIQUE\b[^()]*\(([^()]*)\)")


def unique_keys(
    columns: Iterable[ColumnShape], objects: Iterable[SchemaObject]
) -> dict[str, list[tuple[str, ...]]]:
    """Return the columns of each unique key by table; also of those that hold for some rows."""
    keys: dict[str, list[tuple[str, ...]]] = {}
    positions: dict[str, list[tuple[int, str]]] = {}
    for column in columns:
        if column.key_position:
            positions.setdefault(column.table, []).append((column.key_position, column.column))
        if column.is_unique:
            keys.setdefault(column.table, []).append((column.column,))
    for table, placed in positions.items():
        keys.setdefault(table, []).append(tuple(name for _, name in sorted(placed)))
    for item in objects:
        listed = _UNIQUE.search(item.sql) if item.kind in ("unique", "index") else None
        if listed is not None:
            names = tuple(part.strip().split(" ")[0].strip('"') for part in listed[1].split(","))
            keys.setdefault(item.table, []).append(names)
    return {table: list(dict.fromkeys(known)) for table, known in keys.items()}


def givers_of(
    statements: Iterable[tuple[str, Parsed]], columns: Mapping[Place, ColumnShape]
) -> dict[Place, Taken]:
    """Return the statement that returns the keys of each unique column while it changes rows.

    Args: id and text of each statement.
    """
    givers: dict[Place, Taken] = {}
    for name, parsed in statements:
        if parsed.reads_only or parsed.reason:
            continue
        asked = {(use.table, use.column) for use in parsed.parameters.values()}
        for position, place in enumerate(parsed.outputs):
            column = columns.get(place)
            if column is not None and column.is_unique and place not in asked:
                # Rows that a function chose are at work; rows that are new may be.
                taken = Taken(statement=name, column=position)
                if parsed.kind == "insert":
                    givers.setdefault(place, taken)
                else:
                    givers[place] = taken
    return givers


class KeySources:
    """Changes the sources of keys in the steps of one template."""

    def __init__(
        self,
        columns: Mapping[Place, ColumnShape],
        keys: Mapping[str, list[tuple[str, ...]]],
        givers: Mapping[Place, Taken],
    ) -> None:
        self._columns, self._keys, self._givers = columns, keys, givers

    def changed(
        self,
        steps: Sequence[Step],
        parsed: Sequence[Parsed],
        is_used_once: Callable[[int, int, float], bool] = lambda *_: True,
    ) -> list[Step]:
        """Return the steps with their keys.

        Args: is_used_once, whether the mean value of a parameter (step, place) was seen at most so
        many times.
        """
        sources = [list(step.parameters) for step in steps]
        own = {step.statement for step in steps}
        for number, statement in enumerate(parsed):
            for position in list(self._ends_a_row(statement)):
                root = _root(sources, number, position)
                # A function may give the same key again, such as that of a job for another try.
                most = 1.0 if statement.kind == "delete" else _TIMES_MAX
                if root is None or not is_used_once(*root, most):
                    continue
                self._take(sources, root, own)
            if statement.written and statement.kind in ("insert", "update"):
                self._renew(sources, number, parsed)
        return [
            step.model_copy(update={"parameters": tuple(changed)})
            for step, changed in zip(steps, sources, strict=True)
        ]

    def _ends_a_row(self, parsed: Parsed) -> Iterator[int]:
        """Yield the places of keys whose row is deleted, or changed by a function."""
        for number, use in parsed.parameters.items():
            column = self._columns.get((use.table, use.column))
            if column is None or not column.is_unique or use.use not in ("equal", "list"):
                continue
            is_deleted = parsed.kind == "delete" and use.table == parsed.written
            if is_deleted or (use.argument is not None and not parsed.reads_only):
                yield number - 1

    def _take(self, sources: list[list[Source]], root: tuple[int, int], own: set[str]) -> None:
        step, position = root
        source = sources[step][position]
        inner = source.of if isinstance(source, ListOf) else source
        if not isinstance(inner, OfColumn):
            return
        taken = self._givers.get((inner.table, inner.column))
        if taken is None or taken.statement in own:
            return
        if isinstance(source, ListOf):
            sources[step][position] = source.model_copy(update={"of": taken})
        else:
            sources[step][position] = taken

    def _renew(self, sources: list[list[Source]], number: int, parsed: Sequence[Parsed]) -> None:
        """Give unique columns values that no row has, unless their row is new anyway."""
        statement = parsed[number]
        if re.search(r"\bON\s+CONFLICT\b", statement.text, re.I):
            return
        wanted = "insert" if statement.kind == "insert" else "set"
        places = {
            use.column: position - 1
            for position, use in statement.parameters.items()
            if use.use == wanted and use.table == statement.written
        }
        for key in self._keys.get(statement.written, ()):
            given = [(name, places[name]) for name in key if name in places]
            if statement.kind == "insert" and len(given) < len(key) - (len(key) > 1):
                continue
            if not given or any(_is_new(sources, number, at, parsed) for _, at in given):
                continue
            for name, at in reversed(given):
                column = self._columns.get((statement.written, name))
                if column is None or column.references is not None:
                    continue
                if column.distribution.kind in _FRESH_KINDS:
                    sources[number][at] = fresh(column)
                    break
            else:
                if statement.kind == "update" and len(key) == 1:
                    self._keep(sources[number], given[0][1], statement, key[0])

    def _keep(self, sources: list[Source], at: int, statement: Parsed, name: str) -> None:
        """Let an UPDATE write the unique key that its row has: another row has any other one."""
        own = statement.written
        group = 1 + max((s.group or 0 for s in sources if isinstance(s, OfColumn)), default=0)
        for number, use in statement.parameters.items():
            column = self._columns.get((use.table, use.column))
            source = sources[number - 1]
            is_key = use.use == "equal" and use.table == own and column and column.is_unique
            if is_key and isinstance(source, OfColumn) and source.table == own:
                sources[number - 1] = source.model_copy(update={"group": group})
                sources[at] = OfColumn(table=own, column=name, group=group)
                return
        column = self._columns.get((own, name))
        if column is not None and not column.is_not_null:
            sources[at] = Constant(value=None)


def fresh(column: ColumnShape) -> Source:
    """Return a value that no row of a column has; NULL as often as there."""
    nulls = column.distribution.null_fraction
    if nulls and column.distribution.kind == "text":
        shape = Distribution(kind="text", distinct=_UNIQUE_TEXTS, width=16, null_fraction=nulls)
        return Drawn(distribution=shape)
    return Fresh(table=column.table, column=column.column)


def _root(sources: Sequence[Sequence[Source]], step: int, position: int) -> tuple[int, int] | None:
    """Return the parameter whose value this one has, itself if it has its own."""
    for _ in range(len(sources) + 1):
        if not 0 <= step < len(sources) or position >= len(sources[step]):
            return None
        source = sources[step][position]
        inner = source.of if isinstance(source, ListOf) else source
        if not isinstance(inner, Equal):
            return step, position
        step, position = inner.step, inner.parameter
    return None


def _is_new(
    sources: Sequence[Sequence[Source]], step: int, position: int, parsed: Sequence[Parsed]
) -> bool:
    """Return whether a parameter has a value that no row had before the transaction."""
    root = _root(sources, step, position)
    source = sources[root[0]][root[1]] if root is not None else None
    if isinstance(source, Returned):
        return parsed[source.step].kind == "insert"
    return isinstance(source, Fresh)
