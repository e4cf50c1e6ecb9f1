"""The workers of a distributed server as the observer needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pgdyno.features.nodes.collectors import of_node
from pgdyno.features.nodes.nodes import directly
from pgdyno.features.nodes.session import NodeSession
from pgdyno.observe.collector import Collector
from pgdyno.observe.session import Connect, ServerSession
from pgdyno.server.connect import connect
from pgdyno.server.nodes import Node
from pgdyno.server.target import LOOPBACK_HOSTS, Target


@dataclass(frozen=True, slots=True)
class WorkerNode:
    """A worker, and how to reach it directly. `is_local`: its processes are on this host."""

    node: Node
    connect: Connect
    is_local: bool = False

    def session(self, relay: ServerSession, application_name: str, *, busy: int) -> NodeSession:
        """Return the session of the node; the coordinator's `relay` asks if it is not reached."""
        return NodeSession(
            self.node, self.connect, relay, application_name, is_local=self.is_local, busy=busy
        )

    def collectors(
        self, session: NodeSession, *, load_application_name: str, database: str
    ) -> list[Collector]:
        """Return all collectors of the node."""
        return of_node(
            self.node.name,
            session,
            load_application_name=load_application_name,
            database=database,
        )


def observed_nodes(
    nodes: Sequence[Node], target: Target, *, run: str, is_local: bool
) -> tuple[WorkerNode, ...]:
    """Return how to reach each node as the user of `target`, the coordinator.

    Args: run, for the sessions' application_name; is_local, whether the coordinator is here.
    """
    return tuple(
        WorkerNode(
            node,
            partial(connect, directly(target, node), verb="observe", run=run),
            is_local and node.host in LOOPBACK_HOSTS,
        )
        for node in nodes
    )
