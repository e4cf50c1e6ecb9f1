"""Make an empty data directory, the same on every host and version."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import ServerError
from pgdyno.process.child import UserIds, run
from pgdyno.server import configuration
from pgdyno.server.find import Binaries
from pgdyno.server.scratch import placement
from pgdyno.server.scratch.identity import reachable_binaries, server_user
from pgdyno.server.scratch.postmaster import START_TIMEOUT_S, server_environment
from pgdyno.server.scratch.record import ClusterFolder, ClusterRecord

SUPERUSER = "postgres"
_TIMEOUT_S = 300.0


def initdb(
    binaries: Binaries,
    user: UserIds,
    *,
    data_dir: Path,
    wal_dir: Path | None,
    checksums: bool,
    wal_segment: str | None = None,
) -> None:
    """Fill `data_dir`, which is empty and belongs to `user`; the WAL goes to `wal_dir` if given.

    Args: wal_segment, such as "64MB"; None for PostgreSQL's own 16MB.

    Raises: ServerError with initdb's own words; InterruptedByUser.
    """
    argv: list[str | Path] = [binaries.program("initdb"), "-D", data_dir, "-U", SUPERUSER]
    # Every host and version has the C locale and sorts it alike. No sync: a crash of the host loses
    # nothing that was measured.
    argv += ["-E", "UTF8", "--locale=C", "-A", "trust", "--no-sync", "--no-instructions"]
    if checksums:
        argv.append("--data-checksums")
    elif binaries.major >= 18:
        argv.append("--no-data-checksums")
    if wal_segment is not None:
        argv.append(f"--wal-segsize={wal_segment.removesuffix('MB')}")
    if wal_dir is not None:
        argv += ["-X", wal_dir]
    completed = run(argv, user=user, env=server_environment(user), cwd="/", timeout_s=_TIMEOUT_S)
    if completed.returncode == 0:
        return
    lines = completed.stderr.splitlines()
    telling = [line for line in lines if "error" in line.lower() or "FATAL" in line] or lines
    hint = "check that the disk has space and that the folder is writable"
    if user.name == str(user.uid):  # A container that was started with any number.
        hint = f"PostgreSQL needs a user with a name: as root, useradd --uid {user.uid} NAME"
    raise ServerError(
        f"initdb of PostgreSQL {binaries.version} failed in {data_dir}:"
        f" {telling[0].strip() if telling else 'it printed nothing'}.",
        hint=hint,
    )


def sync_files(binaries: Binaries, user: UserIds, *, data_dir: Path) -> None:
    """Flush all files of a stopped cluster to the disk.

    Raises: ServerError with initdb's own words; InterruptedByUser.
    """
    argv: list[str | Path] = [binaries.program("initdb"), "-D", data_dir, "--sync-only"]
    completed = run(argv, user=user, env=server_environment(user), cwd="/", timeout_s=_TIMEOUT_S)
    if completed.returncode != 0:
        raise ServerError(
            f"The files of {data_dir} were not synced: {completed.stderr.strip()}.",
            hint="check the disk",
        )


@dataclass(frozen=True, slots=True)
class ScratchRequest:
    """The wanted properties of a scratch cluster.

    Args: clients, the largest number of connections the load opens; data_dir and wal_dir, folders
    inside which folders of our own are made; store_dir, where the experiment's results lie;
    checksums and wal_segment, None for the version's default; needed, as
    `placement.needed_bytes` says; fill, which fills the empty data directory instead of initdb.
    """

    binaries: Binaries
    clients: int = 80
    settings: Mapping[str, str] = field(default_factory=dict)
    data_dir: Path | None = None
    wal_dir: Path | None = None
    store_dir: Path | None = None
    allow_tmpfs: bool = False
    keep: bool = False
    listens_tcp: bool = False
    checksums: bool | None = None
    wal_segment: str | None = None
    needed: Mapping[str, int] | None = None
    start_timeout_s: float = START_TIMEOUT_S
    fill: Callable[[Path, UserIds], None] | None = None


@dataclass(frozen=True, slots=True)
class NewFolder:
    """A folder that exists and has no cluster yet."""

    folder: ClusterFolder
    binaries: Binaries
    user: UserIds
    wal_parent: Path | None
    notes: tuple[str, ...]


def make_folder(request: ScratchRequest) -> NewFolder:
    """Choose the place and the user of the cluster, and make its folder.

    Raises: SpecError or RefusedError about its settings or its place; nothing is made then.
    """
    chosen = configuration.checked(request.settings)
    user = server_user(request.binaries)
    binaries = reachable_binaries(request.binaries, user)
    spot = placement.place(
        user=user,
        data_dir=request.data_dir,
        store_dir=request.store_dir,
        allow_tmpfs=request.allow_tmpfs,
    )
    wal_parent = placement.wal_parent(
        request.wal_dir, spot.parent, user=user, allow_tmpfs=request.allow_tmpfs
    )
    if request.needed is not None:
        placement.check_space(request.needed, spot.parent, wal_parent)
    default_checksums = binaries.major >= 18
    record = ClusterRecord(
        bin_dir=str(binaries.bin_dir),
        version=binaries.version,
        source=binaries.source,
        user=user.name,
        checksums=default_checksums if request.checksums is None else request.checksums,
        settings=chosen,
    )
    folder = ClusterFolder.create(spot.parent, record, is_other_user=not user.is_current)
    return NewFolder(folder, binaries, user, wal_parent, spot.notes)


def initialise(made: NewFolder, request: ScratchRequest) -> None:
    """Make the cluster in its folder.

    Raises: ServerError with the words of initdb; InterruptedByUser.
    """
    folder, user = made.folder, made.user
    folder.data_dir.mkdir(mode=0o700)
    os.chown(folder.data_dir, user.uid, user.gid)
    if request.fill is not None:
        request.fill(folder.data_dir, user)
        return
    wal_dir = None
    if made.wal_parent is not None:
        made.wal_parent.mkdir(parents=True, exist_ok=True)
        wal_dir = folder.make_extra_folder("wal", made.wal_parent)
        os.chown(wal_dir, user.uid, user.gid)
    initdb(
        made.binaries,
        user,
        data_dir=folder.data_dir,
        wal_dir=wal_dir,
        checksums=folder.record.checksums,
        wal_segment=request.wal_segment,
    )
