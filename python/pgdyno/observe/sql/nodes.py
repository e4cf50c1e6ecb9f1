"""The nodes of a Citus cluster: what each one does, what it holds, and how they are connected."""

from __future__ import annotations

from typing import ClassVar, Final

from pgdyno.observe.collector import (
    SECOND_NS,
    Column,
    NotMeasurable,
    Row,
    Scope,
    counter,
    gauge,
    key,
)
from pgdyno.observe.sql.sql_collector import SqlCollector, schema_sql

_SESSIONS = "SELECT count(*) FROM pg_catalog.pg_stat_activity a WHERE a.datid = d.datid"
# What every node is asked about its database. Each answer is one line, split by "|".
_ASKED: Final = (
    ("connections", "connections", "d.numbackends", "backends in the database"),
    (
        "active",
        "sessions",
        f"({_SESSIONS} AND a.state = 'active' AND a.pid <> pg_backend_pid())",
        "executing a statement, without our own",
    ),
    (
        "waiting_for_locks",
        "sessions",
        f"({_SESSIONS} AND a.wait_event_type = 'Lock')",
        "waiting for a lock",
    ),
    ("xact_commit", "transactions", "d.xact_commit", "committed; ours are among them"),
    ("xact_rollback", "transactions", "d.xact_rollback", "rolled back"),
    ("blks_read", "blocks", "d.blks_read", "not found in shared_buffers"),
    ("blks_hit", "blocks", "d.blks_hit", "found in shared_buffers"),
    (
        "rows_written",
        "rows",
        "d.tup_inserted + d.tup_updated + d.tup_deleted",
        "inserted, updated and deleted",
    ),
    (
        "active_time_ns",
        "ns",
        "(d.active_time * 1e6)::int8",
        "time that sessions executed statements",
    ),
    ("deadlocks", "deadlocks", "d.deadlocks", "found on this node alone"),
)
_GAUGES: Final = ("connections", "active", "waiting_for_locks")
_LINE = (
    f"SELECT concat_ws('|', {', '.join(sql for _, _, sql, _ in _ASKED)})"
    " FROM pg_catalog.pg_stat_database d WHERE d.datname = current_database()"
)
_VALUES = ", ".join(
    f"nullif(split_part(line, '|', {place}), '')::int8" for place in range(1, len(_ASKED) + 1)
)
# The coordinator is asked directly: run_command_on_all_nodes connects to it, too, and the
# transactions of that session would count as the load's.
_EACH_NODE = (
    "SELECT n.nodename || ':' || n.nodeport AS node, 'worker' AS role, r.success,"
    " CASE WHEN r.success THEN r.result END AS line FROM pg_catalog.pg_dist_node n"
    f" JOIN run_command_on_workers($sql${_LINE}$sql$) r USING (nodename, nodeport)"
    " WHERE n.groupid <> 0 UNION ALL SELECT coalesce((SELECT nodename || ':' || nodeport FROM"
    " pg_catalog.pg_dist_node WHERE groupid = 0 LIMIT 1), 'coordinator'), 'coordinator', true,"
    f" ({_LINE})"
)
COUNTS_SQL = "SELECT current_setting('citus.enable_stat_counters', true)"
NODES_SQL = {14: f"SELECT node, role, success::int::int8, {_VALUES} FROM ({_EACH_NODE}) nodes"}


class CitusCollector(SqlCollector):
    """Runs one statement on the coordinator, in the load's database."""

    scope: ClassVar[Scope] = "database"

    def sample(self, now_ns: int) -> list[Row]:
        """Return the statement's rows.

        Raises: NotMeasurable if Citus is not in the load's database.
        """
        if not self._session.fetch(schema_sql("citus")):
            raise NotMeasurable("Citus is not in the database that is observed.")
        return super().sample(now_ns)


class NodesCollector(CitusCollector):
    """Samples every node through the coordinator; a node that is lost has `answers` = 0."""

    name = "nodes"
    meaning = "What each node of a distributed server does"
    interval_ns = 2 * SECOND_NS
    sql = NODES_SQL
    columns: ClassVar[tuple[Column, ...]] = (
        key("node", "its host and port, as the coordinator names it"),
        key("role", "coordinator or worker"),
        gauge("answers", "0 or 1", "0 = the coordinator could not ask it"),
        *(
            (gauge if name in _GAUGES else counter)(name, unit, meaning, is_nullable=True)
            for name, unit, _, meaning in _ASKED
        ),
    )


class ShardsCollector(CitusCollector):
    """Samples what each node holds. The coordinator asks every node for the size of its shards."""

    name = "shards"
    meaning = "The data that each node of a distributed server holds"
    interval_ns = 60 * SECOND_NS
    sql: ClassVar = {
        14: (
            "SELECT nodename || ':' || nodeport, count(*)::int8,"
            " coalesce(sum(shard_size), 0)::int8"
            " FROM citus_shards WHERE citus_table_type <> 'reference' GROUP BY 1"
        )
    }
    columns: ClassVar[tuple[Column, ...]] = (
        key("node", "its host and port, as the coordinator names it"),
        gauge("shards", "shards", "of distributed tables; copies of reference tables not counted"),
        gauge("size_bytes", "bytes", "of these shards with their indexes"),
    )


class NodeConnectionsCollector(CitusCollector):
    """Samples how the coordinator executes statements (citus_stat_counters, Citus 13.1)."""

    name = "node_connections"
    meaning = "Statements of one node and of several, and connections between nodes"
    sql: ClassVar = {
        14: (
            "SELECT query_execution_single_shard, query_execution_multi_shard,"
            " connection_establishment_succeeded, connection_establishment_failed,"
            " connection_reused FROM citus_stat_counters WHERE name = current_database()"
        )
    }
    columns: ClassVar[tuple[Column, ...]] = (
        counter("single_shard", "statements", "that needed one shard"),
        counter("multi_shard", "statements", "that needed several shards"),
        counter("connections_made", "connections", "to other nodes"),
        counter("connections_failed", "connections", "that could not be made"),
        counter("connections_reused", "times", "an open connection was taken"),
    )

    def sample(self, now_ns: int) -> list[Row]:
        """Return one row.

        Raises: NotMeasurable if Citus does not count, or is not in the load's database.
        """
        rows = super().sample(now_ns)
        shown = self._session.fetch(COUNTS_SQL)
        if shown[0][0] != "on":
            raise NotMeasurable("Citus counts nothing: citus.enable_stat_counters is off.")
        return rows
