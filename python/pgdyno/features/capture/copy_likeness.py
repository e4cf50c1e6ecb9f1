"""Compares the statistics and sizes of a copy with those in the capture from which it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pgdyno.engine.distribution import Distribution, Hot
from pgdyno.features.capture.left_out import left_out_of, replaced_by
from pgdyno.features.capture.likeness import Quantity, compared, ratio
from pgdyno.features.capture.plan import NOT_UNIQUE
from pgdyno.features.capture.ranks import estimated_distinct
from pgdyno.features.capture.rebuild import Rebuilt
from pgdyno.features.capture.schema import parts_of
from pgdyno.features.capture.tables import rebuilt_of
from pgdyno.server.connect import Connection
from pgdyno.spec.dataset import CaptureDataset

# Tables below this size have a page more or less.
_PAGES_SLACK_BYTES = 3 * 8192
_FORMATS = (
    "SELECT set_config('datestyle', 'ISO', false), set_config('timezone', 'UTC', false),"
    " set_config('intervalstyle', 'postgres', false), set_config('bytea_output', 'hex', false)"
)
_COLUMNS = (
    "SELECT s.attname, s.null_frac, s.n_distinct, s.avg_width, s.correlation,"
    " s.most_common_vals::text::text[], s.most_common_freqs, s.histogram_bounds::text::text[],"
    " c.reltuples"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname"
    "  AND s.inherited = (c.relkind = 'p')"
    " WHERE c.oid = to_regclass(%s)"
)
_SIZE = (
    "SELECT coalesce(sum(pg_relation_size(oid)), 0)::int8 FROM (SELECT to_regclass(%s)::oid AS oid"
    " UNION SELECT relid::oid FROM pg_partition_tree(to_regclass(%s))) AS parts"
)


@dataclass(frozen=True, slots=True)
class ComparedObject:
    """A column, a table or an index, and its quantities. `note`: what explains a difference."""

    kind: str
    name: str
    quantities: tuple[Quantity, ...]
    note: str = ""

    @property
    def short(self) -> tuple[Quantity, ...]:
        """Return the quantities that differ by more than their limit."""
        return tuple(quantity for quantity in self.quantities if quantity.verdict == "short")


@dataclass(frozen=True, slots=True)
class CopyLikeness:
    """How alike a copy is. `notes`: what was left out of the copy."""

    compared: tuple[ComparedObject, ...]
    notes: tuple[str, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """Return everything that was compared, for a document in JSON."""
        return {
            "notes": list(self.notes),
            "compared": [
                {
                    "kind": item.kind,
                    "name": item.name,
                    "note": item.note,
                    "quantities": [quantity.as_document() for quantity in item.quantities],
                }
                for item in self.compared
            ],
        }


def likeness_of(connection: Connection, dataset: CaptureDataset) -> CopyLikeness:
    """Return how alike the tables in this database are to the captured ones. It only reads."""
    rebuilt = rebuilt_of(dataset)
    connection.execute(_FORMATS)
    items = [*_columns(connection, rebuilt), *_tables(connection, rebuilt)]
    notes = (*left_out_of(connection, rebuilt.left_out_table), *rebuilt.notes)
    return CopyLikeness((*items, *_indexes(connection, rebuilt)), notes)


def _columns(connection: Connection, rebuilt: Rebuilt) -> Iterator[ComparedObject]:
    for name, table in rebuilt.tables.items():
        seen = statistics_of(connection, name, table.rows)
        for column_name, column in table.columns.items():
            if column_name not in seen:
                continue
            wanted = column.distribution
            # The server estimates this number, and so is the one of the capture.
            estimate = estimated_distinct(wanted, table.rows)
            if rebuilt.fraction == 1 and not table.shape.is_partitioned:
                estimate = column.shape.distribution.distinct
            if wanted.kind == "rank":
                # The common values of a foreign key are comparable only if the keys are the same.
                original = column.shape.distribution
                kept = {} if rebuilt.fraction == 1 else {"kind": "other"}
                wanted = original.model_copy(update=kept)
            copy, correlation = seen[column_name]
            wanted = wanted.model_copy(update={"distinct": estimate})
            copy = copy.model_copy(update={"kind": wanted.kind})
            quantities = compared(
                wanted,
                copy,
                rows=table.rows,
                source_correlation=column.shape.correlation,
                copy_correlation=correlation,
            )
            yield ComparedObject("column", f"{name}.{column_name}", tuple(quantities))


def statistics_of(
    connection: Connection, table: str, rows: float
) -> Mapping[str, tuple[Distribution, float | None]]:
    """Return the distribution and the correlation of each column of an analysed table.

    All are of the kind `other`.
    """
    seen = {}
    for row in connection.execute(_COLUMNS, [table]).fetchall():
        column, null_ratio, distinct, width, correlation, common, shares, bounds, _ = row
        hot = zip(common or (), shares or (), strict=True)
        distribution = Distribution(
            kind="other",
            null_fraction=null_ratio,
            distinct=distinct if distinct >= 0 else -distinct * rows,
            width=width,
            hot=tuple(Hot(value=str(value), fraction=share) for value, share in hot),
            bounds=tuple(map(str, bounds or ())),
        )
        seen[str(column)] = (distribution, correlation)
    return seen


def _tables(connection: Connection, rebuilt: Rebuilt) -> Iterator[ComparedObject]:
    for name, parts in rebuilt.parts_by_table().items():
        rows = sum(part.rows for part in parts)
        share = rebuilt.tables[name].rows / rows if rows else 1.0
        source = sum(part.bytes for part in parts) * share
        size = ratio("bytes", source, _size(connection, name), slack=_PAGES_SLACK_BYTES)
        dead = sum(part.dead_rows for part in parts)
        note = f"the original has {dead:,} dead rows, which are not copied" if dead else ""
        yield ComparedObject("table", name, (size,), note)


def _indexes(connection: Connection, rebuilt: Rebuilt) -> Iterator[ComparedObject]:
    parts = rebuilt.parts_by_table()
    others = {
        (table, parts_of(name)[1])
        for table, name in replaced_by(connection, rebuilt.left_out_table, NOT_UNIQUE)
    }
    for index in rebuilt.capture.indexes:
        if index.table not in rebuilt.tables:
            continue
        rows = sum(part.rows for part in parts[index.table])
        share = rebuilt.tables[index.table].rows / rows if rows else 1.0
        size = _size(connection, index.name)
        if size:
            quantity = ratio("bytes", index.bytes * share, size, slack=_PAGES_SLACK_BYTES)
            is_other = (index.table, parts_of(index.name)[1]) in others
            own = (Quantity("unique", 1.0, 0.0, None, "short"),) if is_other else ()
            yield ComparedObject("index", index.name, (quantity, *own))


def _size(connection: Connection, name: str) -> int:
    row = connection.execute(_SIZE, [name, name]).fetchone()
    return int(row[0]) if row is not None else 0
