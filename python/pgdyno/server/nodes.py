"""The other nodes of a distributed server; a server has none unless a feature knows its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.feature import features, parts
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
    return tuple(
        node
        for feature in features()
        if "nodes" in feature.parts and feature.name in kinds_of(connection)
        for node in feature.part("nodes").workers_of(connection)
    )


def kinds_of(connection: Connection) -> tuple[str, ...]:
    """Return the features that know more about a database, by an extension that it has."""
    return tuple(
        feature.name
        for feature in features()
        if feature.extension and connection.execute(_has_sql(feature.extension)).fetchone()
    )


def _has_sql(extension: str) -> str:
    return f"SELECT 1 FROM pg_catalog.pg_extension WHERE extname = '{extension}'"


def node_statements() -> Mapping[str, str]:
    """Return name -> every statement that `workers_of` may send."""
    asked = {
        f"whether {feature.extension} is installed": _has_sql(feature.extension)
        for feature in features()
        if feature.extension
    }
    return asked | {name: text for kind in parts("nodes") for name, text in kind.STATEMENTS.items()}
