"""Every statement about the nodes of a Citus that the observer may send."""

from __future__ import annotations

from pgdyno.features.nodes.files import DISKS_SQL, FILES_SQL, RIGHT_SQL
from pgdyno.features.nodes.node_sql import COUNTS_SQL
from pgdyno.features.nodes.nodes import IDENTITY_SQL
from pgdyno.features.nodes.session import ABOUT_SQL, RELAY_SQL


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
