"""The other nodes of a distributed server; a server has none unless a feature knows its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.feature import parts
from pgdyno.server.connect import Connection


@dataclass(frozen=True, slots=True)
class Node:
    """A worker: host and port as the coordinator names them.

    `identity`: the system identifier of its cluster; "" if it did not answer the coordinator.
    """

    host: str
    port: str
    identity: str = ""

    @property
    def name(self) -> str:
        """Return "host:port"."""
        return f"{self.host}:{self.port}"


def workers_of(connection: Connection) -> tuple[Node, ...]:
    """Return the workers of a coordinator; nothing for a server that is not distributed.

    Args: connection, to the load's database: each database has its own list of workers.
    """
    return tuple(node for kind in parts("nodes") for node in kind.workers_of(connection))


def node_statements() -> Mapping[str, str]:
    """Return name -> every statement that `workers_of` may send."""
    return {name: text for kind in parts("nodes") for name, text in kind.STATEMENTS.items()}
