"""Objects that the server is asked to make, each with what is tried if it refuses. Pure.

A group of objects becomes one DO block. The block tries each object in a subtransaction, again and
again until nothing more succeeds, so that the order of the objects decides nothing. Only then it
tries what comes nearest, the first choice of all objects before the second one. What is replaced or
left out becomes a row of a table of the copy, with the server's reason.

Source: PostgreSQL manual, "Trapping Errors". Limits: a full disk, a cancelled statement and a lost
server end the block as any other statement.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pgdyno.features.capture.schema import as_literal, in_quotes, parts_of
from pgdyno.server.dataset.marked_objects import constant

LEFT_OUT = "pgdyno_left_out"
"""The table of what a copy lacks. It exists only if something was replaced or left out."""
_BLOCK = """
declare
  items constant jsonb := {items};
  item jsonb; step text; why text; state text; place int;
  tried int := 0; most int := {most}; moved boolean;
  made int[] := array_fill(-1, array[{count}]);
  reasons text[] := array_fill(''::text, array[{count}]);
begin
  loop
    moved := false;
    for item in select value from pg_catalog.jsonb_array_elements(items) loop
      place := item->>'place';
      continue when made[place] >= 0 or tried >= pg_catalog.jsonb_array_length(item->'choices');
      continue when item ? 'part_of' and made[(item->>'part_of')::int] < (item->>'from')::int;
      continue when item ? 'again' and made[place] = -1 and not exists (select from {table} l
        where l.kind = item->>'kind' and l.name = item->>'name' and l.instead = '');
      begin
        for step in select value from
          pg_catalog.jsonb_array_elements_text(item->'choices'->tried->'steps') loop
          execute step;
        end loop;
        made[place] := tried;
        moved := true;
      exception when others then
        get stacked diagnostics why = message_text, state = returned_sqlstate;
        if state ~ '^(08|40|53|57|58|XX)' or (item ? 'must' and state in ('42P07', '42710', '42723',
          '42P06')) then
          raise;
        end if;
        if reasons[place] = '' or tried = 0 then reasons[place] := why; end if;
      end;
      exit when moved and tried > 0;
    end loop;
    if moved then tried := 0;
    elsif tried + 1 < most then tried := tried + 1;
    else exit;
    end if;
  end loop;
  for item in select value from pg_catalog.jsonb_array_elements(items) loop
    place := item->>'place';
    if made[place] >= 0 and item ? 'again' then
      delete from {table} l where l.kind = item->>'kind' and l.name = item->>'name';
    end if;
    if made[place] >= 0 and item ? 'mark' then
      execute pg_catalog.format('comment on %s is %L', item->>'mark',
        pg_catalog.obj_description({relation}::regclass, 'pg_class'));
    end if;
    continue when made[place] >= 0 and coalesce(item->'choices'->(made[place])->>'words', '') = '';
    continue when made[place] < 0 and item ? 'part_of'
      and made[(item->>'part_of')::int] < (item->>'from')::int;
    continue when made[place] < 0 and item ? 'again';
    if made[place] < 0 and item ? 'table_of_rows' then
      raise exception '%', reasons[place];
    end if;
    insert into {table} values (item->>'kind', item->>'name', item->>'table',
      coalesce(item->'choices'->(made[place])->>'words', ''),
      coalesce(item->>'reason', reasons[place]));
  end loop;
end """


@dataclass(frozen=True, slots=True)
class Choice:
    """Statements that make an object, or what comes near it. `words`: what is made instead."""

    steps: tuple[str, ...]
    words: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An object, and the choices to try in this order.

    `table`: to which it belongs. `marked`: how COMMENT names it. `reason`: why nothing is tried,
    or why a choice is not the object itself. `must`: an object of this name belongs to somebody, so
    it ends the load; `has_rows`: so does an object without any choice that works. `parts`: made if
    the choice with the number `parts_from` or a later one was taken, such as single columns.
    `again`: it is tried only if an earlier block did not make it.
    """

    kind: str
    name: str
    choices: tuple[Choice, ...]
    table: str = ""
    marked: str = ""
    reason: str = ""
    must: bool = False
    has_rows: bool = False
    parts: tuple[Attempt, ...] = field(default=())
    parts_from: int = 1
    again: bool = False


def left_out_table(first_table: str) -> str:
    """Return the name of the table of what a copy lacks, in the schema of its first table."""
    schema, _ = parts_of(first_table) if first_table else ("", "")
    quoted = f"{in_quotes(schema)}." if schema else ""
    return f"{quoted}{LEFT_OUT}"


def left_out_creation(table: str) -> list[str]:
    """Return the statements that make the table."""
    return [
        f"create table {table} (kind text, name text, of_table text, instead text, reason text)"
    ]


def left_out_end(table: str) -> str:
    """Return the statement that drops the table if it has no rows."""
    return (
        f"do $pgdyno$ begin if not exists (select from {table}) then drop table {table}; end if;"
        " end $pgdyno$"
    )


def block(attempts: Iterable[Attempt], table: str) -> str:
    """Return one statement that makes the objects, as far as the server lets it.

    Args: table, of what is left out.
    """
    items = list(_items(attempts))
    body = _BLOCK.format(
        items=constant(json.dumps(items, ensure_ascii=False)),
        most=max((len(item["choices"]) for item in items), default=0),
        count=max(1, len(items)),
        table=table,
        relation=as_literal(table),
    )
    return "do " + constant(body)


def _items(attempts: Iterable[Attempt]) -> Iterable[dict[str, Any]]:
    place = 0
    for attempt in attempts:
        place += 1
        whole = place
        yield _item(attempt, place)
        for part in attempt.parts:
            place += 1
            yield _item(part, place) | {"part_of": whole, "from": attempt.parts_from}


def _item(attempt: Attempt, place: int) -> dict[str, Any]:
    choices = [{"steps": list(c.steps), "words": c.words} for c in attempt.choices]
    item: dict[str, Any] = {"place": place, "kind": attempt.kind, "name": attempt.name}
    item |= {"table": attempt.table, "choices": choices}
    flags = {"must": attempt.must, "table_of_rows": attempt.has_rows, "again": attempt.again}
    item |= {name: True for name, is_set in flags.items() if is_set}
    texts = {"mark": attempt.marked, "reason": attempt.reason}
    return item | {name: text for name, text in texts.items() if text}
