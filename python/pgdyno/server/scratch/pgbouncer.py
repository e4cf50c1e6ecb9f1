"""Our own PgBouncer for a scratch cluster: started as our child, ended with it.

It listens on a Unix socket next to the server's, in a folder that only the server's user (and root)
may enter, and keeps its configuration and log in the cluster's folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from pgdyno.clock import monotonic_ns
from pgdyno.errors import ProcessError, ServerError, SpecError
from pgdyno.process import signals
from pgdyno.process.child import Child, run, start
from pgdyno.server.connect import connect
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

# The number is only part of the socket's name: each of our processes has its own number.
_PORTS = range(20_000, 60_000)
ADMIN_DATABASE = "pgbouncer"
START_TIMEOUT_S = 30.0
# Since this version, PgBouncer supports prepared statements in transaction mode.
_KNOWS_PREPARED = (1, 21)
_PREPARED_STATEMENTS = 200
_SPARE_CLIENTS = 20
_POLL_S = 0.02
_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin")


@dataclass(frozen=True, slots=True)
class PoolerProgram:
    """The program PgBouncer and its version."""

    path: Path
    version: str

    @property
    def knows_prepared_statements(self) -> bool:
        """True if clients may prepare statements although they share sessions."""
        parts = re.findall(r"\d+", self.version)
        return tuple(int(part) for part in parts[:2]) >= _KNOWS_PREPARED


def find_pgbouncer(path: str | None = None) -> PoolerProgram:
    """Return the installed PgBouncer; `path` says where to look instead of the usual places.

    Raises: SpecError if there is none.
    """
    usual = os.pathsep.join((os.environ.get("PATH", os.defpath), *_FOLDERS))
    program = shutil.which("pgbouncer", path=usual if path is None else path)
    if program is None:
        raise SpecError(
            "A variant has a pooler, but there is no pgbouncer on this host.",
            hint="install the package pgbouncer, or remove the variant",
        )
    try:
        said = run([program, "--version"], timeout_s=10).stdout
    except ProcessError as error:
        raise SpecError(
            f"{program} does not start: {error.message}",
            hint="install the package pgbouncer again, or remove the variant",
        ) from error
    version = re.search(r"PgBouncer (\S+)", said, re.IGNORECASE)
    if version is None:
        raise SpecError(f"{program} does not print its version.", hint="check that it is PgBouncer")
    return PoolerProgram(Path(program), version[1])


class PgBouncer:
    """One running PgBouncer in front of a scratch cluster."""

    def __init__(
        self,
        cluster: ScratchCluster,
        program: PoolerProgram,
        *,
        mode: str,
        pool_size: int,
        clients: int,
    ) -> None:
        """Start it and wait until it answers. Raises: ServerError with PgBouncer's message."""
        self._cluster = cluster
        self._program = program
        port = _PORTS[os.getpid() % len(_PORTS)]
        self.target: Target = replace(cluster.target, ports=str(port))
        folder = cluster.path / "pooler"
        folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(folder, cluster.user.uid, cluster.user.gid)
        self.log_path = folder / "pgbouncer.log"
        self._write(folder / "users.txt", f'"{self.target.user}" ""\n')
        configuration = self._configuration(mode, pool_size, clients, folder)
        self._write(folder / "pgbouncer.ini", configuration)
        self._child = self._started(folder / "pgbouncer.ini", files=clients + pool_size + 100)
        try:
            self._await_ready()
        except BaseException:
            self.close()
            raise

    @property
    def admin(self) -> Target:
        """Return the target of the console, which accepts only simple queries (SHOW POOLS)."""
        return self.target.with_database(ADMIN_DATABASE)

    def close(self) -> None:
        """End it, and the sessions it keeps; closing twice is harmless."""
        self._child.terminate(grace_s=2.0)
        self._socket.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _socket(self) -> Path:
        return Path(self.target.host) / f".s.PGSQL.{self.target.ports}"

    def _configuration(self, mode: str, pool_size: int, clients: int, folder: Path) -> str:
        server = self._cluster.target
        lines = [
            "[databases]",
            f"* = host={server.host} port={server.ports}",
            "[pgbouncer]",
            f"unix_socket_dir = {server.host}",
            "unix_socket_mode = 0700",
            f"listen_port = {self.target.ports}",
            "auth_type = trust",
            f"auth_file = {folder / 'users.txt'}",
            f"admin_users = {server.user}",
            f"pool_mode = {mode}",
            f"default_pool_size = {pool_size}",
            f"max_client_conn = {clients + _SPARE_CLIENTS}",
            # The load's waiting time is measured, so PgBouncer must not cut it short.
            "query_wait_timeout = 0",
            "log_connections = 0",
            "log_disconnections = 0",
            "log_stats = 0",
            "ignore_startup_parameters = extra_float_digits",
        ]
        if self._program.knows_prepared_statements:
            lines.append(f"max_prepared_statements = {_PREPARED_STATEMENTS}")
        return "\n".join(lines) + "\n"

    def _started(self, configuration: Path, *, files: int) -> Child:
        self._socket.unlink(missing_ok=True)
        with _open_files(files), self.log_path.open("wb") as log:
            return start(
                [self._program.path, configuration],
                name="pgbouncer",
                user=self._cluster.user,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                cwd=configuration.parent,
                stdout=log,
                stderr=log,
                # SIGKILL loses nothing, and newer versions would wait for clients at SIGTERM.
                death_signal=signal.SIGKILL,
            )

    def _await_ready(self) -> None:
        deadline_ns = monotonic_ns() + int(START_TIMEOUT_S * 1e9)
        while True:
            if self._child.poll() is not None:
                raise self._failure("cannot start")
            if self._socket.exists():
                try:
                    connect(self.admin, verb="scratch", run="pooler", console=True).close()
                    return
                except ServerError:
                    if monotonic_ns() > deadline_ns:
                        raise
            if monotonic_ns() > deadline_ns:
                raise self._failure(f"did not become ready within {START_TIMEOUT_S:g} s")
            signals.sleep(_POLL_S)

    def _failure(self, what: str) -> ServerError:
        said = self.log_path.read_text(errors="replace")
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        # The first error has the cause: the lines after it only repeat that there was one.
        telling = [line for line in lines if " ERROR " in line or " FATAL " in line]
        words = (telling or lines[-1:] or ["it printed nothing"])[0].rstrip(".")
        return ServerError(
            f"PgBouncer {self._program.version} {what}: {words}.",
            hint=f"run {self._program.path} by hand to see more",
        )

    def _write(self, path: Path, text: str) -> None:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            os.fchown(stream.fileno(), self._cluster.user.uid, self._cluster.user.gid)
            stream.write(text)


@contextlib.contextmanager
def _open_files(wanted: int) -> Iterator[None]:
    """Let processes that start inside open as many files as they need, up to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, enough), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
