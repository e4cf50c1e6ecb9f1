"""Settings of a server that pgdyno did not start: changed for all, and put back as they were.

What is put back is the entry in postgresql.auto.conf, or its absence: exactly what ALTER SYSTEM
changes. A command of the user's own may stand in for it; it gets name -> value (null: as it was
without an entry) as JSON.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import psycopg
from psycopg import sql

from pgdyno.clock import monotonic_ns
from pgdyno.errors import PgdynoError, ServerError
from pgdyno.process import signals
from pgdyno.process.child import run
from pgdyno.server import settings as server_settings
from pgdyno.server.connect import Connection, connect
from pgdyno.server.target import Target

Entries = Mapping[str, str | None]
"""Name -> the value in postgresql.auto.conf, None where it has no entry."""

_TAKES_EFFECT_S = 30.0
_RESTART_S = 300.0
_ENTRIES = (
    "SELECT DISTINCT ON (lower(name)) lower(name), setting FROM pg_file_settings"
    " WHERE sourcefile LIKE '%%postgresql.auto.conf' AND lower(name) = ANY(%s)"
    " ORDER BY lower(name), seqno DESC"
)


@dataclass(frozen=True, slots=True)
class SystemSettings:
    """Who changes settings for a whole server, and how."""

    admin: Target
    verb: str
    apply_command: str | None = None
    restart_command: str | None = None
    recover_command: str | None = None

    def entries(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return the present entries of postgresql.auto.conf.

        Raises: ServerError with the GRANT that is missing.
        """
        wanted = sorted({name.lower() for name in names})
        with connect(self.admin, verb=self.verb) as connection:
            try:
                rows = connection.execute(_ENTRIES, [wanted]).fetchall()
            except psycopg.Error as error:
                role = self.admin.user
                raise ServerError(
                    f"{role} may not read which settings ALTER SYSTEM has set: "
                    f"{error.diag.message_primary}.",
                    hint="GRANT SELECT ON pg_file_settings, and EXECUTE ON FUNCTION"
                    f" pg_show_all_file_settings(), TO {role}; or name another with --admin",
                    sqlstate=error.sqlstate,
                ) from None
        found = {str(name): str(value) for name, value in rows}
        return {name: found.get(name) for name in wanted}

    def apply(self, entries: Entries, *, needs_restart: bool) -> None:
        """Make these the entries, and let the server take them up.

        Raises: ServerError when the server or a command refuses.
        """
        if self.apply_command is not None:
            self._run(self.apply_command, json.dumps(dict(entries)).encode())
        else:
            with connect(self.admin, verb=self.verb) as connection:
                for name, value in entries.items():
                    self._alter(connection, name, value)
                connection.execute("SELECT pg_reload_conf()")
        if needs_restart and self.restart_command is not None:
            self._run(self.restart_command, b"")

    def recover(self, entries: Entries, target: Target) -> bool:
        """Bring back a server that cannot be reached, with these entries; wait until it answers.

        Returns: False if it answers as it is, or there is no command for this.
        Raises: ServerError when the command fails, or the server does not answer after it.
        """
        if self.recover_command is None or self._answers(target):
            return False
        self._run(self.recover_command, json.dumps(dict(entries)).encode())
        self._wait_until(target, lambda _session: None)
        return True

    def _answers(self, target: Target) -> bool:
        try:
            connect(target, verb=self.verb).close()
        except ServerError:
            return False
        return True

    def require(self, target: Target, wanted: Mapping[str, str]) -> None:
        """Wait until a new session of `target` sees the settings as wanted.

        Raises: ServerError naming those it does not see after half a minute.
        """
        self._wait_until(target, lambda found: server_settings.require(found, wanted))

    def require_entries(self, entries: Entries) -> None:
        """Raise ServerError unless postgresql.auto.conf has just these entries."""
        if self.apply_command is not None:
            return  # What the command writes, and where, is its own.
        present = self.entries(entries)
        wrong = [name for name, value in entries.items() if present[name.lower()] != value]
        if wrong:
            raise ServerError(
                f"Not put back as they were: {', '.join(wrong)}.",
                hint="look at postgresql.auto.conf, and run pgdyno undo again",
            )

    def _alter(self, connection: Connection, name: str, value: str | None) -> None:
        identifier = sql.SQL(".").join(sql.Identifier(part) for part in name.split("."))
        statement = (
            sql.SQL("ALTER SYSTEM RESET {}").format(identifier)
            if value is None
            else sql.SQL("ALTER SYSTEM SET {} = {}").format(identifier, _value(name, value))
        )
        try:
            connection.execute(statement)
        except psycopg.Error as error:
            raise ServerError(
                f"{self.admin.user} cannot change {name}: {error.diag.message_primary}.",
                hint=f"GRANT ALTER SYSTEM ON PARAMETER {name} TO {self.admin.user} (15 and newer),"
                " or name another role with --admin",
                sqlstate=error.sqlstate,
            ) from None

    def _run(self, command: str, given: bytes) -> None:
        done = run(shlex.split(command), timeout_s=_RESTART_S, stdin=given)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
            raise ServerError(
                f"{command} ended with {done.returncode}: {said[0]}.",
                hint="it gets name -> value as JSON on its standard input",
            )

    def _wait_until(self, target: Target, holds: Callable[[Connection], None]) -> None:
        deadline_ns = monotonic_ns() + int(_TAKES_EFFECT_S * 1e9)
        while True:
            try:
                with connect(target, verb=self.verb) as connection:
                    holds(connection)
                return
            except PgdynoError:
                if monotonic_ns() > deadline_ns:
                    raise
            signals.sleep(0.1)


# Lists of names or folders: ALTER SYSTEM takes each element as a value of its own.
_LISTS = frozenset(
    {
        "datestyle",
        "listen_addresses",
        "local_preload_libraries",
        "search_path",
        "session_preload_libraries",
        "shared_preload_libraries",
        "temp_tablespaces",
        "unix_socket_directories",
    }
)


def _value(name: str, value: str) -> sql.Composable:
    if name.lower() not in _LISTS:
        return sql.Literal(value)
    parts = [part.strip().strip('"') for part in value.split(",")]
    return sql.SQL(", ").join(sql.Literal(part) for part in parts)
