"""The configuration files of a scratch cluster: pgdyno's settings, the user's settings, access.

They are next to the data directory, which belongs to another user, and include the file that
initdb made.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.clock import monotonic_ns, reading_ns
from pgdyno.errors import ServerError
from pgdyno.process import signals
from pgdyno.process.child import Child
from pgdyno.server import configuration
from pgdyno.server.connect import Connection
from pgdyno.server.scratch.record import ClusterFolder

SPARE_CONNECTIONS = 20
_RELOAD_TIMEOUT_S = 10.0
# Timing an I/O reads the clock twice. A flush or a read takes at least 10 us. With a clock as slow
# as this limit, timing adds 5 % to it; with a fast clock, a tenth of that.
_CLOCK_NS_MAX = 250
_WAL_TIMING_SINCE = 14


@dataclass(slots=True)
class ClusterConf:
    """Writes the configuration of one cluster; `port` changes with each start over TCP."""

    folder: ClusterFolder
    clients: int = 80
    listens_tcp: bool = False
    port: int = 0

    @property
    def path(self) -> Path:
        """Return the file the postmaster is started with."""
        return self.folder.path / "postgresql.conf"

    @property
    def _hba_path(self) -> Path:
        return self.folder.path / "pg_hba.conf"

    def write(self, settings: Mapping[str, str]) -> None:
        """Write the configuration: initdb's file, our settings, then `settings`."""
        include = f"include '{_quoted(self.folder.data_dir / 'postgresql.conf')}'\n"
        own = configuration.as_configuration(self._own())
        _write(self.path, include + own + configuration.as_configuration(settings))

    def write_access(self) -> None:
        """Write who may connect: trust inside a folder that only the server's user may enter."""
        local = "local all all trust\nlocal replication all trust\n"
        _write(self._hba_path, f"{local}host all all 127.0.0.1/32 scram-sha-256\n")

    def require_acceptable(
        self, connection: Connection, chosen: Mapping[str, str], present: Mapping[str, str]
    ) -> None:
        """Write `chosen`; raise ServerError, `present` back in place, if the server refuses it."""
        self.write(chosen)
        refused = configuration.first_refused(connection)
        if refused is None:
            return
        self.write(present)
        name, value, error = refused
        raise ServerError(
            f"PostgreSQL {self.folder.record.version} refuses {name} = {value!r}: {error}.",
            hint="correct that setting; the previous settings are still in effect",
        )

    def reload(self, postmaster: Child, connect: Callable[[], Connection]) -> None:
        """Make a running server read its configuration, and wait until new sessions see it.

        Raises: ServerError after 10 s.
        """
        with connect() as connection:
            before = _configuration_time(connection)
        postmaster.send_signal(signal.SIGHUP)
        deadline_ns = monotonic_ns() + int(_RELOAD_TIMEOUT_S * 1e9)
        while monotonic_ns() < deadline_ns:
            with connect() as connection:  # A new session starts with what was reloaded.
                if _configuration_time(connection) != before:
                    return
            signals.sleep(0.01)
        raise ServerError(
            f"The server did not reload its settings within {_RELOAD_TIMEOUT_S:g} s.",
            hint=f"see {self.folder.log_path}",
        )

    def _own(self) -> dict[str, str]:
        """Return the few settings that measuring needs; all others keep PostgreSQL's defaults."""
        timing = "on" if reading_ns() <= _CLOCK_NS_MAX else "off"
        has_wal_timing = int(self.folder.record.version.split(".")[0]) >= _WAL_TIMING_SINCE
        return {
            "hba_file": str(self._hba_path),
            "listen_addresses": "127.0.0.1" if self.listens_tcp else "",
            "port": str(self.port),
            "unix_socket_directories": self.folder.record.socket_dir or "",
            "unix_socket_permissions": "0700",
            "cluster_name": self.folder.path.name,
            "max_connections": str(self.clients + SPARE_CONNECTIONS),
            "compute_query_id": "on",
            "track_io_timing": timing,
            **({"track_wal_io_timing": timing} if has_wal_timing else {}),
            "log_checkpoints": "on",
        }


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def _configuration_time(connection: Connection) -> object:
    row = connection.execute("SELECT pg_conf_load_time()").fetchone()
    return None if row is None else row[0]


def _quoted(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace("'", "''")
