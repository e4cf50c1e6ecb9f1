"""What the catalogues and EXPLAIN say about the tables of a statement; it executes nothing.

EXPLAIN is asked about a statement of our own: one table, one column, a parameter. It is left out if
planning could call a function: from an index expression, a policy, a check, or an operator of a
type that is not PostgreSQL's own. It is also left out if an ordinary user, other than the own one,
owns the table or its schema: that user could add one between two statements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.errors import PgdynoError
from pgdyno.features.doctor.session import read_only
from pgdyno.features.watch.incident.conditions import (
    ColumnCondition,
    Restricted,
    ShapedColumn,
    restricted,
    with_view,
)
from pgdyno.features.watch.incident.shapes import OTHER_TYPE
from pgdyno.measure.statement_texts import SCHEMA_SQL, TEXTS_SQL
from pgdyno.observe.session import ServerSession
from pgdyno.server.grammar import sql_name
from pgdyno.server.target import Target

_TRUSTED = (
    "(SELECT r.rolsuper OR r.rolname = session_user FROM pg_catalog.pg_roles r WHERE r.oid ="
    " CASE {owner}::regrole::text WHEN 'pg_database_owner' THEN"
    " (SELECT d.datdba FROM pg_catalog.pg_database d WHERE d.datname = current_database())"
    " ELSE {owner} END)"
)
# Of a partitioned table: the sums of its partitions.
TABLE_SQL = (
    "SELECT c.oid::int8, c.relkind::text, s.rows, s.pages, s.outside_pages, s.changed, s.parts,"
    " (SELECT count(*) FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid),"
    " has_table_privilege(c.oid, 'SELECT'),"
    " c.relkind IN ('r', 'm') AND NOT c.relrowsecurity AND NOT c.relhassubclass"
    " AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid"
    " AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL OR EXISTS (SELECT 1 FROM"
    " pg_catalog.pg_opclass o WHERE o.oid = ANY(i.indclass)"
    " AND o.opcnamespace <> 'pg_catalog'::regnamespace)))"
    " AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid"
    " AND k.contype = 'c')"
    " AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_statistic_ext x WHERE x.stxrelid = c.oid)"
    f" AND {_TRUSTED.format(owner='c.relowner')} AND {_TRUSTED.format(owner='n.nspowner')}"
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace,"
    " LATERAL (WITH RECURSIVE t AS (SELECT c.oid UNION SELECT i.inhrelid FROM t"
    " JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid)"
    " SELECT sum(p.reltuples)::float8 AS rows, sum(p.relpages)::int8 AS pages,"
    " coalesce(sum(pg_relation_size(nullif(p.reltoastrelid, 0)))::int8 / 8192, 0) AS outside_pages,"
    " coalesce(sum(pg_stat_get_mod_since_analyze(p.oid)), 0)::int8 AS changed,"
    " array_agg(ARRAY[m.nspname::text, p.relname::text]) AS parts"
    " FROM t JOIN pg_catalog.pg_class p ON p.oid = t.oid"
    " JOIN pg_catalog.pg_namespace m ON m.oid = p.relnamespace WHERE p.relkind <> 'p') s"
    " WHERE n.nspname = %s AND c.relname = %s"
)
# What the statistics views of tables do not have: partitioned tables and views.
OTHERS_SQL = (
    "SELECT n.nspname::text, CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid) ELSE '' END"
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relname = %s AND (%s = '' OR n.nspname = %s) AND c.relkind IN ('p', 'v') LIMIT 2"
)
TRIGGERS_SQL = (
    "SELECT tgname::text FROM pg_catalog.pg_trigger WHERE tgrelid = %s AND NOT tgisinternal"
    " AND tgenabled <> 'D' ORDER BY 1 LIMIT 5"
)
# Indexes in which an update of these columns makes a new entry.
CHANGED_INDEXES_SQL = (
    "SELECT x.relname::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x"
    " ON x.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = x.relam WHERE i.indrelid = %s"
    " AND m.amname <> 'brin' AND EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a"
    " WHERE a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) AND a.attname = ANY(%s))"
    " ORDER BY 1"
)
# An index fits if its first key is the column, or the expression.
# The session that watches has other settings than those that it watches.
STEERED_SQL = (
    "SELECT coalesce(r.rolname::text, ''), c.setting, 'ALTER ' || CASE WHEN s.setrole = 0 AND"
    " s.setdatabase <> 0 THEN 'DATABASE ' || quote_ident(d.datname)"
    " ELSE 'ROLE ' || coalesce(quote_ident(r.rolname), 'ALL')"
    " || coalesce(' IN DATABASE ' || quote_ident(d.datname), '') END"
    " || ' RESET ' || split_part(c.setting, '=', 1)"
    " FROM pg_catalog.pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) c (setting)"
    " LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole"
    " LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase"
    " WHERE (s.setdatabase = 0 OR d.datname = current_database())"
    " AND c.setting ~ '^(enable_.*=(off|false|no|0)|[a-z_]*(page|tuple|operator)_cost=)'"
    " UNION ALL SELECT '', name || '=off', 'ALTER SYSTEM SET ' || name || ' = on; SELECT"
    " pg_catalog.pg_reload_conf()' FROM pg_catalog.pg_settings WHERE name LIKE 'enable%'"
    " AND setting = 'off' AND boot_val = 'on' AND source = 'configuration file' ORDER BY 1, 2"
)
COLUMN_SQL = (
    "SELECT format_type(a.atttypid, NULL), t.typnamespace = 'pg_catalog'::regnamespace"
    " AND t.typtype = 'b',"
    " coalesce((SELECT min(x.relname::text) FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x"
    " ON x.oid = i.indexrelid WHERE i.indrelid = a.attrelid AND i.indisvalid AND i.indpred IS NULL"
    " AND ((%s = '' AND i.indkey[0] = a.attnum) OR (%s <> '' AND i.indkey[0] = 0"
    " AND pg_get_indexdef(i.indexrelid, 1, true) ILIKE %s))), ''),"
    " coalesce((SELECT s.n_distinct::float8 FROM pg_catalog.pg_stats s WHERE s.schemaname = %s"
    " AND s.tablename = %s AND s.attname = a.attname ORDER BY s.inherited LIMIT 1), 0)"
    " FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"
    " WHERE a.attrelid = %s AND a.attname = %s AND a.attnum > 0 AND NOT a.attisdropped"
)
_EXPLAIN = "EXPLAIN (FORMAT JSON) SELECT 1 FROM ONLY {} WHERE {}"
# The planner does not look into the subquery, so it expects what one value finds on average.
_COMPARED = "{} OPERATOR(pg_catalog.{}) (SELECT NULL::{})"


# With a value of such a type, the server converts columns of these types in each row.
_CONVERTED = {
    "numeric": ("smallint", "integer", "bigint"),
    "float4": ("smallint", "integer", "bigint", "numeric"),
    "float8": ("smallint", "integer", "bigint", "numeric"),
    "text": ("character",),
}


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A restricted column: the index that begins with it, "" if none does.

    `expected_ratio`: share of the table's rows that one value is expected to find; None if unknown.
    `how`: where this share comes from. `node`: the plan's node that reads the table, "" if unknown.
    """

    condition: ColumnCondition
    index: str
    expected_ratio: float | None = None
    how: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class ShapeFacts:
    """A shape of a condition on a table. `index`: one that begins with its column, or ""."""

    shape: ShapedColumn
    index: str


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table of a statement, or the sums of its partitions.

    `toast_pages_count`: of its values outside of its rows. `shapes`: conditions on it that no
    ordinary index helps. `changed_count`: rows that changed since the planner's statistics were
    made. `first_of`: as in `Restricted`. `parts`: schema and name of its partitions, or its own.
    If the statement changes the table, `changed_indexes` are those with a column that it changes,
    and `triggers` are those of users.
    """

    schema: str
    table: str
    rows_count: float
    pages_count: int
    columns: tuple[ColumnFacts, ...]
    toast_pages_count: int = 0
    shapes: tuple[ShapeFacts, ...] = ()
    changed_count: int = 0
    index_count: int = 0
    first_of: ColumnFacts | None = None
    parts: tuple[tuple[str, str], ...] = ()
    changed_indexes: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name as SQL, without the schema public."""
        return sql_name(self.schema, self.table)

    def step(self, text: str) -> str:
        """Return a step that works for this table: a partitioned one refuses CONCURRENTLY."""
        if not self.parts or (self.schema, self.table) in self.parts:
            return text
        both = "CREATE INDEX CONCURRENTLY on each partition; then, which takes these, CREATE INDEX"
        return text.replace("CREATE INDEX CONCURRENTLY", both)


