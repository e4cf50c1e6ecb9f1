"""What shared_buffers hold: pg_buffercache, where the extension is; only before and after.

Reading them costs a look at every buffer: a second for some ten gigabytes.
"""

from __future__ import annotations

from typing import ClassVar

from pgdyno.observe.collector import SECOND_NS
from pgdyno.observe.column import Column, gauge, key
from pgdyno.observe.sql.extension import ExtensionCollector

SQL = {
    10: (
        "SELECT CASE WHEN s.usagecount IS NOT NULL THEN 'usage'"
        " WHEN s.relfilenode IS NOT NULL THEN 'relation' ELSE 'database' END,"
        " coalesce(s.usagecount::text, c.relname::text, d.datname::text, 'shared'),"
        " sum(s.blocks)::int8, sum(s.dirty)::int8"
        " FROM (SELECT reldatabase, relfilenode, usagecount, count(*) AS blocks,"
        " count(*) FILTER (WHERE isdirty) AS dirty FROM {schema}.pg_buffercache"
        " WHERE relfilenode IS NOT NULL GROUP BY GROUPING SETS"
        " ((reldatabase), (usagecount), (reldatabase, relfilenode))) s"
        " LEFT JOIN pg_catalog.pg_database d ON d.oid = s.reldatabase"
        " LEFT JOIN pg_catalog.pg_class c"
        " ON c.relfilenode = s.relfilenode AND d.datname = current_database()"
        " WHERE s.relfilenode IS NULL OR c.relname IS NOT NULL"
        " GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 60"
    )
}


class BuffersCollector(ExtensionCollector):
    """Samples whose blocks shared_buffers hold, how often used, and which are dirty."""

    name = "buffers"
    meaning = "Blocks in shared_buffers by database, usage count and relation (pg_buffercache)"
    interval_ns = 600 * SECOND_NS
    extension = "pg_buffercache"
    sql = SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("kind", "database, usage (how often used of late, 0 to 5) or relation"),
        key("name", "of the database, the count, or the relation"),
        gauge("blocks", "blocks", "held"),
        gauge("dirty", "blocks", "of these: not written yet"),
    )
