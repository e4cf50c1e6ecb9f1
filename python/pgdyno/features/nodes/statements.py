"""The nodes of a Citus cluster: collectors of them, and every statement that these may send."""

from __future__ import annotations

from typing import ClassVar

from pgdyno.features.nodes.files import DISKS_SQL, FILES_SQL, RIGHT_SQL
from pgdyno.features.nodes.nodes import IDENTITY_SQL
from pgdyno.features.nodes.session import ABOUT_SQL, RELAY_SQL
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
from pgdyno.observe.sql.sql_collector import SqlCollector


def statements(_version: int) -> dict[str, str]:
    """Return name -> statement. Those of a node are sent to it, or within `relay`."""
    return {
        "counters of citus": COUNTS_SQL,
        "identity of a node": IDENTITY_SQL,
        "relay": RELAY_SQL,
        "node": ABOUT_SQL,
        "right to read /proc": RIGHT_SQL,
        "/proc": FILES_SQL,
        "disks": DISKS_SQL,
    }


COUNTS_SQL = "SELECT pg_catalog.current_setting('citus.enable_stat_counters', true)"


class CitusCollector(SqlCollector):
    """Runs one statement on the coordinator, in the load's database, which has Citus."""

    scope: ClassVar[Scope] = "database"


class PlacementsCollector(CitusCollector):
    """Samples where the shards are and which are moved; it reads the coordinator only."""

    name = "placements"
    meaning = "Where the shards of a distributed server are, and how many are being moved"
    interval_ns = 2 * SECOND_NS
    sql: ClassVar = {
        14: (
            "SELECT n.nodename || ':' || n.nodeport, (SELECT count(*) FROM"
            " pg_catalog.pg_dist_placement p WHERE p.groupid = n.groupid)::int8, (SELECT count(*)"
            " FROM pg_catalog.get_rebalance_progress() m WHERE m.progress = 1"
            " AND m.targetname = n.nodename AND m.targetport = n.nodeport)::int8"
            " FROM pg_catalog.pg_dist_node n"
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
            " FROM pg_catalog.citus_shards WHERE citus_table_type <> 'reference' GROUP BY 1"
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
            " connection_reused FROM pg_catalog.citus_stat_counters WHERE name = current_database()"
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

        Raises: NotMeasurable if Citus does not count.
        """
        rows = super().sample(now_ns)
        shown = self._session.fetch(COUNTS_SQL)
        if shown[0][0] != "on":
            raise NotMeasurable("Citus counts nothing: citus.enable_stat_counters is off.")
        return rows


COLLECTORS = (PlacementsCollector, ShardsCollector, NodeConnectionsCollector)
