"""The observing connection to one node: direct, or else through the coordinator."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

import psycopg
from psycopg import sql as sqltext

from pgdyno.errors import PgdynoError
from pgdyno.features.nodes.nodes import IDENTITY_SQL
from pgdyno.observe.session import Connect, PoolerInThePath, ServerSession
from pgdyno.server.nodes import Node
from pgdyno.server.session_start import OWN_PATH

# The statement that run_command_on_workers consists of, for one node.
RELAY_SQL = (
    "SELECT success, result FROM pg_catalog.master_run_on_worker(ARRAY[%s], ARRAY[%s::int],"
    " ARRAY[%s], false)"
)
# The node's session has the path of its database. So the statement, a text, is parsed only after
# the path is ours and the transaction reads only: CASE evaluates its conditions first.
RELAYED_SQL = (
    f"SELECT CASE WHEN pg_catalog.set_config('search_path', '{OWN_PATH}', false) IS NOT NULL"
    " AND pg_catalog.set_config('transaction_read_only', 'on', true) IS NOT NULL THEN"
    " pg_catalog.query_to_xml({}, false, true, '')::pg_catalog.text END"
)
_ROWS_SQL = "SELECT coalesce(json_agg(r), '[]')::text AS rows FROM ({}) r"
_ROWS = re.compile("<rows>(.*)</rows>", re.DOTALL)
ABOUT_SQL = (
    "SELECT current_setting('server_version_num')::int, current_user::text,"
    " pg_has_role('pg_read_all_stats', 'USAGE')"
)
_IS_LACKING = re.compile("does not exist")
_IS_LOST = re.compile("connect|terminat")


class NodeSession(ServerSession):
    """A session of a node's own; if the node cannot be reached, the coordinator asks it.

    The direct way is used only if it leads to the server that the coordinator means: a name such as
    `localhost` is another host for the coordinator. `relay`: the session at the coordinator, whose
    transactions are the coordinator's; it is opened only if it is needed.
    """

    kind = "node"

    def __init__(
        self,
        node: Node,
        connect: Connect,
        relay: ServerSession,
        application_name: str,
        *,
        is_local: bool = False,
        busy: int = 0,
    ) -> None:
        super().__init__(connect, application_name, is_local=is_local, busy_sessions=busy)
        self.what = f"node {node.name}"
        self.relay = relay
        self.is_relayed = False
        self._node = node

    def open(self) -> None:
        """Connect. Raises: what the session at the coordinator raises if no way leads there."""
        if not self.is_relayed and self._node.identity and self._opened_directly():
            return
        self.is_relayed = True
        try:
            self.relay.open()
            [[version, user, sees_everybody]] = self._relayed(ABOUT_SQL)
        except BaseException:
            # The next try begins with the direct way.
            self.is_relayed = False
            self.relay.close()
            raise
        self.version, self.database = int(version) // 10_000, self.relay.database
        self.user, self.sees_everybody = str(user), bool(sees_everybody)

    def _opened_directly(self) -> bool:
        try:
            super().open()
            if str(super().fetch(IDENTITY_SQL)[0][0]) == self._node.identity:
                return True
        except (psycopg.Error, PgdynoError, PoolerInThePath):
            pass  # The coordinator may reach it, or says why it does not.
        super().close()
        return False

    @property
    def is_open(self) -> bool:
        """True until the connection in use is seen to be lost, or closed."""
        return self.relay.is_open if self.is_relayed else super().is_open

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one read-only statement. Raises: psycopg.Error."""
        if self.is_relayed:
            return self._relayed(sql, parameters)
        return super().fetch(sql, parameters)

    def fetch_often(self, sql: str, parameters: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that is sent every second. Raises: psycopg.Error."""
        if self.is_relayed:
            return self._relayed(sql, parameters)
        return super().fetch_often(sql, parameters)

    def report_transactions(self) -> None:
        """Make the node count our transactions now; relayed sessions end, so they always do."""
        if not self.is_relayed:
            super().report_transactions()

    def backend_cpu_ns(self) -> int:
        """Return the CPU time of our own backend: the coordinator's, if it asks the node."""
        return self.relay.backend_cpu_ns() if self.is_relayed else super().backend_cpu_ns()

    def cancel(self) -> None:
        """Ask the server to end the statement that runs now. For another thread; never raises."""
        self.relay.cancel()
        super().cancel()

    def close(self) -> None:
        """Close the connection in use. Never raises."""
        self.relay.close()
        super().close()

    def _relayed(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that the coordinator sends; texts and whole numbers."""
        values = iter(parameters)
        text = re.sub("%s", lambda _: sqltext.quote(next(values)), sql) if parameters else sql
        relayed = RELAYED_SQL.format(sqltext.quote(_ROWS_SQL.format(text)))
        asked = (self._node.host, self._node.port, relayed)
        [(is_answer, said)] = self.relay.fetch(RELAY_SQL, asked)
        self.transaction_count += 1
        if not is_answer:
            self._refuse(str(said))
        seen = _ROWS.search(str(said))
        answer = html.unescape(seen[1]) if seen is not None else "[]"
        rows = json.loads(answer, object_pairs_hook=lambda pairs: tuple(v for _, v in pairs))
        return [tuple(row) for row in rows]

    def _refuse(self, said: str) -> NoReturn:
        """Raise the error that the coordinator got. Raises: psycopg.Error."""
        if _IS_LACKING.search(said):
            raise psycopg.errors.UndefinedTable(said)
        if _IS_LOST.search(said):
            self.relay.close()
        raise psycopg.OperationalError(said)
