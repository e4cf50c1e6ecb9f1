"""The server under test of one run: where it is, how it is reached, what is known about it.

`opening.py` makes the object: from a scratch cluster, or from a server of the user's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgdyno.server.connect import Connection, connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.server_facts import ServerFacts
from pgdyno.server.target import Target

LOAD_DATABASE = "pgdyno"


@dataclass(frozen=True, slots=True)
class UnderTest:
    """A server that is ready to be measured.

    `observe` is where collectors connect: on a scratch server another database than the load's,
    so that their own work is not in its statistics. `direct` leads to the load's database past the
    pooler that `target` goes through; `pooler` is that pooler's console. `host_command` runs a
    shell on the server's host, where that is another one.
    `is_pooled`: `target` is a pooler of the user's own. `has_room_to_probe`: the server admits one
    more connection than the load and ours, to measure the network while the load runs.
    """

    target: Target
    observe: Target
    cluster: ScratchCluster | None
    facts: ServerFacts
    verb: str
    direct: Target | None = None
    host_command: tuple[str, ...] | None = None
    pooler: Target | None = None
    is_pooled: bool = False
    has_room_to_probe: bool = True

    @property
    def database(self) -> str:
        """Return the name of the load's database."""
        return (self.direct or self.target).database

    @property
    def observe_within(self) -> Target | None:
        """Return the way into the load's database where `observe` leads to another one."""
        if self.observe.database == self.database:
            return None
        return self.observe.with_database(self.database)

    @property
    def is_scratch(self) -> bool:
        """True if the server is ours."""
        return self.cluster is not None

    def control(self, run: str = "control") -> Connection:
        """Open a control connection to the load's database."""
        return connect(self.direct or self.target, verb=self.verb, run=run, patient=True)

    def application_name(self, run: str) -> str:
        """Return the name of the load's sessions, such as "pgdyno/bench/12.3"."""
        return f"pgdyno/{self.verb}/{run}"

    def log_path(self) -> Path | None:
        """Return the server's log, where it can be read."""
        return self.cluster.log_path if self.cluster is not None else None


@dataclass(slots=True)
class LentCluster:
    """A scratch cluster that outlives an experiment, so that the next one finds its data loaded.

    Its owner closes it.
    """

    cluster: ScratchCluster | None = None

    def close(self) -> None:
        """Remove the cluster, if one was made."""
        if self.cluster is not None:
            self.cluster.close()
            self.cluster = None
