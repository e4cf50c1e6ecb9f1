"""Columns that hold the same keys, and the earlier value of a transaction that is such a key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from pgdyno.features.capture.model import Equal, Returned, Source
from pgdyno.features.capture.reading.parameter_uses import Parameter
from pgdyno.features.capture.reading.parsed import Parsed
from pgdyno.features.capture.schema import ColumnShape


@lru_cache(maxsize=10_000)
def may_return_nothing(text: str) -> bool:
    """Return whether an INSERT returns no key if the row is there: ON CONFLICT DO NOTHING."""
    return re.search(r"\bDO\s+NOTHING\b", text, re.I) is not None


class KeyFamilies:
    """Families of columns that foreign keys, or their names, join."""

    def __init__(self, columns: Sequence[ColumnShape]) -> None:
        self._columns = {(column.table, column.column): column for column in columns}
        self._key_columns: dict[str, list[ColumnShape]] = {}
        for column in columns:
            if column.key_position:
                self._key_columns.setdefault(column.table, []).append(column)
        self._families: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self._key_by_place: dict[tuple[str, str], ColumnShape | None] = {}

    def column(self, use: Parameter) -> ColumnShape | None:
        """Return the column of a parameter, if it has one."""
        return self._columns.get((use.table, use.column))

    def family_of_key(self, place: tuple[str, str]) -> tuple[str, str] | None:
        """Return one column for the family of a column that holds keys; None of any other."""
        if place not in self._columns or not self.is_key(place):
            return None
        return min(self._family(place))

    def level(self, table: str, seen: frozenset[str] = frozenset()) -> int:
        """Return how many foreign keys lead from a table to one without; circles end."""
        if not table or table in seen:
            return 0
        parents = {
            column.references.table
            for column in self._columns.values()
            if column.table == table and column.references is not None
        }
        return max((1 + self.level(parent, seen | {table}) for parent in parents), default=0)

    def dependency(
        self, earlier: Sequence[tuple[Parsed, dict[int, Parameter]]], place: tuple[str, str]
    ) -> Source | None:
        """Return the value that an earlier step returned or used for the same key."""
        if place not in self._columns or not self.is_key(place):
            return None
        alike = self._family(place)
        # A step that returns the column itself is nearer than one that refers to it.
        for step in reversed(range(len(earlier))):
            parsed, parameters = earlier[step]
            if may_return_nothing(parsed.text):
                continue
            if place in parsed.outputs and not self._is_asked(parameters, place):
                return Returned(step=step, column=parsed.outputs.index(place))
        for step in reversed(range(len(earlier))):
            parsed, parameters = earlier[step]
            # A row that an UPDATE returns exists; one that it was asked for may not.
            is_new = parsed.kind in ("insert", "update")
            for position, output in enumerate(parsed.outputs):
                if may_return_nothing(parsed.text):
                    break
                if output in alike and (is_new or not self._is_asked(parameters, output)):
                    return Returned(step=step, column=position)
            for number, other in parameters.items():
                if (other.table, other.column) in alike and other.use in ("equal", "insert"):
                    return Equal(step=step, parameter=number - 1)
        return None

    def of_the_same_row(
        self,
        parsed: Parsed,
        earlier: Sequence[tuple[Parsed, dict[int, Parameter]]],
        use: Parameter,
    ) -> Source | None:
        """Return the value of a column that an earlier step returned with the row's key.

        So `WHERE id = $2 AND version = $3` has the version of the row that was read.
        """
        place = (use.table, use.column)
        equal = {
            (p.table, p.column)
            for p in parsed.parameters.values()
            if p.use == "equal" and p.table == use.table
        }
        keys = {own for own in equal if own in self._columns and self.is_key(own)} - {place}
        for step in reversed(range(len(earlier))):
            before, parameters = earlier[step]
            asked = {(p.table, p.column) for p in parameters.values() if p.use == "equal"}
            if keys and place in before.outputs and keys <= {*before.outputs, *asked}:
                return Returned(step=step, column=before.outputs.index(place))
        return None

    @staticmethod
    def _is_asked(parameters: Mapping[int, Parameter], place: tuple[str, str]) -> bool:
        """Return whether a step returns only what it was asked with."""
        uses = ("equal", "list")
        return any((p.table, p.column) == place and p.use in uses for p in parameters.values())

    def list_before(
        self, earlier: Sequence[tuple[Parsed, dict[int, Parameter]]], place: tuple[str, str]
    ) -> Equal | None:
        """Return the list of an earlier step that has the same keys."""
        if place not in self._columns or not self.is_key(place):
            return None
        alike = self._family(place)
        for step in reversed(range(len(earlier))):
            for number, other in earlier[step][1].items():
                is_list = other.use == "list" and other.operator != "unnest"
                if is_list and (other.table, other.column) in alike:
                    return Equal(step=step, parameter=number - 1)
        return None

    def key_of(self, column: ColumnShape) -> ColumnShape | None:
        """Return the unique column whose keys a column holds, if it is another one."""
        if column.is_unique or column.key_position:
            return None
        place = (column.table, column.column)
        if place not in self._key_by_place:
            family = [self._columns[other] for other in self._family(place)]
            self._key_by_place[place] = next((other for other in family if other.is_unique), None)
        return self._key_by_place[place]

    def is_key(self, place: tuple[str, str]) -> bool:
        """Return whether a column holds keys, or has the name of a column that does."""
        return any(
            column.is_unique or column.key_position or column.references
            for other in self._family(place)
            for column in (self._columns[other],)
        )

    def _family(self, place: tuple[str, str]) -> set[tuple[str, str]]:
        """Return the columns that hold the same keys: joined by foreign keys."""
        if place in self._families:
            return self._families[place]
        family, grows = {place}, True
        while grows:
            grows = False
            for other, column in self._columns.items():
                reference = column.references
                target = (reference.table, reference.column) if reference else None
                if target in self._columns and ((other in family) != (target in family)):
                    family |= {other, *(t for t in (target,) if t)}
                    grows = True
        if len(family) == 1:
            family |= self._named_like(place)
            # Two columns may have the keys of a third: o_w_id and d_w_id those of w_id.
            for key in [other for other in family if self._is_name_of_key(other, place)]:
                family |= self._named_like(key)
        self._families[place] = family
        return family

    def _named_like(self, place: tuple[str, str]) -> set[tuple[str, str]]:
        own = self._columns[place]
        alike = {other for other, column in self._columns.items() if _are_named_alike(own, column)}
        return alike | {place}

    def _is_name_of_key(self, place: tuple[str, str], longer: tuple[str, str]) -> bool:
        column = self._columns[place]
        is_key = column.is_unique or column.key_position > 0
        return is_key and len(column.column) < len(longer[1])

    def is_last_of_key(self, column: ColumnShape) -> bool:
        """Return whether a column makes the key of several columns unique: the last one.

        Not if the server makes the value of another one, as in `(id, at)` of a partitioned table.
        """
        own = self._key_columns.get(column.table, [])
        is_made = any(c.identity or c.sequence for c in own if c.column != column.column)
        return column in own and column.key_position == len(own) and not is_made


def _are_named_alike(own: ColumnShape, other: ColumnShape) -> bool:
    """Return whether columns without a foreign key hold the same keys, by their names and types.

    One name ends with the other: o_c_id has keys of c_id.
    """
    short, long = sorted((own.column, other.column), key=len)
    is_end = long == short or (long.endswith(f"_{short}") and "_" in short)
    return is_end and own.type == other.type and short != "id"
