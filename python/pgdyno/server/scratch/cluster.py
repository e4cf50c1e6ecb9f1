"""A scratch PostgreSQL: pgdyno makes, starts, changes, stops and removes it without a trace.

Root never writes inside the data directory, which belongs to another user: the configuration
(`conf.py`) is next to it.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from psycopg import sql
from pydantic import SecretStr

from pgdyno.errors import ServerError, SpecError
from pgdyno.process import cleanup, signals
from pgdyno.process.child import Child, UserIds
from pgdyno.process.processes import ProcessIdentity
from pgdyno.server import configuration
from pgdyno.server.connect import Connection, connect
from pgdyno.server.find import Binaries, find
from pgdyno.server.scratch.conf import ClusterConf
from pgdyno.server.scratch.making import (
    SUPERUSER,
    ScratchRequest,
    initialise,
    make_folder,
    sync_files,
)
from pgdyno.server.scratch.postmaster import (
    START_TIMEOUT_S,
    Place,
    launch_postmaster,
    postmaster_status,
    shared_memory,
    start_postmaster,
    stop_postmaster,
)
from pgdyno.server.scratch.record import ClusterFolder, ClusterRecord, is_in_use
from pgdyno.server.target import Target

__all__ = ["ScratchCluster", "ScratchRequest", "end_orphan"]

DATABASE = "postgres"
SOCKET_PATH_BYTES_MAX = 100
_PORT_TRIES = 5
# The data are synced at the end of the load. A crash of the host before loses no measurement.
# With wal_level = minimal, COPY into a table of the same transaction writes no WAL.
WHILE_LOADING = {
    "archive_mode": "off",
    "checkpoint_timeout": "1h",
    "fsync": "off",
    "full_page_writes": "off",
    "maintenance_work_mem": "256MB",
    "max_wal_senders": "0",
    "max_wal_size": "8GB",
    "wal_level": "minimal",
}
# A server that summarizes WAL does not start with wal_level = minimal; older versions lack the
# setting.
_OFF_WHILE_LOADING = ("summarize_wal",)


class ScratchCluster:
    """One running scratch cluster; `close` removes it, or leaves it stopped if it is to be kept."""

    def __init__(
        self, folder: ClusterFolder, binaries: Binaries, user: UserIds, *, keep: bool
    ) -> None:
        """Take charge of the folder; `create` and `adopt` make clusters."""
        self.binaries = binaries
        self.user = user
        self.keep = keep
        self.notes: tuple[str, ...] = ()
        self.start_timeout_s = START_TIMEOUT_S
        # Nothing was read into shared_buffers since the server started.
        self.is_cache_empty = True
        self._folder = folder
        self._child: Child | None = None
        self._memory_of_killed: set[Path] = set()
        self._conf = ClusterConf(folder)
        self._password: SecretStr | None = None
        self._meanwhile: dict[str, str] = {}
        self._token = cleanup.register(f"scratch cluster {folder.path}", self.close)

    @classmethod
    def create(cls, request: ScratchRequest) -> ScratchCluster:
        """Make a cluster and start it.

        Raises: SpecError or RefusedError about its place; ServerError with the server's message if
        it does not start; InterruptedByUser. Nothing is left behind then.
        """
        made = make_folder(request)
        cluster = cls(made.folder, made.binaries, made.user, keep=False)
        cluster.notes = made.notes
        cluster.start_timeout_s = request.start_timeout_s
        try:
            initialise(made, request)
            cluster._open(request.clients, listens_tcp=request.listens_tcp)
            cluster.start()
        except BaseException:
            cluster.close()
            raise
        if request.keep:
            cluster.keep = True
            made.folder.update(is_kept=True)
        return cluster

    @classmethod
    def adopt(
        cls,
        path: Path,
        *,
        clients: int = 80,
        settings: Mapping[str, str] | None = None,
        listens_tcp: bool = False,
        keep: bool = True,
    ) -> ScratchCluster:
        """Start a cluster that an earlier command kept.

        Args: settings, instead of those it had (None: the same ones).
        Raises: SpecError if `path` is not a kept cluster, or is in use.
        """
        folder = ClusterFolder.claim(path)
        if folder is None or not folder.record.is_kept:
            if folder is not None:
                folder.release()
            why = "is in use by another command" if is_in_use(path) else "is not a kept cluster"
            raise SpecError(
                f"{path} {why}.",
                hint="name the folder that --keep printed; no other command may use it",
            )
        record = folder.record
        chosen = configuration.checked(record.settings if settings is None else settings)
        same_version = find(bin_dir=Path(record.bin_dir), version=record.version.split(".")[0])
        binaries = replace(same_version, source=record.source)
        user = UserIds.of(record.user) if os.geteuid() == 0 else UserIds.current()
        cluster = cls(folder, binaries, user, keep=True)
        try:
            end_orphan(record, path)
            folder.update(settings=chosen)
            cluster._open(clients, listens_tcp=listens_tcp)
            cluster.start()
        except BaseException:
            cluster.close()
            raise
        cluster.keep = keep
        return cluster

    @property
    def path(self) -> Path:
        """Return the cluster's folder, which `--keep` prints."""
        return self._folder.path

    @property
    def data_dir(self) -> Path:
        """Return the data directory."""
        return self._folder.data_dir

    @property
    def wal_dir(self) -> Path:
        """Return the folder of the WAL."""
        wal_dir = self._folder.record.wal_dir
        return Path(wal_dir) if wal_dir else self.data_dir / "pg_wal"

    @property
    def log_path(self) -> Path:
        """Return the server's log."""
        return self._folder.log_path

    @property
    def has_checksums(self) -> bool:
        """Return whether data pages have checksums."""
        return self._folder.record.checksums

    @property
    def pid(self) -> int | None:
        """Return the postmaster's pid, or None while it does not run."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings that neither PostgreSQL nor pgdyno set by default."""
        return dict(self._folder.record.settings)

    @property
    def target(self) -> Target:
        """Return where to connect, through the Unix socket."""
        return Target(
            host=self._folder.record.socket_dir or "",
            ports=str(self._conf.port),
            user=SUPERUSER,
            database=DATABASE,
            sslmode="disable",
            is_scratch=True,
        )

    @property
    def tcp_target(self) -> Target:
        """Return where to connect through TCP, with a password; needs `listens_tcp`."""
        assert self._conf.listens_tcp, "this cluster listens on its Unix socket only"
        return replace(self.target, host="127.0.0.1", password=self._password)

    def connect(self, *, verb: str = "scratch", run_name: str = "control") -> Connection:
        """Open a control connection as superuser."""
        return connect(self.target, verb=verb, run=run_name)

    def start(self) -> None:
        """Start the postmaster with the present settings and wait until it is ready.

        Raises: ServerError with the server's own words.
        """
        assert self.pid is None, "it runs already"
        for attempt in range(1, _PORT_TRIES + 1):
            # It starts again at the same port and socket, so that clients still find it.
            if attempt > 1 or not self._conf.port:
                self._conf.port = _free_port() if self._conf.listens_tcp else 5432
            self._conf.write({**self.settings, **self._meanwhile})
            try:
                self._child = start_postmaster(
                    self.binaries, self._place, timeout_s=self.start_timeout_s
                )
                break
            except ServerError as error:
                is_taken = "TCP/IP socket" in error.message or "could not bind" in error.message
                if not (self._conf.listens_tcp and is_taken and attempt < _PORT_TRIES):
                    raise
        self.is_cache_empty = True
        identity = ProcessIdentity.of(self._child.pid) if self._child else None
        if identity is not None:
            self._folder.update(postmaster_pid=identity.pid, postmaster_started=identity.started)
        if self._conf.listens_tcp and self._password is None:
            self._set_password()

    def stop(self, *, is_immediate: bool = False) -> None:
        """Stop the postmaster: fast, then immediate, then killed; stopping twice is harmless."""
        if self._child is not None:
            stop_postmaster(self._child, is_immediate=is_immediate)
            self._child = None

    def kill(self, before: Callable[[], None] | None = None) -> None:
        """End all processes of the server with SIGKILL, as a crash of the host would.

        Args: before, called at the moment of the crash, while all processes still exist.
        """
        assert self._child is not None, "only a running server can be killed"
        self._memory_of_killed |= shared_memory(self._child.pid)
        self._child.kill_family(before)
        self._child = None

    def launch(self) -> None:
        """Start the postmaster with the present settings, and do not wait until it is ready."""
        assert self.pid is None, "it runs already"
        self._child = launch_postmaster(self.binaries, self._place)

    @property
    def status(self) -> str:
        """Return the postmaster's own word about itself, such as "starting" or "ready"."""
        return postmaster_status(self.data_dir, self.pid) if self.pid is not None else ""

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Stop, and start with `settings` instead of the present ones (None: the same).

        Raises: ServerError if it does not start with them; the cluster is stopped then, and
        another `restart` may bring it back.
        """
        chosen = self.settings if settings is None else configuration.checked(settings)
        self.stop()
        self._folder.update(settings=chosen)
        self.start()

    def apply(self, settings: Mapping[str, str]) -> bool:
        """Make `settings` the present settings, by a reload if that is enough.

        Returns: True if the server was restarted.
        Raises: ServerError if the server refuses a setting, or a new session does not see it. After
        a refusal the previous settings remain.
        """
        chosen, previous = configuration.checked(settings), self.settings
        if chosen == previous:
            return False
        with self.connect() as connection:
            self._conf.require_acceptable(connection, chosen, previous)
        needs_restart = self.needs_restart(previous, chosen)
        if needs_restart:
            try:
                self.restart(chosen)
            except ServerError:
                self.restart(previous)
                raise
        else:
            assert self._child is not None, "only a running server can be reloaded"
            self._folder.update(settings=dict(chosen))
            self._conf.reload(self._child, self.connect)
        with self.connect() as connection:
            configuration.require(connection, chosen)
        return needs_restart

    def needs_restart(self, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Return whether the change from some settings to others needs a restart."""
        names = {*before, *after}
        changed = {name for name in names if before.get(name) != after.get(name)}
        if not changed:
            return False
        with self.connect() as connection:
            context = configuration.contexts(connection, changed)
        return any(context.get(name, "postmaster") == "postmaster" for name in changed)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Run with settings for fast loading inside the block; then sync all files and restart.

        Raises: ServerError, also from the block; the server then has its normal settings again.
        """
        self.stop()
        asked = {name: "off" for name in _OFF_WHILE_LOADING if name in self.settings}
        self._meanwhile = {**WHILE_LOADING, **asked}
        try:
            self.start()
            yield
        except ServerError:
            self._end_loading()
            raise
        self._end_loading()

    def _end_loading(self) -> None:
        self._meanwhile = {}
        self.stop()
        sync_files(self.binaries, self.user, data_dir=self.data_dir)
        self.start()

    def close(self) -> None:
        """Remove everything; if the cluster is kept, leave it stopped for `adopt`."""
        if self.keep:
            with signals.shielded():
                self.stop()
                self._folder.remove_socket_folder()
                self._folder.update(socket_dir=None, postmaster_pid=None, postmaster_started=None)
                self._folder.release()
                cleanup.forget(self._token)
        else:
            self.remove()

    def remove(self) -> None:
        """Stop at once and remove every folder; a signal does not interrupt this."""
        with signals.shielded():
            self.stop(is_immediate=True)  # No checkpoint for data nobody will read.
            cleanup.forget(self._token)
            for file in self._memory_of_killed:  # Gone if the server has started again.
                file.unlink(missing_ok=True)
            self._folder.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _place(self) -> Place:
        return Place(
            data_dir=self.data_dir,
            config_path=self._conf.path,
            log_path=self.log_path,
            user=self.user,
        )

    def _open(self, clients: int, *, listens_tcp: bool) -> None:
        """Prepare what every start needs: the socket's folder and who may connect."""
        self._conf.clients, self._conf.listens_tcp = clients, listens_tcp
        self._folder.remove_socket_folder()  # A killed owner may have left one.
        base = Path("/tmp") if os.access("/tmp", os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
        socket_dir = self._folder.make_extra_folder("socket", base)
        os.chown(socket_dir, self.user.uid, self.user.gid)
        if len(os.fsencode(socket_dir / ".s.PGSQL.65535.lock")) > SOCKET_PATH_BYTES_MAX:
            raise ServerError(
                f"The path of a socket in {socket_dir} is too long for the kernel.",
                hint="set TMPDIR to a short path",
            )
        self._conf.write_access()

    def _set_password(self) -> None:
        self._password = SecretStr(secrets.token_urlsafe(24))
        with self.connect() as connection:
            # Only the verifier is sent, so a log of statements cannot show the password.
            verifier = connection.pgconn.encrypt_password(
                self._password.get_secret_value().encode(), SUPERUSER.encode(), b"scram-sha-256"
            )
            connection.execute(
                sql.SQL("ALTER ROLE {} PASSWORD {}").format(
                    sql.Identifier(SUPERUSER), sql.Literal(verifier.decode())
                )
            )


def end_orphan(record: ClusterRecord, folder: Path) -> bool:
    """End the postmaster of a cluster whose owner died; True if one was still running.

    A folder may be a copy, and its record forged: only a process that works in it is ended.
    """
    identity = record.postmaster
    if identity is None or not _works_in(identity.pid, folder):
        return False
    return identity.end(grace_s=10, signal_number=signal.SIGQUIT)


def _works_in(pid: int, folder: Path) -> bool:
    """Return whether the working directory of a process is in a folder; True without /proc."""
    if not Path("/proc/self/cwd").exists():
        return True
    try:
        return Path(f"/proc/{pid}/cwd").resolve().is_relative_to(folder.resolve())
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
