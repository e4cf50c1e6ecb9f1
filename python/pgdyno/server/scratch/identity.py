"""Which user the postmaster runs as, and whether that user can reach the files it needs.

PostgreSQL refuses to run as root. Then pgdyno uses the service user of an installed PostgreSQL,
else `nobody`; it never creates users.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from pgdyno.errors import ServerError
from pgdyno.process.child import UserIds, run
from pgdyno.server.find import Binaries

SERVICE_USERS = ("postgres", "pgsql", "_postgres")


def server_user(binaries: Binaries) -> UserIds:
    """Return the user the postmaster runs as: ourselves, or as root the service user or nobody.

    Distributions install the programs as root's and run them as `postgres`; a build that belongs
    to another user is run as that user. An embedded server has no service user.
    Raises: ServerError if root finds neither.
    """
    if os.geteuid() != 0:
        return UserIds.current()
    owner = (binaries.bin_dir / "postgres").stat().st_uid
    names = (*SERVICE_USERS, "nobody") if binaries.source == "installed" else ("nobody",)
    if owner != 0 and binaries.source == "installed":
        user = _by_uid(owner)
        if user is not None:
            return user
    for name in names:
        try:
            return UserIds.of(name)
        except KeyError:
            continue
    raise ServerError(
        f"PostgreSQL cannot run as root, and there is no user {' or '.join(names)}.",
        hint="run pgdyno as an ordinary user",
    )


def can_reach(user: UserIds, path: Path) -> bool:
    """True if `user` may enter the folder (or execute the file) `path`; the kernel decides."""
    if user.is_current:
        return os.access(path, os.X_OK)
    completed = run(
        ["/bin/sh", "-c", 'test -x "$1"', "sh", path], user=user, cwd="/", timeout_s=10, env={}
    )
    return completed.returncode == 0


# Asked once in each command: a process as another user takes 14 ms of CPU time.
_can_execute = cache(can_reach)


def reachable_binaries(binaries: Binaries, user: UserIds, parent: Path | None = None) -> Binaries:
    """Return `binaries`, copied once to a folder `user` can reach if it cannot reach these.

    The name of the copy has a hash of the copied files, so the copy is made once and is never out
    of date. It is trusted only if it belongs to us (or root) and nobody else may write to it.
    Args: parent, the folder of copies (None: /var/tmp/pgdyno-<our uid>).
    """
    if _can_execute(user, binaries.program("postgres")):
        return binaries
    root = binaries.bin_dir.parent
    parts = _parts(root)
    shelf = parent or Path("/var/tmp") / f"pgdyno-{os.geteuid()}"
    shelf.mkdir(mode=0o755, exist_ok=True)
    _must_be_ours(shelf)
    shelf.chmod(0o755)
    home = shelf / f"postgresql-{binaries.version}-{_fingerprint(parts)}"
    if not home.exists():
        _copy(parts, home, shelf)
    _must_be_ours(home)
    copied = replace(binaries, bin_dir=home / root.parent.name / root.name / "bin")
    if not can_reach(user, copied.program("postgres")):
        raise ServerError(
            f"User {user.name} cannot reach {binaries.bin_dir} or its copy {home}.",
            hint="name a PostgreSQL that every user can execute: --pg-bin DIR",
        )
    return copied


def _parts(root: Path) -> dict[Path, Path]:
    """Return the folders of an installation, and the place of each in a copy.

    Two parents are kept by name, because the programs of a Python package find their libraries in
    `$ORIGIN/../../../<package>.libs`.
    """
    kept = Path(root.parent.name) / root.name
    parts = {root / name: kept / name for name in ("bin", "lib", "share")}
    libraries = f"{root.parent.name}.libs"
    parts[root.parent.parent / libraries] = Path(libraries)
    return {source: place for source, place in parts.items() if source.is_dir()}


def _copy(parts: Mapping[Path, Path], home: Path, shelf: Path) -> None:
    """Copy every part, complete or not at all."""
    unfinished = Path(tempfile.mkdtemp(prefix=".copying-", dir=shelf))
    try:
        for source, place in parts.items():
            shutil.copytree(source, unfinished / place, symlinks=True)
        for folder, _, files in os.walk(unfinished):
            Path(folder).chmod(0o755)
            for path in (Path(folder) / file for file in files):
                if not path.is_symlink():
                    path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
        try:
            unfinished.rename(home)
        except OSError:
            if not home.exists():  # Else another process was faster, with the same content.
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _fingerprint(parts: Mapping[Path, Path]) -> str:
    """Return a short hash of the names, sizes and times of all files."""
    digest = hashlib.sha256()
    for source, place in parts.items():
        for path in sorted(source.rglob("*")):
            entry = path.lstat()
            if not stat.S_ISDIR(entry.st_mode):
                name = place / path.relative_to(source)
                digest.update(f"{name}\0{entry.st_size}\0{entry.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]


def _must_be_ours(folder: Path) -> None:
    entry = folder.lstat()
    if (
        not stat.S_ISDIR(entry.st_mode)
        or entry.st_uid not in (0, os.geteuid())
        or entry.st_mode & 0o022
    ):
        raise ServerError(
            f"{folder} must belong to pgdyno's user, and only that user may write to it.",
            hint="remove the folder, or find out who created it",
        )


def _by_uid(uid: int) -> UserIds | None:
    try:
        return UserIds.of(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return None
