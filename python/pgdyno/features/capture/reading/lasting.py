"""Rows that last: a load deletes no row that it needs later.

A statement that refers to an existing row, such as an INSERT with a foreign key, takes a row that
was there before the load. If the load deletes rows of this table, too, then only those that it has
made itself: their keys come from the transactions that made them. So a row that one client deletes
is never the one to which another client refers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from pgdyno.engine.distribution import Spread
from pgdyno.features.capture.model import (
    Constant,
    Fresh,
    Linear,
    ListOf,
    OfColumn,
    Returned,
    Source,
    Taken,
    Template,
)
from pgdyno.features.capture.reading.key_sources import KeySources, Place, User, of_no_row, root_of
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.schema import ColumnShape, KeyReference, SchemaObject

_CASCADES = re.compile(r"\bON DELETE CASCADE\b", re.I)
# A parameter: its step, and its place there. Of a row that an INSERT returned, the place is -1.
Origin = tuple[int, int]


class TransactionKind:
    """One kind of transaction: its sources, and what its statements say."""

    def __init__(self, template: Template, parsed: Mapping[str, Parsed]) -> None:
        self.template = template
        self.parsed = [parsed[step.statement] for step in template.steps]
        self.sources: list[list[Source]] = [list(step.parameters) for step in template.steps]

    def changed(self) -> Template:
        """Return the template with the sources as they are now."""
        steps = zip(self.template.steps, self.sources, strict=True)
        new = tuple(step.model_copy(update={"parameters": tuple(own)}) for step, own in steps)
        return self.template.model_copy(update={"steps": new})

    def root(self, step: int, position: int) -> tuple[Origin, Source] | None:
        """Return the parameter from which a value comes, and its source."""
        place = root_of(self.sources, step, position)
        if place is None:
            return None
        source = self.sources[place[0]][place[1]]
        return place, source.of if isinstance(source, ListOf) else source

    def put(self, step: int, position: int) -> Callable[[Source], None]:
        """Return what gives a parameter another source; of a list, to its elements."""
        own = self.sources[step]
        is_list = self.parsed[step].parameters[position + 1].use == "list"

        def change(source: Source) -> None:
            before = own[position]
            if isinstance(before, ListOf):
                own[position] = before.model_copy(update={"of": source})
            else:
                own[position] = ListOf(of=source, length=Spread()) if is_list else source

        return change

    def written(self) -> Iterator[tuple[int, int, Place]]:
        """Yield the steps and places of parameters that are written into columns."""
        for number, statement in enumerate(self.parsed):
            for position, use in statement.parameters.items():
                if use.use in ("insert", "set") or use.writes_elements:
                    yield number, position - 1, (use.table, use.column)


class LastingRows:
    """Changes the kinds of transactions of a load so that rows last to which others refer."""

    def __init__(
        self,
        columns: Mapping[Place, ColumnShape],
        objects: Iterable[SchemaObject],
        rows: Mapping[str, float],
        kinds: Sequence[TransactionKind],
    ) -> None:
        self._columns = columns
        keys = [item for item in objects if item.kind == "foreign_key"]
        self._follows = {item.table for item in keys if _CASCADES.search(item.sql)}
        self._children: dict[str, list[ColumnShape]] = defaultdict(list)
        for column in columns.values():
            if column.references is not None:
                self._children[column.references.table].append(column)
        # Columns that get the keys of rows that the load has made, and of others.
        self._of_new: set[Place] = set()
        self._of_old: set[Place] = set()
        for kind in kinds:
            self._note_references(kind)
        # Tables with rows, now or later.
        self._filled = {table for table, count in rows.items() if count > 0}
        self._filled |= {p.written for kind in kinds for p in kind.parsed if p.kind == "insert"}
        held = {reference.table for place in self._of_old if (reference := self._target(place))}
        deleted = {p.written for kind in kinds for p in kind.parsed if p.kind == "delete"}
        self._lasting = {table for table in deleted if self._gone_with(table) & held}
        self._gone = {gone for table in self._lasting for gone in self._gone_with(table)}

    def change(self, kind: TransactionKind, keys: KeySources, calls: float) -> None:
        """Change the sources of one kind of transaction. `calls`: its transactions."""
        if not self._lasting:
            return
        for step, position, place in kind.written():
            self._refer(kind, step, position, place)
        for step, statement in enumerate(kind.parsed):
            if statement.kind == "delete" and statement.written in self._lasting:
                self._delete(kind, step, keys, calls)

    def _note_references(self, kind: TransactionKind) -> None:
        for step, position, place in kind.written():
            if self._target(place) is None:
                continue
            root = kind.root(step, position)
            match root and root[1]:
                case Constant():
                    pass
                case Fresh() | Taken():
                    self._of_new.add(place)
                case Returned(step=giver) if kind.parsed[giver].kind == "insert":
                    self._of_new.add(place)
                case _:
                    self._of_old.add(place)

    def _target(self, place: Place) -> KeyReference | None:
        column = self._columns.get(place)
        return None if column is None else column.references

    def _gone_with(self, table: str) -> set[str]:
        """Return the tables whose rows are deleted together with those of a table."""
        gone, grows = {table}, True
        while grows:
            more = {c.table for t in gone for c in self._children[t]} & self._follows
            grows = not more <= gone
            gone |= more
        return gone

    def _refer(self, kind: TransactionKind, step: int, position: int, place: Place) -> None:
        """Let a row refer to one that lasts, and not to one that a step found."""
        reference, root = self._target(place), kind.root(step, position)
        if reference is None or root is None or reference.table not in self._gone:
            return
        is_found = isinstance(root[1], Returned | Linear) and not self._columns[place].is_unique
        is_list = kind.parsed[step].parameters[position + 1].writes_elements
        if is_found and not is_list and not self._own(kind, step, position):
            kind.sources[step][position] = OfColumn(table=reference.table, column=reference.column)

    def _delete(self, kind: TransactionKind, step: int, keys: KeySources, calls: float) -> None:
        """Let a DELETE find only rows that the load has made, and to which none refers."""
        parsed = kind.parsed[step]
        table = parsed.written
        uses = {
            number - 1: self._columns.get((table, use.column))
            for number, use in parsed.parameters.items()
            if use.table == table and use.use in ("equal", "list", "range")
        }
        unique = {place: column for place, column in uses.items() if column and column.is_unique}
        are_safe = {place: self._is_safe(kind, step, place) for place in uses}
        if not unique and any(are_safe.values()):
            return
        # In a list such as IN ($1, $2) each key finds a row.
        for position in unique or uses:
            if are_safe[position]:
                continue
            put, column = kind.put(step, position), unique.get(position)
            if column is not None and not self._own(kind, step, position):
                statements = {item.statement for item in kind.template.steps}
                user = User(kind.template.steps[step].statement, statements, calls)
                if taken := keys.giver((table, column.column), user):
                    put(taken)
                    if self._is_safe(kind, step, position):
                        continue
            put((column and of_no_row(column)) or Constant(value=None))

    def _is_safe(self, kind: TransactionKind, step: int, position: int) -> bool:
        own = self._own(kind, step, position)
        return bool(own) and self._is_left(kind, step, own)

    def _is_left(self, kind: TransactionKind, step: int, own: AbstractSet[Origin]) -> bool:
        """Return whether no row refers to the rows that a DELETE removes, or none that stays."""
        table = kind.parsed[step].written
        for child in self._children[table]:
            place = (child.table, child.column)
            if child.table == table or child.table in self._follows:
                continue
            is_known = place in self._of_old and place not in self._of_new
            may_refer = child.table in self._filled and not is_known
            if may_refer and not self._is_changed(kind, child.table, own):
                return False
        return True

    def _is_changed(self, kind: TransactionKind, table: str, own: AbstractSet[Origin]) -> bool:
        """Return whether a step changes the rows of a table that belong to these keys."""
        return any(
            self._own(kind, step, number - 1) & own
            for step, parsed in enumerate(kind.parsed)
            if parsed.kind in ("delete", "update") and parsed.written == table
            for number, use in parsed.parameters.items()
            if use.table == table and use.use in ("equal", "list")
        )

    def _own(
        self,
        kind: TransactionKind,
        step: int,
        position: int,
        seen: AbstractSet[Origin] = frozenset(),
    ) -> AbstractSet[Origin]:
        """Return the keys of new rows from which a parameter follows; none for other rows."""
        root = kind.root(step, position)
        if root is None or root[0] in seen:
            return frozenset()
        place, source = root
        if isinstance(source, Taken | Fresh):
            return {place}
        if not isinstance(source, Returned):
            return frozenset()
        giver = kind.parsed[source.step]
        if giver.kind == "insert":
            return {(source.step, -1)}
        use = kind.parsed[step].parameters[position + 1]
        target = self._target((use.table, use.column))
        table = target.table if target else use.table
        origins: set[Origin] = set()
        for number, by in giver.parameters.items():
            if by.use in ("equal", "list") and self._leads_to((by.table, by.column), table):
                origins |= self._own(kind, source.step, number - 1, seen | {place})
        return origins

    def _leads_to(self, place: Place, table: str) -> bool:
        """Return whether a new row that is found by a column belongs to a new row of a table."""
        column = self._columns.get(place)
        if column is None or place[0] == table:
            return column is not None and (column.is_unique or column.references is not None)
        parents = [(c.table, c.column) for c in self._children[table] if c.table == place[0]]
        are_new = [parent in self._of_new - self._of_old for parent in parents]
        return column.is_unique and bool(are_new) and all(are_new)
