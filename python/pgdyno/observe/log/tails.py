"""Reads the new lines of the server's log, from a file of this host or through the server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import psycopg

from pgdyno.observe.collector import NotMeasurable
from pgdyno.observe.session import ServerSession

# If the log grew by more between two samples, the rest is skipped: reading it must not become a
# load.
BYTES_MAX = 1 << 18
# pg_monitor may list the directory, but may not call pg_stat_file.
SIZE_SQL = (
    "SELECT size::int8 FROM pg_catalog.pg_ls_logdir() WHERE name = regexp_replace(%s, '^.*/', '')"
)
READ_SQL = "SELECT pg_catalog.pg_read_binary_file(%s, %s, %s)"


class LogFile(Protocol):
    """One log file, here or read through the server; `path` is the server's name for it."""

    def size_bytes(self, path: str) -> int:
        """Return its size now. Raises: OSError, psycopg.Error."""
        ...

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of it. Raises: as `size_bytes`."""
        ...


class LocalLog:
    """Reads log files of this host; the server's path may be relative to its data directory."""

    def __init__(self, data_directory: str) -> None:
        self._data = Path(data_directory)

    def size_bytes(self, path: str) -> int:
        """Return the file's size now."""
        return (self._data / path).stat().st_size

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of the file."""
        with (self._data / path).open("rb") as log:
            return os.pread(log.fileno(), length, offset)


class ServedLog:
    """Reads log files through the server, if the role has the privilege."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session

    def size_bytes(self, path: str) -> int:
        """Return the file's size now."""
        rows = self._session.fetch(SIZE_SQL, [path])
        return int(rows[0][0]) if rows else 0

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of the file."""
        try:
            [(content,)] = self._session.fetch(READ_SQL, [path, offset, length])
        except psycopg.errors.InsufficientPrivilege:
            raise forbidden(self._session.user) from None
        return bytes(content)


def forbidden(role: str) -> NotMeasurable:
    """Return the error with the GRANT that a role needs to read the log."""
    return NotMeasurable(
        f"The server's log may not be read by role {role}: GRANT pg_monitor, and GRANT EXECUTE ON"
        " FUNCTION pg_catalog.pg_current_logfile(text), pg_catalog.pg_read_binary_file(text,"
        f" bigint, bigint) TO {role}."
    )


class Tail:
    """Returns the whole lines that were added since the last call; follows rotations of the log.

    Lines from before the first call are left out. `skipped_bytes`: the amount that was too much for
    one read.
    """

    def __init__(self, log: LogFile, current: Callable[[], str]) -> None:
        self._log, self._current = log, current
        self._path, self._offset = "", -1
        self._rest = b""
        self.skipped_bytes = 0

    def new_lines(self) -> bytes:
        """Return the new lines with their ends; none on the first call.

        Raises: NotMeasurable, OSError, psycopg.Error.
        """
        path = self._current()
        size = self._log.size_bytes(path)
        if self._offset < 0:
            # Read a little now: if the file may not be read, we learn it at once.
            self._log.read(path, max(0, size - 1), 1)
            self._path, self._offset = path, size
            return b""
        if path != self._path or size < self._offset:
            self._path, self._offset, self._rest = path, 0, b""
        if size - self._offset > BYTES_MAX:
            self.skipped_bytes += size - BYTES_MAX - self._offset
            self._offset, self._rest = size - BYTES_MAX, b""
        added = self._log.read(path, self._offset, size - self._offset)
        self._offset += len(added)
        whole, newline, rest = (self._rest + added).rpartition(b"\n")
        self._rest = rest
        return whole + newline
