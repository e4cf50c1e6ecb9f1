"""Gives other values to the rows that repeat a key, so that an index can be unique. Pure.

No statistics say which values are unique under an expression or a predicate. So the server finds
the repeated keys by the index's own expressions and predicate, from an index that is not unique.
Then it tries changes, each in a subtransaction, and keeps a change if fewer keys repeat after it.

Source: PostgreSQL manual, "Unique Indexes". Limits: a collation that only the index has is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.features.capture.schema import ColumnShape, as_literal
from pgdyno.server.dataset.marked_objects import constant

DELETED_MAX = 0.01
"""The share of the rows that may be deleted if no change makes the keys unique."""
# {0}: the column; n.n: the number of the repeated row. A date takes a number, a time an interval,
# and the text form of most other types takes digits at its end.
_VALUES = (
    "m.top + n.n",
    "m.top + n.n * interval '1 second'",
    "(left(t.{0}::text, greatest(0, length(t.{0}::text) - length(n.n::text))) || n.n)",
    "n.n::text",
    "null",
)
_REPAIR = """
declare
  own constant regclass := {table};
  old constant oid[] := array(select indexrelid from pg_catalog.pg_index where indrelid = own);
  plain oid; keys text; found text; repeated text; x record;
  before bigint; after bigint;
begin
  execute {plain};
  select i.indexrelid, (select pg_catalog.string_agg(
      '(' || pg_catalog.pg_get_indexdef(i.indexrelid, k, false) || ')', ', ' order by k)
      from pg_catalog.generate_series(1, i.indnkeyatts::int) k),
    coalesce(pg_catalog.pg_get_expr(i.indpred, own), 'true')
    into plain, keys, found
    from pg_catalog.pg_index i where i.indrelid = own and i.indexrelid <> all (old);
  repeated := pg_catalog.format('select o, c, pg_catalog.row_number() over (order by o, c) as n'
    ' from (select tableoid as o, ctid as c, pg_catalog.row_number() over (partition by %s'
    ' order by tableoid, ctid) as place from %s where (%s) and {nulls}) r where place > 1',
    keys, own, found, keys);
  execute pg_catalog.format('select count(*) from (%s) n', repeated) into before;
  for x in
    select k.kind, k.change, c.name, c.type, c.is_key from (select a.attname as name,
        pg_catalog.strpos(keys, a.attname) > 0 as is_key,
        pg_catalog.format_type(a.atttypid, a.atttypmod) as type,
        pg_catalog.array_position({made}::text[], a.attname::text) as made,
        pg_catalog.array_position({moved}::text[], a.attname::text) as moved
      from pg_catalog.pg_attribute a where a.attrelid = own and a.attnum > 0
        and not a.attisdropped and a.attgenerated = '' and a.attidentity <> 'a'
        and exists (select from pg_catalog.pg_depend d where d.objid = plain
          and d.classid = 'pg_catalog.pg_class'::regclass and d.refobjid = own
          and d.refobjsubid = a.attnum)) c,
      (select 'moved' as kind, '' as change, 0 as place union all
        select 'made', v.change, v.place from pg_catalog.unnest({values}::text[])
          with ordinality v (change, place)) k
    where case when k.kind = 'moved' then c.moved is not null else c.made is not null end
      and (c.is_key or k.kind = 'moved' or k.change = 'null')
    order by not c.is_key, k.kind = 'made' and k.change = 'null', k.kind = 'made',
      coalesce(c.made, c.moved), k.place
  loop
    for turn in 1..5 loop
      exit when before = 0;
      begin
        if x.kind = 'moved' then
          execute pg_catalog.format('with n as materialized (%s), p as materialized ('
            'select %I as v, pg_catalog.row_number() over ('
            'order by pg_catalog.md5(ctid::text || %s)) as k'
            ' from %s where %I is not null and (%s)), s as (select count(*) as all_of from p)'
            ' update %s t set %I = p.v from n, p, s where t.tableoid = n.o and t.ctid = n.c'
            ' and p.k = 1 + (n.n * 7919) %% s.all_of', repeated, x.name, turn, own, x.name,
            case when x.is_key then 'true' else pg_catalog.format('(%s) is not true', found) end,
            own, x.name);
        else
          execute pg_catalog.format('with n as materialized (%s)%s update %s t set %I = (%s)::%s'
            ' from n%s where t.tableoid = n.o and t.ctid = n.c', repeated,
            case when x.change like 'm.%' then pg_catalog.format(
              ', m as (select max(%I) as top from %s)', x.name, own) else '' end, own, x.name,
            pg_catalog.replace(x.change, '{{0}}', pg_catalog.quote_ident(x.name)), x.type,
            case when x.change like 'm.%' then ', m' else '' end);
        end if;
        execute pg_catalog.format('select count(*) from (%s) n', repeated) into after;
        if after >= before then
          raise exception 'no fewer keys repeat';
        end if;
        before := after;
      exception when others then
        if sqlstate ~ '^(08|40|53|57|58|XX)' then raise; end if;
        exit;
      end;
    end loop;
    exit when before = 0;
  end loop;
  execute pg_catalog.format('select count(*) from %s', own) into after;
  if before <= after * {deleted} then
    execute pg_catalog.format('with n as materialized (%s) delete from %s t using n'
      ' where t.tableoid = n.o and t.ctid = n.c', repeated, own);
  end if;
  execute pg_catalog.format('drop index %s', plain::regclass);
end """


@dataclass(frozen=True, slots=True)
class Changeable:
    """The columns of a table whose values may change, those with the most values first.

    `made`: they take new values. `moved`: they take values of other rows, such as a foreign key.
    """

    made: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()


def changeable(
    columns: Mapping[str, ColumnShape], referenced: frozenset[tuple[str, str]]
) -> Changeable:
    """Return the columns of a table that may change without breaking a key.

    Args: referenced, the tables and columns to which foreign keys refer.
    """
    free = [c for c in columns.values() if (c.table, c.column) not in referenced]
    free.sort(key=lambda c: -c.distribution.distinct)
    return Changeable(
        made=tuple(c.column for c in free if c.references is None),
        moved=tuple(c.column for c in free if not c.is_unique),
    )


def without_repeats(table: str, plain: str, columns: Changeable, *, deletes: bool = False) -> str:
    """Return the statement that makes the keys of an index unique, as far as the server lets it.

    Args: plain, the statement that makes the index without its name and without being unique;
    deletes, whether rows that still repeat are deleted, at most `DELETED_MAX` of the table.
    """
    has_equal_nulls = " NULLS NOT DISTINCT" in plain
    return "do " + constant(
        _REPAIR.format(
            table=as_literal(table),
            plain=constant(plain.replace(" NULLS NOT DISTINCT", "", 1)),
            nulls="pg_catalog.num_nulls(%s) >= 0"
            if has_equal_nulls
            else "pg_catalog.num_nulls(%s) = 0",
            made=_array(columns.made),
            moved=_array(columns.moved),
            values=_array(_VALUES),
            deleted=DELETED_MAX if deletes else -1,
        )
    )


def _array(texts: tuple[str, ...]) -> str:
    return f"array[{', '.join(map(as_literal, texts))}]"