@dataclass(frozen=True, slots=True)
class StatementFacts:
    """A statement's tables, as far as they are known, and what it does with what it finds.

    `written`: the table that it changes; None if it changes none, or one that is not known.
    `steered`: settings of the planner for sessions of a role ("": all), and what resets each.
    """

    parts: Restricted
    tables: tuple[TableFacts, ...]
    written: TableFacts | None = None
    steered: tuple[tuple[str, str, str], ...] = ()

    @property
    def knows_all(self) -> bool:
        """Return whether every table that it reads is known."""
        return len(self.tables) == len(self.parts.tables)


def statements() -> dict[str, str]:
    """Return name -> every statement that this module may send."""
    return {
        "a table of an expensive statement, after a watch": TABLE_SQL,
        "a column that it restricts": COLUMN_SQL,
        "a partitioned table or a view": OTHERS_SQL,
        "indexes that its updates change": CHANGED_INDEXES_SQL,
        "triggers of a table that it changes": TRIGGERS_SQL,
        "settings of roles and databases that steer the planner": STEERED_SQL,
        "what the planner expects": _EXPLAIN.format(
            "(table)", _COMPARED.format("(column)", "=", "(type)")
        ),
    }


def facts_of_statements(
    target: Target, query_ids: Sequence[int], busy: Mapping[str, Sequence[str]]
) -> dict[int, StatementFacts]:
    """Return what is known of the tables of statements; of what cannot be asked, nothing.

    Never raises: a watch is worth keeping without. Args: busy, table name -> schemas in which it
    was read during the watch.
    """
    facts: dict[int, StatementFacts] = {}
    try:
        with read_only(target, "watch") as (session, _):
            schemas = session.fetch(SCHEMA_SQL)
            if not schemas or not query_ids:
                return {}
            rows = session.fetch(TEXTS_SQL.format(schema=schemas[0][0]), [list(query_ids)])
            steered = tuple((str(a), str(b), str(c)) for a, b, c in session.fetch(STEERED_SQL))
            for query_id, text in rows:
                parts = restricted(str(text))
                if parts is not None:
                    made = _statement(session, parts, busy)
                    facts[int(query_id)] = replace(made, steered=steered)
    except (PgdynoError, psycopg.Error):
        return facts
    return facts


