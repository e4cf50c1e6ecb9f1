"""The workers of a distributed server as the observer needs them, and their collectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from pgdyno.features.nodes.files import NodeFiles
from pgdyno.features.nodes.nodes import directly
from pgdyno.features.nodes.session import NodeSession
from pgdyno.observe.collector import SECOND_NS, Collector, Column, Row, Scope, key
from pgdyno.observe.host.cpu import CpuCollector, PressureCollector, SchedulerCollector
from pgdyno.observe.host.disk import DiskCollector
from pgdyno.observe.host.memory import MemoryCollector
from pgdyno.observe.host.network import NetworkCollector, TcpCollector
from pgdyno.observe.session import Connect, ServerSession
from pgdyno.observe.sql.collectors import SQL_COLLECTORS
from pgdyno.observe.sql.sql_collector import ServerSource
from pgdyno.observe.sql.waits import WaitSampler
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


_NODE = key("node", "its host and port, as the coordinator names it")
_INTERVAL_NS_MIN = 2 * SECOND_NS


class NodeCollector:
    """Another collector, asked of one node; its rows name the node."""

    name: ClassVar[str]
    scope: ClassVar[Scope] = "node"
    meaning: ClassVar[str]
    interval_ns: ClassVar[int]
    columns: ClassVar[tuple[Column, ...]]
    # The collector of the coordinator: what that one cannot measure is not reported again.
    base_name: ClassVar[str]

    def __init__(self, node: str, collector: Collector) -> None:
        self._node, self._collector = node, collector

    def sample(self, now_ns: int) -> list[Row]:
        """Return the rows of the other collector. Raises: as that one."""
        return [{"node": self._node, **row} for row in self._collector.sample(now_ns)]


def of_nodes(collector: type[Collector]) -> type[NodeCollector]:
    """Return the collector that asks a node for what `collector` asks a server or a host."""
    is_sampler = collector is WaitSampler
    members: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": f"{collector.__name__} of one node.",
        "name": f"node_{collector.name}",
        "meaning": f"Of each worker of a distributed server: {collector.meaning}",
        "interval_ns": SECOND_NS if is_sampler else max(collector.interval_ns, _INTERVAL_NS_MIN),
        "columns": (_NODE, *collector.columns),
        "base_name": collector.name,
    }
    return type(f"Node{collector.__name__}", (NodeCollector,), members)


# Their files have the same units on every host.
_HOST = (
    *(CpuCollector, SchedulerCollector, MemoryCollector, DiskCollector),
    *(NetworkCollector, TcpCollector, PressureCollector),
)
_ALL: tuple[type[Collector], ...] = (*SQL_COLLECTORS, *_HOST)
_OF_NODES = {collector.name: of_nodes(collector) for collector in _ALL}
NODE_COLLECTORS = tuple(_OF_NODES.values())


def of_node(
    name: str, session: NodeSession, *, load_application_name: str, database: str
) -> list[Collector]:
    """Return all collectors of one node."""
    source = ServerSource(session, database, (session,))
    files = NodeFiles(session)
    made: list[Collector] = [
        WaitSampler(session, load_application_name, database)
        if collector is WaitSampler
        else collector.of(source)
        for collector in SQL_COLLECTORS
    ]
    made += [collector(files) for collector in _HOST]
    return [_OF_NODES[collector.name](name, collector) for collector in made]
