"""Keys and foreign keys of a copy: which columns depend on others. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

from pgdyno.engine.distribution import Distribution
from pgdyno.features.capture.model import Capture
from pgdyno.features.capture.ranks import ranks_in, unique
from pgdyno.features.capture.schema import ColumnShape, TableShape, key_columns

# Fewer combinations than this for each row may be too few, because statistics are estimates.
_ROOM_RATIO = 1.02
# Correlations from which, and below which, rows are sorted by a column and are not.
_SORTED, _UNSORTED = 0.9, 0.5


@dataclass(frozen=True, slots=True)
class CopyColumn:
    """A column of the copy."""

    shape: ColumnShape
    distribution: Distribution


@dataclass(frozen=True, slots=True)
class CopyTable:
    """A table of the copy that has rows.

    `keys`: columns of which no two rows have the same values. `links`: foreign keys of several
    columns, as the engine's job has them.
    """

    shape: TableShape
    rows: int
    columns: dict[str, CopyColumn]
    keys: tuple[tuple[str, ...], ...] = ()
    links: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Refers:
    """A foreign key. `pairs`: column of the table, and column of the referenced table."""

    name: str
    table: str
    pairs: tuple[tuple[str, str], ...]


def foreign_keys(capture: Capture) -> dict[str, list[Refers]]:
    """Return the foreign keys of each table."""
    pairs_of: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for column in capture.columns:
        if (to := column.references) is not None:
            name = to.constraint or column.column
            pairs_of.setdefault((column.table, name, to.table), []).append(
                (column.column, to.column)
            )
    tables: dict[str, list[Refers]] = {}
    for (table, name, to_table), pairs in pairs_of.items():
        tables.setdefault(table, []).append(Refers(name, to_table, tuple(pairs)))
    return tables


def with_keys(
    capture: Capture, tables: dict[str, CopyTable]
) -> tuple[dict[str, CopyTable], dict[str, str]]:
    """Return the tables with their keys and references, and the constraints that cannot hold.

    The constraints are by name, each with the reason.
    """
    keys = _Keys(capture, tables)
    keys.refer()
    for name in tables:
        keys.join(name)
    return keys.tables, keys.left_out


class _Keys:
    def __init__(self, capture: Capture, tables: dict[str, CopyTable]) -> None:
        self.capture = capture
        self.tables = dict(tables)
        self.left_out: dict[str, str] = {}
        self.foreign = foreign_keys(capture)
        for name, refers in _counted_together(capture, self.foreign):
            self.foreign.setdefault(name, []).append(refers)

    def refer(self) -> None:
        """Make ranks of the columns with a foreign key of one column."""
        done: set[tuple[str, str]] = set()
        for table in self.tables:
            for key in self.foreign.get(table, ()):
                if len(key.pairs) == 1:
                    self._refer(table, key, done)

    def _refer(self, table: str, key: Refers, done: set[tuple[str, str]]) -> None:
        ((name, to_name),) = key.pairs
        if (table, name) in done:
            return
        done.add((table, name))
        parent, child = self.tables.get(key.table), self.tables[table]
        if parent is None or to_name not in parent.columns or name not in child.columns:
            self.left_out[key.name] = f"{key.table} is not in the copy"
            return
        # The referenced column may refer to another one.
        for other in self.foreign.get(key.table, ()):
            if len(other.pairs) == 1 and other.pairs[0][0] == to_name:
                self._refer(key.table, other, done)
        referenced = self.tables[key.table].columns[to_name].distribution
        column = self.tables[table].columns[name]
        own = column.distribution
        if referenced.distinct < 1 or parent.rows == 0:
            if column.shape.is_not_null:
                # The rows exist without the ones that they refer to.
                return
            self._put(table, name, own.model_copy(update={"null_fraction": 1.0}))
            return
        original = parent.columns[to_name].shape.distribution
        ranks = ranks_in(own, referenced, original if original.bounds else referenced)
        if column.shape.is_unique:
            ranks = unique(ranks, child.rows)
        if key.table == table:
            # Every tree has a root. Keys such as UUIDs have no order: its common parents are first.
            roots = 0.0 if column.shape.is_not_null else 1 / child.rows
            changes: dict[str, object] = {"null_fraction": max(ranks.null_fraction, roots)}
            if referenced.kind != "integer":
                hot = sorted(ranks.hot, key=lambda common: -common.fraction)
                numbered = [h.model_copy(update={"value": str(n)}) for n, h in enumerate(hot)]
                changes["hot"] = tuple(numbered)
            ranks = ranks.model_copy(update=changes)
        self._put(table, name, ranks)

    def _put(self, table: str, name: str, distribution: Distribution) -> None:
        made = self.tables[table]
        column = replace(made.columns[name], distribution=distribution)
        self.tables[table] = replace(made, columns={**made.columns, name: column})

    def join(self, name: str) -> None:
        """Find the keys and foreign keys of several columns of one table."""
        taken: set[str] = set()
        links: list[dict[str, Any]] = []
        wanted = list(self._keys_of(name))
        for key in self.foreign.get(name, ()):
            if len(key.pairs) > 1:
                link = self._link(name, key, wanted, taken)
                if link is None:
                    if key.name:
                        self.left_out[key.name] = "its columns have other conditions"
                    continue
                links.append(link)
                taken |= {*link["columns"], *link.get("extra", ())}
        keys: list[tuple[str, ...]] = []
        linked = [{*link["columns"], *link.get("extra", ())} for link in links]
        table = self.tables[name]
        for constraint, columns in wanted:
            whole = set(columns)
            if any(table.columns[c].shape.is_unique for c in columns if c in table.columns):
                continue
            if any(whole >= set(key) for key in keys):
                continue
            if any(whole == columns_of for columns_of in linked):
                continue
            if whole & taken or not whole <= table.columns.keys():
                self.left_out[constraint] = "its columns have other conditions"
                continue
            self._make_room(name, columns)
            keys.append(columns)
            taken |= whole
        self.tables[name] = replace(self.tables[name], keys=tuple(keys), links=tuple(links))

    def _keys_of(self, name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield name and columns of every key of several columns, the primary key first."""
        shapes = [column.shape for column in self.tables[name].columns.values()]
        positions = sorted((s.key_position, s.column) for s in shapes if s.key_position)
        objects = [item for item in self.capture.objects if item.table == name]
        if len(positions) > 1:
            primary = next((item.name for item in objects if item.kind == "primary_key"), "")
            yield primary, tuple(column for _, column in positions)
        for item in objects:
            if item.kind == "exclusion":
                self.left_out[item.name] = "values that exclude each other are not made"
            elif item.kind == "unique" or item.sql.startswith("CREATE UNIQUE INDEX"):
                columns = () if " WHERE " in item.sql else key_columns(item.sql)
                if not columns:
                    self.left_out[item.name] = "it is unique by an expression or a condition"
                elif len(columns) > 1:
                    yield item.name, columns

    def _link(
        self,
        name: str,
        key: Refers,
        wanted: list[tuple[str, tuple[str, ...]]],
        taken: set[str],
    ) -> dict[str, Any] | None:
        """Return a foreign key of several columns for the engine; None if it cannot be kept."""
        parent, child = self.tables.get(key.table), self.tables[name]
        by_referenced = {referenced: column for column, referenced in key.pairs}
        columns = set(by_referenced.values())
        if parent is None or columns & taken or not columns <= child.columns.keys():
            return None
        if key.table != name and not parent.keys and not parent.links:
            self.join(key.table)
            parent = self.tables[key.table]
        whole = next((k for k in parent.keys if set(k) == set(by_referenced)), None)
        if whole is None or key.table == name:
            return None
        ordered = [by_referenced[referenced] for referenced in whole]
        counts = [child.columns[column].distribution.distinct for column in ordered]
        nulls = max(child.columns[column].distribution.null_fraction for column in ordered)
        distinct = min(float(parent.rows), float(child.rows), prod(counts))
        extra: list[str] = []
        for _, own_key in wanted:
            if columns == set(own_key):
                distinct = float(child.rows)
            elif columns < set(own_key):
                extra = [column for column in own_key if column not in columns]
                self._make_room_for(name, extra, ceil(child.rows / max(1.0, distinct)))
        if distinct > parent.rows:
            return None
        leading = by_referenced[_leading([parent.columns[column] for column in whole])]
        ranks = Distribution(
            kind="integer",
            null_fraction=nulls,
            distinct=distinct,
            bounds=("0", str(max(0, parent.rows - 1))),
        )
        return {
            "columns": ordered,
            "table": key.table,
            "referenced": list(whole),
            "extra": extra,
            "distribution": ranks.model_dump(mode="json", exclude_none=True),
            "correlation": child.columns[leading].shape.correlation or 0.0,
        }

    def _make_room(self, name: str, columns: tuple[str, ...]) -> None:
        """Let the columns have as many combinations as the table has rows."""
        rows = self.tables[name].rows
        for column in columns:
            self._widen(name, column)
        self._make_room_for_hot(name, columns)
        if self._combinations(name, columns) >= rows * _ROOM_RATIO:
            return
        for column in columns:
            # Statistics are estimates: a key that seems to miss few of its references has all.
            ranks = self.tables[name].columns[column].distribution
            count = ranks.element.distinct if ranks.kind == "rank" and ranks.element else 0
            if ranks.kind == "rank" and ranks.distinct * _ROOM_RATIO**2 >= count:
                self._put(name, column, ranks.model_copy(update={"distinct": count}))
        if (combinations := self._combinations(name, columns)) < rows:
            made = self.tables[name].columns
            free = [c for c in columns if made[c].distribution.kind != "rank"] or [*columns]
            widest = max(free, key=lambda column: made[column].distribution.distinct)
            count = max(1, round(made[widest].distribution.distinct))
            self._make_room_for(name, [widest], ceil(rows * count / combinations))

    def _make_room_for_hot(self, name: str, columns: tuple[str, ...]) -> None:
        """Let a value with many rows keep them: the other columns have as many combinations."""
        table = self.tables[name]
        for column in columns:
            most = max((h.fraction for h in table.columns[column].distribution.hot), default=0.0)
            others = [c for c in columns if c != column]
            free = [c for c in others if self._kind(name, c) not in ("rank", "enum", "boolean")]
            if most * table.rows > self._combinations(name, others) and free:
                widest = max(free, key=lambda c: table.columns[c].distribution.distinct)
                rest = self._combinations(name, [c for c in others if c != widest])
                needed = ceil(most * table.rows * _ROOM_RATIO / rest)
                self._make_room_for(name, [widest], needed)

    def _kind(self, name: str, column: str) -> str:
        return self.tables[name].columns[column].distribution.kind

    def _widen(self, name: str, column: str) -> None:
        """Let the range of whole numbers have as many as the column has different values.

        Bounds that were moved may be nearer to each other than those of the source. Positive
        numbers stay positive. The last bound stays if it can, because new keys come after it.
        """
        own = self.tables[name].columns[column].distribution
        if own.kind != "integer" or len(own.bounds) < 2:
            return
        length = (round(own.distinct) - 1) * max(1, int(own.step or 1))
        first, last = int(own.bounds[0]), int(own.bounds[-1])
        if last - first < length:
            first = max(1, last - length) if first > 0 else last - length
            bounds = (str(first), *own.bounds[1:-1], str(max(last, first + length)))
            self._put(name, column, own.model_copy(update={"bounds": bounds}))

    def _combinations(self, name: str, columns: Sequence[str]) -> int:
        made = self.tables[name].columns
        return prod(max(1, round(made[column].distribution.distinct)) for column in columns)

    def _make_room_for(self, name: str, columns: list[str], needed: int) -> None:
        """Let these columns have at least `needed` combinations: the first gets more values."""
        made = self.tables[name].columns
        counts = [max(1, round(made[column].distribution.distinct)) for column in columns]
        if columns and prod(counts) < needed:
            distribution = made[columns[0]].distribution
            more = ceil(needed * counts[0] / prod(counts))
            changes: dict[str, object] = {"distinct": more}
            if distribution.kind == "integer" and distribution.bounds:
                least = int(distribution.bounds[0])
                most = max(int(distribution.bounds[-1]), least + more - 1)
                changes["bounds"] = (*distribution.bounds[:-1], str(most))
            self._put(name, columns[0], distribution.model_copy(update=changes))


