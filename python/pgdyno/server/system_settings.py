"""Changes settings of a server that pgdyno did not start, for all sessions, and restores them.

pgdyno restores the entry in postgresql.auto.conf, or its absence: exactly what ALTER SYSTEM
changes. A command of the user may replace ALTER SYSTEM; it gets name -> value as JSON (null: no
entry).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from pgdyno.clock import monotonic_ns
from pgdyno.errors import PgdynoError, ServerError
from pgdyno.process import signals
from pgdyno.server import configuration
from pgdyno.server.configuration import Setting, live_settings
from pgdyno.server.connect import Connection, connect, was_given_up
from pgdyno.server.target import Target
from pgdyno.server.user_command import COMMAND_TIMEOUT_S, run_command

Entries = Mapping[str, str | None]
"""Name -> the value in postgresql.auto.conf, None without an entry."""

AUTO_CONF = "postgresql.auto.conf"
_TAKES_EFFECT_S = 30.0
_RESTART_S = 300.0
_RELOAD_S = 2.0
# SQLSTATEs of a server that is being stopped or started: it answers, but does not admit sessions.
_ON_THE_WAY = "57P03"
_ENTRIES = (
    "SELECT DISTINCT ON (lower(name)) lower(name), setting FROM pg_file_settings"
    " WHERE sourcefile LIKE '%%postgresql.auto.conf' AND lower(name) = ANY(%s)"
    " ORDER BY lower(name), seqno DESC"
)


@dataclass(frozen=True, slots=True)
class SystemSettings:
    """The role or the commands that change settings of a whole server.

    `data_dir`: the server's data directory, None unless it is on this host and writable.
    """

    admin: Target
    verb: str
    apply_command: str | None = None
    restart_command: str | None = None
    recover_command: str | None = None
    data_dir: Path | None = None
    command_timeout_s: float = COMMAND_TIMEOUT_S

    @property
    def can_start_again(self) -> bool:
        """Return whether settings can be put back while the server is down."""
        has_command = self.recover_command is not None or self.apply_command is not None
        return has_command or is_writable(self.data_dir)

    def entries(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return the present entries of postgresql.auto.conf.

        Raises: ServerError with the missing GRANT.
        """
        wanted = sorted({name.lower() for name in names})
        with connect(self.admin, verb=self.verb) as connection:
            try:
                rows = connection.execute(_ENTRIES, [wanted]).fetchall()
            except psycopg.Error as error:
                role = self.admin.user
                raise ServerError(
                    f"{role} may not read the settings of ALTER SYSTEM: "
                    f"{error.diag.message_primary}.",
                    hint="GRANT SELECT ON pg_catalog.pg_file_settings, and EXECUTE ON FUNCTION"
                    f" pg_catalog.pg_show_all_file_settings(), TO {role}; or name another with"
                    " --admin",
                    sqlstate=error.sqlstate,
                ) from None
        values = {str(name): str(value) for name, value in rows}
        return {name: values.get(name) for name in wanted}

    def values(self, names: Iterable[str]) -> dict[str, str]:
        """Return the values that the running server uses; unknown names are left out."""
        return {name: live.show for name, live in self._live(names).items()}

    def _live(self, names: Iterable[str]) -> dict[str, Setting]:
        with connect(self.admin, verb=self.verb) as connection:
            return live_settings(connection, names)

    def apply(self, entries: Entries, *, needs_restart: bool) -> None:
        """Write these entries, and make the server use them.

        Raises: ServerError if the server or a command refuses.
        """
        if self.apply_command is not None:
            self._run("apply_command", entries)
        else:
            with connect(self.admin, verb=self.verb) as connection:
                for name, value in entries.items():
                    self._alter(connection, name, value)
                connection.execute("SELECT pg_catalog.pg_reload_conf()")
        if needs_restart and self.restart_command is not None:
            self._run("restart_command")

    def put_back(self, entries: Entries, values: Mapping[str, str], *, restarts: bool) -> bool:
        """Restore the server: its entries, and the values it uses.

        Args: values, which the server used before; empty if a journal has none.
        Returns: False if the server already had them, and nothing was done.
        Raises: ServerError if the server or a command refuses.
        """
        was_down = self.is_down()
        if was_down:
            self.start_again(entries)
        if self._is_as_before(entries, values):
            return was_down
        try:
            self.apply(entries, needs_restart=False)
            if restarts and self.restart_command is not None and self._lacks(entries, values):
                self._run("restart_command")
        except ServerError as error:
            error.message += self._not_in_effect(entries)
            raise
        self.require_entries(entries)
        return True

    def is_down(self) -> bool:
        """Return whether no server answers. A server that refuses this role is not down."""
        return not is_there(self.admin, self.verb)

    def start_again(self, entries: Entries) -> None:
        """Start a server that does not answer, with these entries; wait until it answers.

        Raises: ServerError if there is no command for this, or the command fails.
        """
        if self.recover_command is not None:
            self._run("recover_command", entries)
        elif self.apply_command is not None:
            self._run("apply_command", entries)
            if self.restart_command is not None and self.is_down():
                self._run("restart_command")
        elif is_writable(self.data_dir) and self.restart_command is not None:
            assert self.data_dir is not None
            rewrite_auto_conf(self.data_dir, entries)
            self._run("restart_command")
        else:
            raise ServerError(
                f"{self.admin.place} does not answer, and there is no command that restores its "
                "settings while it is down.",
                hint=self.by_hand(entries),
            )
        self._wait_until(self.admin, lambda _session: None)

    def by_hand(self, entries: Entries) -> str:
        """Return in words how to restore these entries by hand while the server is down."""
        file = f"{self.data_dir}/{AUTO_CONF}" if self.data_dir else f"{AUTO_CONF} (in PGDATA)"
        removed = [name for name, value in entries.items() if value is None]
        steps = [f"remove the line of {name}" for name in removed]
        steps += [f"write {_line(name, value)}" for name, value in entries.items() if value]
        start = self.restart_command or "pg_ctl start"
        return (
            f"on the server's host, in {file}: {'; '.join(steps)}. Then start the server "
            f"({start}), and run pgdyno undo"
        )

    def require(self, target: Target, wanted: Mapping[str, str]) -> None:
        """Wait until a new session of `target` sees the settings as wanted.

        Raises: ServerError naming those it does not see after half a minute.
        """
        self._wait_until(target, lambda present: configuration.require(present, wanted))

    def require_entries(self, entries: Entries) -> None:
        """Raise ServerError unless postgresql.auto.conf has just these entries."""
        if self.apply_command is not None:
            return  # What the command writes, and where, is its own.
        present = self.entries(entries)
        wrong = [name for name, value in entries.items() if present[name.lower()] != value]
        if wrong:
            raise ServerError(
                f"Not restored: {', '.join(wrong)}.",
                hint="look at postgresql.auto.conf, and run pgdyno undo again",
            )

    def _is_as_before(self, entries: Entries, values: Mapping[str, str]) -> bool:
        if values and self.values(entries) != {name.lower(): v for name, v in values.items()}:
            return False
        if self.apply_command is None:
            present = self.entries(entries)
            if any(present[name.lower()] != value for name, value in entries.items()):
                return False
        elif not values:
            return False  # What the command writes, and where, is its own.
        return not self._awaiting_restart(entries)

    def _lacks(self, entries: Entries, values: Mapping[str, str]) -> bool:
        """Return whether only a restart gives the server its previous values again.

        A restart that a signal ended may not have happened: then the server has them.
        """
        deadline_ns = monotonic_ns() + int(_RELOAD_S * 1e9)
        while values and not self._is_as_before(entries, values):
            is_other = any(
                live.rule.needs == "restart" and values[name] != live.show
                for name, live in self._live(values).items()
            )
            if is_other or monotonic_ns() > deadline_ns:
                return True
            signals.sleep(0.05)
        return not values

    def _awaiting_restart(self, names: Iterable[str]) -> list[str]:
        lives = self._live(names).values()
        return [f"{live.rule.name} = {live.show}" for live in lives if live.is_pending]

    def _not_in_effect(self, entries: Entries) -> str:
        """Return a further sentence: the remaining steps after a failed restart."""
        try:
            awaiting = self._awaiting_restart(entries)
        except ServerError:
            return ""
        if not awaiting:
            return ""
        return f" {AUTO_CONF} is restored, but until a restart the server uses" + (
            f" {', '.join(awaiting)}."
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

    def _run(self, option: str, entries: Entries | None = None) -> None:
        """Run the command of an option; it gets the entries as JSON on standard input."""
        run_command(
            getattr(self, option),
            option=f"--{option.replace('_', '-')}",
            timeout_s=self.command_timeout_s,
            stdin=b"" if entries is None else json.dumps(dict(entries)).encode(),
        )

    def _wait_until(self, target: Target, holds: Callable[[Connection], None]) -> None:
        deadline_ns = monotonic_ns() + int(_TAKES_EFFECT_S * 1e9)
        while True:
            try:
                with connect(target, verb=self.verb) as connection:
                    holds(connection)
                return
            except PgdynoError as error:
                if monotonic_ns() > deadline_ns or was_given_up(error):
                    raise
            signals.sleep(0.1)


def answers(target: Target, verb: str) -> bool:
    """Return whether a server answers; a server that stops or starts has five minutes."""
    deadline_ns = monotonic_ns() + int(_RESTART_S * 1e9)
    while True:
        try:
            connect(target, verb=verb).close()
            return True
        except ServerError as error:
            if error.sqlstate != _ON_THE_WAY or monotonic_ns() > deadline_ns:
                # A server that refuses this session is there.
                return error.sqlstate not in (None, _ON_THE_WAY)
        signals.sleep(0.1)


def is_there(target: Target, verb: str) -> bool:
    """Return whether a server is there, although it may take no session, as with full slots."""
    try:
        connect(target, verb=verb).close()
    except ServerError as error:
        return error.sqlstate not in (None, _ON_THE_WAY)
    return True


# Lists of names or folders: ALTER SYSTEM takes each element as a separate value.
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


def not_alterable(connection: Connection, names: Iterable[str]) -> list[str]:
    """Return those of the settings that this role may not change with ALTER SYSTEM.

    Limits: before PostgreSQL 15 only a superuser may use ALTER SYSTEM.
    """
    row = connection.execute(
        "SELECT rolsuper, current_setting('server_version_num')::int FROM pg_catalog.pg_roles"
        " WHERE rolname = current_user"
    ).fetchone()
    assert row is not None, "a session has a role"
    if row[0]:
        return []
    if row[1] < 150000:
        return sorted(names)
    rows = connection.execute(
        "SELECT name FROM unnest(%s::text[]) AS name"
        " WHERE NOT has_parameter_privilege(name, 'ALTER SYSTEM')",
        [sorted(names)],
    ).fetchall()
    return [str(name) for (name,) in rows]


def _value(name: str, value: str) -> sql.Composable:
    if name.lower() not in _LISTS:
        return sql.Literal(value)
    parts = [part.strip().strip('"') for part in value.split(",")]
    return sql.SQL(", ").join(sql.Literal(part) for part in parts)


def is_writable(data_dir: Path | None) -> bool:
    """Return whether the entries of a server on this host can be written while it is down."""
    return data_dir is not None and os.access(data_dir / AUTO_CONF, os.R_OK | os.W_OK)


def rewrite_auto_conf(data_dir: Path, entries: Entries) -> None:
    """Make these the entries of postgresql.auto.conf of a server that does not run.

    Every other line stays as it is; owner and mode of the file stay too.
    Raises: ServerError if a postmaster runs there, or the file cannot be written.
    """
    path = data_dir / AUTO_CONF
    if (pid := _postmaster(data_dir)) is not None:
        raise ServerError(
            f"A server (process {pid}) runs in {data_dir}, but it does not answer.",
            hint="wait until it has started or stopped, and run pgdyno undo again",
        )
    try:
        before, text = path.stat(), path.read_text(encoding="utf-8")
        names = {name.lower() for name in entries}
        kept = [line for line in text.splitlines() if _name_in(line) not in names]
        kept += [_line(name, value) for name, value in entries.items() if value is not None]
        new = path.with_name(f"{AUTO_CONF}.pgdyno")
        new.write_text("\n".join(kept) + "\n", encoding="utf-8")
        new.chmod(before.st_mode & 0o777)
        if os.geteuid() == 0:
            os.chown(new, before.st_uid, before.st_gid)
        new.replace(path)
    except OSError as error:
        raise ServerError(
            f"{path} cannot be written: {error.strerror}.", hint="run it as the server's owner"
        ) from None


def _postmaster(data_dir: Path) -> int | None:
    """Return the postmaster that the lock file names, if it is alive."""
    try:
        pid = int((data_dir / "postmaster.pid").read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pid if Path(f"/proc/{pid}").exists() else None


def _name_in(line: str) -> str:
    return line.partition("=")[0].strip().lower()


def _line(name: str, value: str | None) -> str:
    return configuration.as_configuration({name: value or ""}).rstrip("\n")
