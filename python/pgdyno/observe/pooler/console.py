"""The console of a PgBouncer: its session and its processes.

The console accepts only the simple protocol and has no settings, so it needs a session class that
differs from the server's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg

from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.session import SILENCE_S_MAX, ConnectionSession

_LISTENING = "0A"
_VERSION = re.compile(r"\d+\.\d+\S*/bouncer")


class ConsoleSession(ConnectionSession):
    """One connection to a pooler's console, made again when it is lost."""

    kind = "pooler"
    what = "pooler's console"
    sees_everybody = True
    user = ""

    def open(self) -> None:
        """Connect.

        Raises: the errors of `connect`; NotMeasurable if the address is not a PgBouncer.
        """
        connection = self._connect()
        said = connection.info.parameter_status("server_version") or ""
        if _VERSION.match(said) is None:
            connection.close()
            raise NotMeasurable(
                "The address of the pooler's console is not a PgBouncer: it answers as version "
                f"{said or 'unknown'}."
            )
        connection.silence_s_max = SILENCE_S_MAX
        self._connection = connection

    def show(self, what: str) -> list[dict[str, Any]]:
        """Return the rows of SHOW `what`, by column: their number differs from version to version.

        Raises: psycopg.Error.
        """
        if self._connection is None:
            raise psycopg.OperationalError("the pooler's console is closed")
        cursor = self._connection.execute(f"SHOW {what}".encode())
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def backend_cpu_ns(self) -> int:
        """Return 0: the console's CPU time cannot be separated from the pooler's other work."""
        return 0

    def cancel(self) -> None:
        """Do nothing: the console answers at once or not at all."""


def pooler_pids(port: int, root: Path = Path("/")) -> list[int]:
    """Return the PgBouncer processes of this host that listen on `port`, TCP or Unix socket.

    With so_reuseport several processes share a port. Returns: an empty list if they run on another
    host, or if we may not see them.
    """
    proc = root / "proc"
    inodes = listening_inodes(
        port,
        tcp=_text(proc / "net/tcp") + _text(proc / "net/tcp6"),
        unix=_text(proc / "net/unix"),
    )
    if not inodes:
        return []
    pids: list[int] = []
    for entry in proc.glob("[0-9]*"):
        if _text(entry / "comm").strip() == "pgbouncer" and inodes & _socket_inodes(entry / "fd"):
            pids.append(int(entry.name))
    return sorted(pids)


def listening_inodes(port: int, *, tcp: str, unix: str) -> set[str]:
    """Return the inodes of sockets that listen on a port; texts of /proc/net/tcp* and unix."""
    inodes: set[str] = set()
    for line in tcp.splitlines():
        words = line.split()
        if len(words) > 9 and words[3] == _LISTENING and words[1].endswith(f":{port:04X}"):
            inodes.add(words[9])
    for line in unix.split("\n"):
        words = line.split(maxsplit=7)
        if len(words) > 7 and words[7].endswith(f"/.s.PGSQL.{port}"):
            inodes.add(words[6])
    return inodes


def _socket_inodes(folder: Path) -> set[str]:
    inodes: set[str] = set()
    try:
        for entry in folder.iterdir():
            target = str(entry.readlink())
            if target.startswith("socket:["):
                inodes.add(target[len("socket:[") : -1])
    except OSError:
        return inodes  # The process ended, or belongs to another user.
    return inodes


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
