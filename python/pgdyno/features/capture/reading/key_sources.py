"""Keys of a template that must not be used twice: new values, and values of other transactions.

A statement that changes a row by its key, and each key once, takes the key that another transaction
returned: of a queue, or of an INSERT that has just made it. A unique column of an INSERT gets
values that no row has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache

from pgdyno.engine.distribution import Distribution
from pgdyno.features.capture.model import (
    Constant,
    Drawn,
    Equal,
    Fresh,
    Linear,
    ListOf,
    OfColumn,
    Record,
    Returned,
    Source,
    Step,
    Taken,
    parts_of,
)
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.schema import ColumnShape, SchemaObject, key_columns

Place = tuple[str, str]
# As many different texts that no two are the same.
_UNIQUE_TEXTS = 1e15
_TIMES_MAX = 4.0
# Two kinds of transactions that always follow each other differ by those in flight.
_IN_FLIGHT_RATIO = 0.1
FRESH_KINDS = ("integer", "text", "uuid", "timestamp", "timestamptz")


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
        is_key = item.kind in ("unique", "index")
        if is_key and (names := key_columns(item.sql, with_lower=True)):
            keys.setdefault(item.table, []).append(names)
    return {table: list(dict.fromkeys(known)) for table, known in keys.items()}


def children_of(
    columns: Iterable[ColumnShape], objects: Iterable[SchemaObject], rows: Mapping[str, float]
) -> dict[str, set[str]]:
    """Return the tables with rows that refer to each table, and are not deleted with its rows."""
    follows = re.compile(r"\bON DELETE (?:CASCADE|SET)\b", re.I)
    keys = [item for item in objects if item.kind == "foreign_key"]
    free = {item.table for item in keys if follows.search(item.sql)}
    children: dict[str, set[str]] = {}
    for column in columns:
        if column.references and column.table not in free and rows.get(column.table, 0) > 0:
            children.setdefault(column.references.table, set()).add(column.table)
    return children


def givers_of(
    statements: Iterable[tuple[str, Parsed, float]], columns: Mapping[Place, ColumnShape]
) -> dict[Place, dict[Taken, float]]:
    """Return the statements that return keys of each unique column while they change rows.

    Args: id, text and rows of each statement. Returns: with each, how many rows it returns.
    """
    givers: dict[Place, dict[Taken, float]] = {}
    for name, parsed, rows in statements:
        if parsed.reads_only or parsed.reason:
            continue
        uses = [use for use in parsed.parameters.values() if not _is_written(use)]
        asked = {(use.table, use.column) for use in uses}
        for position, place in enumerate(parsed.outputs):
            column = columns.get(place)
            if column is not None and _is_key(column) and place not in asked:
                givers.setdefault(place, {})[Taken(statement=name, column=position)] = rows
    return givers


def _is_key(column: ColumnShape) -> bool:
    """Return whether a value is of one row; a UUID of a key is, as `id` of `(name, id)`."""
    return column.is_unique or (
        bool(column.key_position) and column.distribution.kind == "uuid" and not column.references
    )


def _is_written(use: Parameter) -> bool:
    return use.use == "insert" or use.writes_elements


def takes_from_a_queue(parsed: Parsed) -> bool:
    """Return whether a statement that gives keys has chosen rows that were there."""
    return parsed.kind in ("update", "delete") or parsed.locks_rows


def those_with_most_keys_first(kinds: Sequence[tuple[Sequence[Step], float]]) -> list[int]:
    """Return the places of kinds of transactions, each with its calls, by the keys that they use.

    So a batch of keys is taken from the statement that gives as many.
    """

    def keys(place: int) -> float:
        steps, calls = kinds[place]
        lists = [own for step in steps for own in step.parameters if isinstance(own, ListOf)]
        return -calls * max((own.length.mean for own in lists), default=1.0)

    return sorted(range(len(kinds)), key=keys)


@dataclass(frozen=True, slots=True)
class User:
    """The statements of a transaction that uses keys, and how many keys it uses.

    `use_count_max`: how often it uses a key, on average. `is_of_queue`: only those of a queue.
    """

    own: AbstractSet[str]
    keys: float
    use_count_max: float = 1.0
    is_of_queue: bool = False


class KeySources:
    """Changes the sources of keys in the steps of one template."""

    def __init__(
        self,
        columns: Mapping[Place, ColumnShape],
        keys: Mapping[str, list[tuple[str, ...]]],
        givers: Mapping[Place, dict[Taken, float]],
        children: Mapping[str, AbstractSet[str]],
        queues: AbstractSet[str] = frozenset(),
    ) -> None:
        """Args: children, of each table those whose rows forbid that a row of it is deleted;
        queues, statements that take from one.
        """
        self._columns, self._keys, self._givers = columns, keys, givers
        self._left = {place: dict(given) for place, given in givers.items()}
        self._children, self._queues = children, queues

    def changed(
        self,
        steps: Sequence[Step],
        parsed: Sequence[Parsed],
        is_used_once: Callable[[int, int, float], bool] = lambda *_: True,
        are_new: Callable[[int, int], bool] = lambda *_: False,
        *,
        calls: float,
    ) -> list[Step]:
        """Return the steps with their keys.

        Args: calls, how many transactions the template has; is_used_once, whether the mean value
        of a parameter (step, place) was seen at most as often as the number given; are_new,
        whether its values were made shortly before.
        """
        sources = [list(step.parameters) for step in steps]
        own = {step.statement for step in steps}
        for number, statement in enumerate(parsed):
            is_delete = statement.kind == "delete"
            is_lonely = is_delete and self._leaves_children(number, parsed)
            # A function may give the same key again, such as that of a job for another try.
            most = 1.0 if is_delete else _TIMES_MAX
            ends, changes = self._ends_a_row(statement), self._changes_a_row(statement)
            for position, is_end in [(a, True) for a in ends] + [(a, False) for a in changes]:
                root = root_of(sources, number, position)
                if root is None or not is_used_once(*root, most):
                    continue
                user = User(own, calls, most, not is_end and not are_new(*root))
                self._take(sources, root, user, is_lonely=is_lonely)
            if statement.written and statement.kind in ("insert", "update"):
                self._renew(sources, number, parsed)
        return [_with_sources(step, changed) for step, changed in zip(steps, sources, strict=True)]

    def _ends_a_row(self, parsed: Parsed) -> Iterator[int]:
        """Yield the places of keys whose row is deleted, or changed by a function."""
        for number, use in parsed.parameters.items():
            column = self._columns.get((use.table, use.column))
            if column is None or not column.is_unique or use.use not in ("equal", "list"):
                continue
            is_deleted = parsed.kind == "delete" and use.table == parsed.written
            if is_deleted or (use.argument is not None and not parsed.reads_only):
                yield number - 1

    def _changes_a_row(self, parsed: Parsed) -> Iterator[int]:
        """Yield the places of keys whose row is changed."""
        if parsed.reads_only or parsed.kind in ("insert", "delete"):
            return
        for number, use in parsed.parameters.items():
            column = self._columns.get((use.table, use.column))
            is_key = column is not None and _is_key(column) and use.argument is None
            if is_key and use.use in ("equal", "list") and not use.writes_elements:
                yield number - 1
        for number, parts in parsed.documents.items():
            if any((own := self._columns.get(p)) and _is_key(own) for p in parts.values()):
                yield number - 1

    def _leaves_children(self, number: int, parsed: Sequence[Parsed]) -> bool:
        """Return whether a DELETE has rows of other tables that no step before it changes."""
        changed = {statement.written for statement in parsed[:number]}
        own = parsed[number].written
        return bool(self._children.get(own, frozenset()) - changed - {own})

    def _take(
        self,
        sources: list[list[Source]],
        root: tuple[int, int],
        user: User,
        *,
        is_lonely: bool,
    ) -> None:
        """Let a parameter take the key of another transaction.

        If its row has children, the original found no row: then it gets a key that no row has.
        """
        step, position = root
        source = sources[step][position]
        inner = source.of if isinstance(source, ListOf) else source
        document = inner if isinstance(inner, Record) else None
        parts = (inner,) if document is None else document.fields
        keyed = [at for at, part in enumerate(parts) if isinstance(part, OfColumn)]
        if not keyed or not isinstance(key := parts[keyed[0]], OfColumn):
            return
        place = key.table, key.column
        if isinstance(source, ListOf):
            user = replace(user, keys=user.keys * source.length.mean)
        taken: Source | None = self.giver(place, user)
        if is_lonely:
            taken = of_no_row(self._columns[place]) or taken
        if taken is None:
            return
        if document is not None:
            fields = (*parts[: keyed[0]], taken, *parts[keyed[0] + 1 :])
            taken = document.model_copy(update={"fields": fields})
        if isinstance(source, ListOf):
            sources[step][position] = source.model_copy(update={"of": taken})
        else:
            sources[step][position] = taken

    def giver(self, place: Place, user: User) -> Taken | None:
        """Return the statement that gives least, but enough; its keys are taken then.

        Of several that are too rare: the most frequent one, if its keys are not used too often.
        """
        given, left = self._givers.get(place, {}), self._left.get(place, {})
        others = [taken for taken in given if taken.statement not in user.own]
        if user.is_of_queue:
            others = [taken for taken in others if taken.statement in self._queues]
        if not others:
            return None
        near = [t for t in others if left[t] - user.keys >= -_IN_FLIGHT_RATIO * given[t]]
        # Who fetches jobs from a queue also ends them.
        queued = [t for t in near if t.statement in self._queues]
        others = near = queued or near or others
        enough = [t for t in others if left[t] >= user.keys] or near
        chosen = min(enough, key=left.__getitem__) if enough else max(others, key=left.__getitem__)
        if user.use_count_max > 1 and user.keys > user.use_count_max * given[chosen]:
            return None
        left[chosen] -= user.keys
        return chosen

    def _renew(self, sources: list[list[Source]], number: int, parsed: Sequence[Parsed]) -> None:
        """Give unique columns values that no row has, unless their row is new anyway."""
        statement = parsed[number]
        if _settles_conflicts(statement.text):
            return
        wanted = "insert" if statement.kind == "insert" else "set"
        places = {
            use.column: position - 1
            for position, use in statement.parameters.items()
            if use.use == wanted and use.table == statement.written
        }
        for name, at in places.items():
            column, source = self._columns.get((statement.written, name)), sources[number][at]
            is_free = column is not None and not column.is_not_null and column.references
            if is_free and isinstance(source, Fresh) and source.table == statement.written:
                # No row has this key, so none can refer to it.
                sources[number][at] = Constant(value=None)
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
                if column.distribution.kind in FRESH_KINDS:
                    sources[number][at] = fresh(column)
                    break
            else:
                if len(key) == 1:
                    self._refer_once(sources[number], given[0][1], statement, key[0])

    def _refer_once(self, sources: list[Source], at: int, parsed: Parsed, name: str) -> None:
        """Give a unique column whose value is the key of another row no key that a row has.

        An UPDATE writes the key that its row has: another row has any other one.
        """
        own = parsed.written
        group = 1 + max((s.group or 0 for s in sources if isinstance(s, OfColumn)), default=0)
        for number, use in parsed.parameters.items() if parsed.kind == "update" else ():
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


@lru_cache(maxsize=10_000)
def _settles_conflicts(text: str) -> bool:
    return re.search(r"\bON\s+CONFLICT\b", text, re.I) is not None


def _with_sources(step: Step, sources: Sequence[Source]) -> Step:
    """Return a step with its sources. Without a key to take, a program would not send it."""
    taken = {
        place
        for place, own in enumerate(sources)
        if any(isinstance(part, Taken) for part in parts_of(own))
    }
    optional = tuple(place for place in step.optional if place not in taken)
    return step.model_copy(update={"parameters": tuple(sources), "optional": optional})


def of_no_row(column: ColumnShape) -> Source | None:
    """Return a key that no row has or gets; None if it is not known."""
    shape = column.distribution
    values = [*shape.bounds, *(hot.value for hot in shape.hot)]
    if shape.kind == "integer":
        # A new key could be the next one of a sequence.
        return None if any(value.startswith("-") for value in values) else Constant(value="-1")
    return fresh(column) if shape.kind in FRESH_KINDS else None


def fresh(column: ColumnShape) -> Source:
    """Return a value that no row of a column has; NULL as often as there."""
    nulls = column.distribution.null_fraction
    if nulls and column.distribution.kind == "text":
        shape = Distribution(kind="text", distinct=_UNIQUE_TEXTS, width=16, null_fraction=nulls)
        return Drawn(distribution=shape)
    return Fresh(table=column.table, column=column.column)


def root_of(
    sources: Sequence[Sequence[Source]], step: int, position: int
) -> tuple[int, int] | None:
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
    root = root_of(sources, step, position)
    source = sources[root[0]][root[1]] if root is not None else None
    if isinstance(source, Returned):
        giver = parsed[source.step]
        # Of a counter, each value is returned once.
        return giver.kind == "insert" or bool(giver.adds)
    return isinstance(source, Fresh) or (isinstance(source, Linear) and source.column is not None)
