"""The other nodes of a distributed server, as the observer asks them; a feature knows how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pgdyno.feature import part
from pgdyno.observe.collector import Collector
from pgdyno.observe.session import ServerSession
from pgdyno.server.nodes import Node
from pgdyno.server.target import Target


class ObservedNode(Protocol):
    """A node: its session, and the collectors that ask it."""

    def session(self, relay: ServerSession, application_name: str, *, busy: int) -> Any:
        """Return the session of the node; the coordinator's `relay` asks if it is not reached."""

    def collectors(
        self, session: Any, *, load_application_name: str, database: str
    ) -> list[Collector]:
        """Return all collectors of the node."""


def observed_nodes(
    nodes: Sequence[Node], target: Target, *, run: str, is_local: bool
) -> tuple[ObservedNode, ...]:
    """Return how to observe each node as the user of `target`, the coordinator.

    Args: run, for the sessions' application_name; is_local, whether the coordinator is here.
    """
    makes = part("observed_nodes") if nodes else None
    return () if makes is None else makes(nodes, target, run=run, is_local=is_local)
