"""Drops objects that depend on each other. Only their marks say that pgdyno made them."""

from __future__ import annotations

import json
from collections.abc import Sequence


def removal_of_marked(kind: str, names: Sequence[str] = ()) -> str:
    """Return one statement that drops what has the mark of a kind, in whatever order works.

    Args: names, qualified and quoted, of what is dropped; without names everything is.
    It drops nothing that depends on them: then it fails as DROP TABLE does. Schemas and extensions
    stay.
    """
    listed = constant(json.dumps(list(names), ensure_ascii=False))
    return "do " + constant(_REMOVAL.replace("{kind}", kind).replace("{names}", listed))


def constant(text: str) -> str:
    """Return a text as a constant of SQL in dollar quotes, which no part of the text can end."""
    number, tag = 0, "$pgdyno_0$"
    # The end of the text may be the beginning of the tag.
    while f"{text}{tag}".index(tag) < len(text):
        number += 1
        tag = f"$pgdyno_{number}$"
    return f"{tag}{text}{tag}"


_REMOVAL = """
declare
  names constant jsonb := {names};
  own record; tables text; moved boolean; stays boolean;
begin
  loop
    moved := false;
    stays := false;
    tables := null;
    for own in
      select o.type, o.identity from pg_catalog.pg_description d,
        pg_catalog.pg_identify_object(d.classoid, d.objoid, 0) o
      where d.objsubid = 0 and d.description like 'pgdyno dataset {kind} %'
        and o.type in ('table', 'view', 'materialized view', 'function', 'procedure', 'aggregate',
          'type', 'domain', 'sequence', 'collation', 'text search dictionary',
          'text search configuration')
        and (names = '[]' or names ? o.identity or exists (
          select from pg_catalog.jsonb_array_elements_text(names) n
          where pg_catalog.starts_with(o.identity, n || '(')))
      order by d.objoid desc
    loop
      if own.type = 'table' then
        tables := pg_catalog.concat_ws(', ', tables, own.identity);
        continue;
      end if;
      begin
        execute pg_catalog.format('drop %s if exists %s', own.type, own.identity);
        moved := true;
      exception when dependent_objects_still_exist then
        stays := true;
      end;
    end loop;
    if tables is not null then
      begin
        execute 'drop table if exists ' || tables;
        moved := true;
      exception when dependent_objects_still_exist then
        if not moved then raise; end if;
      end;
    end if;
    exit when not moved;
  end loop;
end """
