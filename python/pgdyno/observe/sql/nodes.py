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

# The word for a session that executes a statement and waits for nothing.
WORKING: Final = "no wait event"

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


# What the sessions of a node wait for, as "event=count|event=count".
_WAITS_OF_NODE = (
    "SELECT coalesce(string_agg(event || '=' || count, '|'), '') FROM (SELECT"
    f" coalesce(a.wait_event_type || ':' || a.wait_event, '{WORKING}') AS event, count(*)"
    " FROM pg_catalog.pg_stat_activity a WHERE a.datname = current_database()"
    " AND a.state = 'active' AND a.pid <> pg_backend_pid() GROUP BY 1) waits"
)


class NodeWaitsCollector(CitusCollector):
    """Samples the wait events of the sessions at work on each worker, through the coordinator."""

    name = "node_waits"
    meaning = "What the sessions at work on each worker of a distributed server wait for"
    sql: ClassVar = {
        14: (
            "SELECT n.nodename || ':' || n.nodeport, split_part(item, '=', 1),"
            " split_part(item, '=', 2)::int8 FROM pg_catalog.pg_dist_node n"
            f" JOIN run_command_on_workers($sql${_WAITS_OF_NODE}$sql$) r USING (nodename, nodeport)"
            " CROSS JOIN LATERAL unnest(string_to_array(r.result, '|')) item"
            " WHERE n.groupid <> 0 AND r.success AND r.result <> ''"
        )
    }
    columns: ClassVar[tuple[Column, ...]] = (
        key("node", "its host and port, as the coordinator names it"),
        key("wait_event", f"type and event; {WORKING!r} = none, so CPU or not instrumented"),
        gauge("sessions", "sessions", "executing a statement, without our own"),
    )


# Whether the role may read the counters of the kernel on every worker.
RIGHT_SQL = (
    "SELECT bool_and(success AND result = 't') FROM run_command_on_workers($sql$SELECT"
    " has_function_privilege('pg_catalog.pg_read_file(text,bigint,bigint,boolean)', 'EXECUTE')"
    " AND pg_has_role('pg_read_server_files', 'MEMBER')$sql$)"
)
_KERNEL = "pg_catalog.pg_read_file('/proc/{}', 0, 1000000, true)"
_TICK_NS = 10_000_000  # Linux counts in /proc/stat in hundredths of a second.
_STAT = "(regexp_split_to_array((regexp_match(stat, '^cpu +([0-9 ]+)'))[1], ' +')::int8[])"
_HOST = (
    f"SELECT concat_ws('|', (v[1] + v[2] + v[3] + v[6] + v[7]) * {_TICK_NS}, v[5] * {_TICK_NS},"
    f" v[8] * {_TICK_NS}, cores, available) FROM (SELECT {_STAT} AS v, (SELECT count(*) FROM"
    " regexp_matches(stat, 'cpu[0-9]+ ', 'g')) AS cores, (regexp_match(mem,"
    " 'MemAvailable: +([0-9]+)'))[1]::int8 * 1024 AS available FROM (SELECT"
    f" {_KERNEL.format('stat')} AS stat, {_KERNEL.format('meminfo')} AS mem) read) host"
)


class NodeHostsCollector(CitusCollector):
    """Samples processors and memory of each worker's host, which its server reads from /proc."""

    name = "node_hosts"
    meaning = "Processors and memory of the host of each worker of a distributed server"
    sql: ClassVar = {
        14: (
            "SELECT n.nodename || ':' || n.nodeport, split_part(r.result, '|', 1)::int8,"
            " split_part(r.result, '|', 2)::int8, split_part(r.result, '|', 3)::int8,"
            " split_part(r.result, '|', 4)::int8, split_part(r.result, '|', 5)::int8"
            f" FROM pg_catalog.pg_dist_node n JOIN run_command_on_workers($sql${_HOST}$sql$) r"
            " USING (nodename, nodeport) WHERE n.groupid <> 0 AND r.success"
            " AND r.result LIKE '%|%|%|%|%'"
        )
    }
    columns: ClassVar[tuple[Column, ...]] = (
        key("node", "its host and port, as the coordinator names it"),
        counter("busy_ns", "ns", "processors of the host at work, all of them together"),
        counter("io_wait_ns", "ns", "idle processors while requests to disks were open"),
        counter("stolen_ns", "ns", "time that the hypervisor gave to other machines"),
        gauge("cores", "cores", "of the host"),
        gauge("available_bytes", "bytes", "memory that programs can get without swapping"),
    )
    _may: bool | None = None

    def sample(self, now_ns: int) -> list[Row]:
        """Return a row for each worker whose server can read the counters of its kernel.

        Raises: NotMeasurable if the role may not read them, or Citus is not in the database.
        """
        if self._may is None and self._session.fetch(schema_sql("citus")):
            # Without the right, every sample would be an error in the log of every worker.
            self._may = bool(self._session.fetch(RIGHT_SQL)[0][0])
        if self._may is False:
            raise NotMeasurable(
                "The role cannot read /proc on the workers, so the processors of their hosts are"
                " not known. Superusers can; else, on each worker: GRANT EXECUTE ON FUNCTION"
                " pg_read_file(text, bigint, bigint, boolean), and GRANT pg_read_server_files."
            )
        return super().sample(now_ns)


class PlacementsCollector(CitusCollector):
    """Samples where the shards are and which are moved; it reads the coordinator only."""

    name = "placements"
    meaning = "Where the shards of a distributed server are, and how many are being moved"
    interval_ns = 2 * SECOND_NS
    sql: ClassVar = {
        14: (
            "SELECT n.nodename || ':' || n.nodeport, (SELECT count(*) FROM"
            " pg_catalog.pg_dist_placement p WHERE p.groupid = n.groupid)::int8, (SELECT count(*)"
            " FROM get_rebalance_progress() m WHERE m.progress = 1 AND m.targetname = n.nodename"
            " AND m.targetport = n.nodeport)::int8 FROM pg_catalog.pg_dist_node n"
        )
    }
    columns: ClassVar[tuple[Column, ...]] = (
        key("node", "its host and port, as the coordinator names it"),
        gauge("shards", "shards", "that are on the node"),
        gauge("arriving", "shards", "that are being moved to the node"),
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
