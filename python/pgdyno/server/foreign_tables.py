"""Foreign tables behind the names of a script.

Reading one acts on another server, or runs a program. They are looked for behind views,
partitions and children, too. A function hides what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.errors import RefusedError
from pgdyno.server.connect import Connection
from pgdyno.server.permission import tables_in

_SQL = (
    "WITH RECURSIVE named (oid) AS ("
    "SELECT c.oid FROM unnest(%s::text[], %s::text[]) AS a (home, name)"
    " CROSS JOIN LATERAL (SELECT c.oid FROM unnest(CASE WHEN a.home = '' THEN %s::text[]"
    " ELSE ARRAY[a.home] END) WITH ORDINALITY AS path (name, place)"
    " JOIN pg_namespace n ON n.nspname = path.name JOIN pg_class c ON c.relnamespace = n.oid"
    " WHERE c.relname = a.name AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
    " ORDER BY path.place LIMIT 1) AS c),"
    " edges (upper, lower) AS (SELECT inhparent, inhrelid FROM pg_inherits"
    " UNION ALL SELECT w.ev_class, d.refobjid FROM pg_rewrite w JOIN pg_class v"
    " ON v.oid = w.ev_class AND v.relkind = 'v' JOIN pg_depend d"
    " ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid"
    " AND d.refclassid = 'pg_class'::regclass),"
    " reached (oid) AS (SELECT oid FROM named UNION"
    " SELECT e.lower FROM reached r JOIN edges e ON e.upper = r.oid)"
    " SELECT n.nspname || '.' || c.relname FROM reached r JOIN pg_class c ON c.oid = r.oid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'f' ORDER BY 1"
)


def refuse_foreign_tables(connection: Connection, script: str, texts: Iterable[str]) -> None:
    """Raise RefusedError if a script that only reads would read a foreign table.

    Args: connection, with the user, database and options of the load.
    """
    names = sorted(tables_in(script, texts))
    schemas = list(connection.load_schemas)
    homes, bare = [home for home, _ in names], [name for _, name in names]
    rows = connection.execute(_SQL, [homes, bare, schemas]).fetchall()
    if rows:
        listed = ", ".join(str(name) for (name,) in rows)
        raise RefusedError(
            f"Script {script} would read the foreign table {listed}. Reading a foreign table may "
            "run a program or act on another server, where nothing is read-only.",
            hint="add --allow-write, or run a script that reads other tables",
        )
