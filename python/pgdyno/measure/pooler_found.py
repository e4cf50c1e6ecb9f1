"""Finds a pooler in the path to a server of the user's own, and its console."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import psycopg

from pgdyno.errors import ServerError, SpecError
from pgdyno.measure.run_progress import RunProgress
from pgdyno.server.connect import Connection, connect
from pgdyno.server.scratch.pgbouncer import ADMIN_DATABASE
from pgdyno.server.target import Target

_KNOWS_PREPARED = (1, 21)


@dataclass(frozen=True, slots=True)
class ReachedPooler:
    """The pooler that `target` leads to. `console` is None if the same user may not connect to it.

    `mode` and `version` are "" if the console does not tell them.
    """

    target: Target
    console: Target | None
    mode: str = ""
    version: str = ""
    prepared_count: int | None = None

    def refuse(self, protocols: Collection[str]) -> None:
        """Raise SpecError if the pooler forgets prepared statements and the load needs them."""
        if "prepared" not in protocols or self.mode in ("", "session"):
            return
        parts = tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])
        if self.prepared_count or (self.prepared_count is None and parts >= _KNOWS_PREPARED):
            return
        raise SpecError(
            f"{self.target.place} is PgBouncer {self.version} in {self.mode} mode, which does "
            "not support prepared statements; 1.21 and later do, with max_prepared_statements.",
            hint=(
                "use -M extended or simple, pool_mode = session, or connect to the server "
                "directly with -h and -p"
            ),
        )


def pooler_at(
    target: Target, named: Target | None, verb: str, progress: RunProgress, observe: str | None
) -> ReachedPooler:
    """Return the pooler that `target` leads to.

    The console is `named`, or else found if the same user may connect to it. If it is not found, a
    message names the option for it.
    """
    if observe is None:
        progress.said(f"{target.place} is a pooler: to observe the server, add --observe CONNINFO")
    console = named or target.with_database(ADMIN_DATABASE)
    try:
        with connect(console, verb=verb, console=True) as connection:
            version = _shown(connection, "VERSION")[0].get("version", "")
            databases = _shown(connection, "DATABASES")
            config = {row["key"]: row["value"] for row in _shown(connection, "CONFIG")}
    except (ServerError, psycopg.Error) as error:
        why = error.message if isinstance(error, ServerError) else str(error).strip()
        if named is None:
            progress.said(f"the pooler's console: {why.rstrip('.')}; --pooler CONNINFO names it")
        return ReachedPooler(target, named)
    own = next((row for row in databases if row.get("name") == target.database), {})
    prepared = config.get("max_prepared_statements", "")
    return ReachedPooler(
        target,
        console,
        mode=own.get("pool_mode") or config.get("pool_mode", ""),
        version=version.removeprefix("PgBouncer "),
        prepared_count=int(prepared) if prepared.isdigit() else None,
    )


def _shown(connection: Connection, what: str) -> list[dict[str, str]]:
    """Return the rows of one SHOW of the console, by column."""
    cursor = connection.execute(f"SHOW {what}".encode())
    names = [column.name for column in cursor.description or ()]
    return [
        {name: "" if value is None else str(value) for name, value in zip(names, row, strict=True)}
        for row in cursor.fetchall()
    ]