def _counted_together(
    capture: Capture, foreign: Mapping[str, Sequence[Refers]]
) -> Iterator[tuple[str, Refers]]:
    """Yield what the keys of one counter refer to, as order lines to orders, by table.

    Their key is the one that the counter makes and more; the other table has it as its key.
    """
    rows = {shape.name: shape.rows for shape in capture.tables}
    keys: dict[str, set[str]] = {}
    for column in capture.columns:
        if column.key_position:
            keys.setdefault(column.table, set()).add(column.column)
    for counter in capture.counters:
        columns_of = {key: (*key.group, key.column) for key in counter.keys}
        whole = [key for key, columns in columns_of.items() if keys.get(key.table) == {*columns}]
        if not counter.group or not whole:
            continue
        first = max(whole, key=lambda key: rows.get(key.table, 0))
        for key, columns in columns_of.items():
            is_known = any(refers.table == first.table for refers in foreign.get(key.table, ()))
            if keys.get(key.table, set()) > {*columns} and not is_known:
                pairs = tuple(zip(columns, columns_of[first], strict=True))
                yield key.table, Refers("", first.table, pairs)


def _leading(key: Sequence[CopyColumn]) -> str:
    """Return the column that leads in a key, as the engine decides it (captured/key.rs)."""
    most = max(key, key=lambda column: column.distribution.distinct)
    ordered = [c for c in key if c.distribution.distinct > 1 and _order_of(c) >= _SORTED]
    return (ordered[0] if ordered and _order_of(most) < _UNSORTED else most).shape.column


def _order_of(column: CopyColumn) -> float:
    return abs(column.shape.correlation or 0.0)