def _statement(
    session: ServerSession, parts: Restricted, busy: Mapping[str, Sequence[str]]
) -> StatementFacts:
    known: dict[tuple[str, str], TableFacts] = {}
    others: dict[str, list[str]] = {}
    for schema, table in parts.tables:
        if table in busy:
            continue
        for place, view in session.fetch(OTHERS_SQL, [table, schema, schema]):
            if view:
                parts = with_view(parts, (schema, table), str(view))
            else:
                others.setdefault(table, []).append(str(place))
    for schema, table in dict.fromkeys((*parts.tables, *filter(None, (parts.written,)))):
        places = [schema] if schema else [*busy.get(table, others.get(table, ()))]
        for place in places[:2]:
            try:
                made = _table(session, place, table, parts)
            except psycopg.Error:
                continue  # Locked, or dropped meanwhile: this table stays unknown.
            if made is not None:
                known.setdefault((schema, table), made)
    tables = tuple(known[name] for name in parts.tables if name in known)
    return StatementFacts(parts, tables, known.get(parts.written or ("", "")))


def _table(session: ServerSession, schema: str, table: str, parts: Restricted) -> TableFacts | None:
    rows = session.fetch(TABLE_SQL, [schema, table])
    if not rows:
        return None
    oid, _, tuples, pages, toast_pages, changed, members, index_count, may_read, is_plain = rows[0]
    columns: list[ColumnFacts] = []

    def about(column: str, function: str = "") -> list[tuple[Any, ...]]:
        begins = f"{function}(%{column}%"
        asked = [function, function, begins, schema, table, oid]
        return session.fetch(COLUMN_SQL, [*asked, column])

    first_of: ColumnFacts | None = None

    def listed(asked: str, *values: object) -> tuple[str, ...]:
        is_written = parts.written is not None and parts.written[1] == table
        return tuple(str(name) for (name,) in session.fetch(asked, values)) if is_written else ()

    for condition in dict.fromkeys((*parts.conditions, *filter(None, (parts.first_of,)))):
        if condition.table not in ("", table):
            continue
        of_column = about(condition.column, condition.function)
        if not of_column:
            continue
        kind, is_own_type, index, distinct = of_column[0]
        facts = ColumnFacts(condition, "" if condition.predicate else str(index))
        if condition is parts.first_of:
            first_of = facts
            continue
        if may_read and is_plain and is_own_type and not condition.function:
            name = sql.Identifier(schema, table)
            facts = _explained(session, facts, name, str(kind), tuples) or facts
        if facts.expected_ratio is None and condition.operator == "=" and distinct:
            count = distinct if distinct > 0 else -distinct * max(tuples, 1)
            facts = ColumnFacts(condition, str(index), 1 / max(count, 1), "statistics")
        columns.append(facts)
    shapes = []
    for shape in dict.fromkeys(parts.shapes):
        of_column = about(shape.column) if shape.column else []
        is_here = (
            bool(of_column)
            if shape.column
            else (len(parts.tables) == 1 or shape.meaning.is_of_statement)
        )
        if shape.table not in ("", table) or not is_here:
            continue
        if shape.meaning is OTHER_TYPE and of_column[0][0] not in _CONVERTED.get(shape.detail, ()):
            continue
        shapes.append(ShapeFacts(shape, str(of_column[0][2]) if of_column else ""))
    return TableFacts(
        schema,
        table,
        float(tuples),
        int(pages),
        tuple(columns),
        toast_pages_count=int(toast_pages),
        shapes=tuple(shapes),
        changed_count=int(changed),
        index_count=int(index_count),
        first_of=first_of,
        parts=tuple((str(place), str(name)) for place, name in members),
        changed_indexes=listed(CHANGED_INDEXES_SQL, oid, sorted(parts.changed)),
        triggers=listed(TRIGGERS_SQL, oid),
    )


def _explained(
    session: ServerSession, facts: ColumnFacts, table: sql.Identifier, kind: str, rows_count: float
) -> ColumnFacts | None:
    """Return the facts with what the planner expects; None if it cannot be asked."""
    condition = facts.condition
    column = sql.Identifier(condition.column).as_string(None)
    compared = (
        condition.operator.format(column)
        if condition.predicate
        else _COMPARED.format(column, condition.operator, kind)
    )
    text = _EXPLAIN.format(table.as_string(None), compared)
    try:
        [[plan]] = session.fetch(text)
        node = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
        while "Relation Name" not in node:
            node = node["Plans"][-1]
    except (psycopg.Error, KeyError, IndexError, ValueError):
        return None
    ratio = min(1.0, float(node["Plan Rows"]) / rows_count) if rows_count > 0 else None
    return ColumnFacts(condition, facts.index, ratio, "EXPLAIN", str(node["Node Type"]))
