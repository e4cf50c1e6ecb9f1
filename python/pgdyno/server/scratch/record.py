"""The folder of one scratch cluster. The note in the folder lets a later command recognise it.

    pgdyno-scratch-XXXXXXXX/    owned by the user who runs pgdyno; the server's user may enter it
        cluster.json            the note: the fields of ClusterRecord
        lock                    locked while a process owns the cluster
        server.log              the postmaster's standard error
        data/                   the data directory, owned by the server's user

Nobody else can change the folder or the note. Therefore it is safe to end the process and to
remove the folders that the note names, even under /var/tmp.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import stat
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pgdyno.errors import ServerError
from pgdyno.process.processes import ProcessIdentity
from pgdyno.server.storage import unmount

FOLDER_PREFIX = "pgdyno-scratch-"
WAL_PREFIX = "pgdyno-wal-"
SOCKET_PREFIX = "pgdyno-"
FORMAT = "pgdyno.cluster/1"
_EXTRA_FOLDERS = {"wal": ("wal_dir", WAL_PREFIX), "socket": ("socket_dir", SOCKET_PREFIX)}
_FILES_BEFORE_NOTE = {"lock", "cluster.json.new"}


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """What cluster.json holds: enough to remove the cluster, or to start it again."""

    bin_dir: str
    version: str
    source: Literal["installed", "embedded"]
    user: str
    checksums: bool
    settings: dict[str, str]
    wal_dir: str | None = None
    socket_dir: str | None = None
    is_kept: bool = False
    postmaster_pid: int | None = None
    postmaster_started: str | None = None
    format: str = FORMAT

    @property
    def postmaster(self) -> ProcessIdentity | None:
        """Return the identity of the last postmaster, running or not."""
        if self.postmaster_pid is None or self.postmaster_started is None:
            return None
        return ProcessIdentity(self.postmaster_pid, self.postmaster_started)


class ClusterFolder:
    """One cluster's folder, locked by this process until `release` or `remove`."""

    def __init__(self, path: Path, lock_fd: int, record: ClusterRecord) -> None:
        self.path = path
        self.record = record
        self._lock_fd: int | None = lock_fd

    @property
    def data_dir(self) -> Path:
        """Return the path of the data directory."""
        return self.path / "data"

    @property
    def log_path(self) -> Path:
        """Return the path of the server's log."""
        return self.path / "server.log"

    @classmethod
    def create(cls, parent: Path, record: ClusterRecord, *, is_other_user: bool) -> ClusterFolder:
        """Make the folder inside `parent`. It is locked before the note is written."""
        mode = 0o711 if is_other_user else 0o700
        parent.mkdir(mode=mode, parents=True, exist_ok=True)
        lock_fd = None
        while lock_fd is None:
            path = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
            lock_fd = _lock_of_new(path)
        path.chmod(mode)
        folder = cls(path, lock_fd, record)
        folder._write()
        return folder

    @classmethod
    def claim(cls, path: Path) -> ClusterFolder | None:
        """Lock the folder of an existing cluster.

        Returns: None if another process owns the folder, if the folder belongs to another user, or
        if the note is missing or damaged.
        """
        if not _is_ours(path) or not (path / "cluster.json").exists():
            return None
        try:
            lock_fd = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(path, lock_fd, read_record(path))
        except (BlockingIOError, OSError, ServerError):
            os.close(lock_fd)
            return None

    def update(self, **changes: Any) -> None:
        """Change the record, in memory and on disk."""
        self.record = replace(self.record, **changes)
        self._write()

    def make_extra_folder(self, kind: Literal["wal", "socket"], parent: Path) -> Path:
        """Make one more folder for this cluster inside `parent`. The note records its path.

        The note is written before the folder is made. If this process ends in between, `remove` or
        a later command still knows the folder.
        """
        name, prefix = _EXTRA_FOLDERS[kind]
        while True:
            path = parent / f"{prefix}{secrets.token_hex(4)}"
            if not os.path.lexists(path):
                self.update(**{name: str(path)})
                with contextlib.suppress(FileExistsError):
                    path.mkdir(mode=0o700)
                    return path

    def release(self) -> None:
        """Unlock the folder and leave it as it is."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def remove(self) -> None:
        """Remove the WAL folder, the socket folder and the cluster's folder, and release the lock.

        The note is removed last. If something cannot be removed, a later command finds the note and
        tries again. Symbolic links are never followed.
        Raises: ServerError naming what is left.
        """
        # A disk that loses power is mounted at the data directory; its program may be dead.
        unmount(self.path)
        named = (self.record.wal_dir, self.record.socket_dir)
        folders = [Path(path) for path in named if path is not None]
        for folder in (*folders, self.data_dir):
            shutil.rmtree(folder, ignore_errors=True)
        left = [folder for folder in (*folders, self.data_dir) if folder.exists()]
        if not left:
            self.log_path.unlink(missing_ok=True)
            (self.path / "cluster.json").unlink(missing_ok=True)
            shutil.rmtree(self.path, ignore_errors=True)
            left = [self.path] if self.path.exists() else []
        self.release()
        if left:
            raise ServerError(
                "The scratch cluster could not be removed: "
                f"{', '.join(str(folder) for folder in left)} still exists.",
                hint="find the program that uses it; the next command tries to remove it again",
            )

    def remove_socket_folder(self) -> None:
        """Remove the folder of the socket, whose path Unix limits to about 100 bytes."""
        if self.record.socket_dir is not None:
            shutil.rmtree(self.record.socket_dir, ignore_errors=True)

    def _write(self) -> None:
        text = json.dumps(asdict(self.record), indent=1, sort_keys=True)
        unfinished = self.path / "cluster.json.new"
        unfinished.touch(mode=0o600)
        with unfinished.open("w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self.path / "cluster.json")


def read_record(path: Path) -> ClusterRecord:
    """Return the record of a cluster's folder.

    Raises: ServerError if the note is damaged or missing.
    """
    note = path / "cluster.json"
    try:
        document = json.loads(note.read_text())
        if document.get("format") != FORMAT:
            raise ValueError(f"format {document.get('format')!r}, not {FORMAT}")
        known = {name: document[name] for name in ClusterRecord.__slots__ if name in document}
        return ClusterRecord(**known)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ServerError(
            f"{note} is not the record of a scratch cluster: {error}.",
            hint="name the folder of a cluster that was kept with --keep",
        ) from error


def is_in_use(path: Path) -> bool:
    """True if a living process holds the cluster in `path`."""
    with contextlib.suppress(OSError):
        lock_fd = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock_fd)
    return False


def remove_unfinished(path: Path) -> bool:
    """Remove a folder whose maker died before it wrote the note.

    Returns: whether this call removed the folder. A folder that holds other files, or whose maker
    is alive, is left as it is.
    """
    with contextlib.suppress(OSError):
        if not (_is_ours(path) and _is_unfinished(path)):
            return False
        try:
            lock_fd = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            path.rmdir()
            return True
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Subtle: check again. Before we had the lock, the maker may have written the note.
            if _is_unfinished(path):
                for name in _FILES_BEFORE_NOTE:
                    (path / name).unlink(missing_ok=True)
                path.rmdir()
                return True
        finally:
            os.close(lock_fd)
    return False


def _is_unfinished(path: Path) -> bool:
    return {entry.name for entry in path.iterdir()} <= _FILES_BEFORE_NOTE


def _lock_of_new(path: Path) -> int | None:
    """Lock a new folder; return None if `remove_unfinished` of another command removed it first."""
    try:
        lock_fd = os.open(path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock_fd).st_nlink:
            return lock_fd
    os.close(lock_fd)
    return None


def _is_ours(path: Path) -> bool:
    try:
        entry = path.lstat()
    except OSError:
        return False
    is_private = not entry.st_mode & 0o022
    return stat.S_ISDIR(entry.st_mode) and entry.st_uid == os.geteuid() and is_private
