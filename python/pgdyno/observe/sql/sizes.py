"""Sizes of databases, tablespaces and WAL; asked rarely, because every file is looked at."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS, Row
from pgdyno.observe.column import Column, gauge, key
from pgdyno.observe.sql.sql_collector import SqlCollector

# A size that this role may not see is not asked for.
SQL = {
    10: (
        "SELECT 'database', datname::text, pg_database_size(oid), NULL::int8"
        " FROM pg_catalog.pg_database WHERE datallowconn AND"
        " (has_database_privilege(oid, 'CONNECT') OR pg_has_role('pg_read_all_stats', 'USAGE'))"
        " UNION ALL SELECT 'tablespace', spcname::text, pg_tablespace_size(oid), NULL"
        " FROM pg_catalog.pg_tablespace WHERE"
        " has_tablespace_privilege(oid, 'CREATE') OR pg_has_role('pg_read_all_stats', 'USAGE')"
    )
}
# Apart: a statement with a function that may not be called is refused whole, whatever its WHERE.
MAY_LIST_SQL = "SELECT has_function_privilege('pg_catalog.pg_ls_waldir()', 'EXECUTE')"
WAL_SQL = "SELECT 'wal', 'pg_wal', sum(size)::int8, count(*) FROM pg_catalog.pg_ls_waldir()"


class SizesCollector(SqlCollector):
    """Samples what lies on the server's disks, by database, by tablespace, and WAL."""

    name = "sizes"
    meaning = "Sizes of databases, of tablespaces, and of the files of WAL"
    interval_ns = 60 * SECOND_NS
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("kind", "database, tablespace or wal"),
        key("name", "of the database or tablespace"),
        gauge("size_bytes", "bytes", "on disk"),
        gauge("files", "files", "of WAL; NULL for the others", is_nullable=True),
    )

    def sample(self, now_ns: int) -> list[Row]:
        """Return one row a database, a tablespace, and for WAL, of those that may be seen."""
        rows = super().sample(now_ns)
        [(may_list,)] = self._session.fetch(MAY_LIST_SQL)
        if may_list:
            names = [column.name for column in self.columns]
            found = self._session.fetch(WAL_SQL)
            rows += [dict(zip(names, row, strict=True)) for row in found if row[3]]
        return rows
