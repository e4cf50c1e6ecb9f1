"""The other nodes of a distributed server, as its coordinator lists them."""

from __future__ import annotations

from dataclasses import replace

from psycopg import pq

from pgdyno.server.connect import Connection
from pgdyno.server.nodes import Node
from pgdyno.server.target import Target

IDENTITY_SQL = "SELECT system_identifier FROM pg_catalog.pg_control_system()"
_NODES_SQL = (
    "SELECT n.node_name, n.node_port::text, coalesce((SELECT CASE WHEN r.success THEN r.result END"
    f" FROM pg_catalog.run_command_on_workers('{IDENTITY_SQL}') r"
    " WHERE (r.nodename, r.nodeport) = (n.node_name, n.node_port)), '')"
    " FROM pg_catalog.citus_get_active_worker_nodes() n"
    " WHERE (n.node_name, n.node_port) NOT IN (SELECT nodename, nodeport"
    " FROM pg_catalog.pg_dist_node WHERE groupid = 0) ORDER BY 1, 2"
)
# Name -> every statement that `workers_of` may send.
STATEMENTS = {"workers of a Citus": _NODES_SQL}
_REQUIRE_AUTH_SINCE = 160_000


def workers_of(connection: Connection) -> tuple[Node, ...]:
    """Return the workers of a coordinator of Citus.

    Args: connection, to the load's database: each database has its own list of workers.
    """
    return tuple(Node(*row) for row in connection.execute(_NODES_SQL).fetchall())


def directly(target: Target, node: Node) -> Target:
    """Return the way to a node for the same user, database and credentials.

    The coordinator's word alone decides where the password goes. So it is never sent in clear text.
    An old libpq cannot promise this: then no password is sent at all.
    """
    parameters = {**target.parameters, "connect_timeout": "2"}
    if pq.version() >= _REQUIRE_AUTH_SINCE:
        parameters.setdefault("require_auth", "!password")
    else:
        target = replace(target, password=None, password_command="", host_passwords={})
    return replace(
        target,
        host=node.host,
        hostaddr="",
        ports=node.port,
        hosts_given=None,
        is_scratch=False,
        parameters=parameters,
    )
