"""Chooses the folder of a scratch cluster, and checks whether the dataset fits there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import RefusedError, ServerError, SpecError
from pgdyno.process.child import UserIds
from pgdyno.quantities import gigabytes
from pgdyno.server.scratch.identity import can_reach
from pgdyno.server.storage import free_bytes, mount_of, nearest_existing

LAST_PLACE = Path("/var/tmp")


@dataclass(frozen=True, slots=True)
class Placement:
    """The folder in which a cluster's own folder is made, and why it is not an earlier choice."""

    parent: Path
    notes: tuple[str, ...] = ()


def place(
    *,
    user: UserIds,
    data_dir: Path | None,
    store_dir: Path | None,
    allow_tmpfs: bool,
    environ: Mapping[str, str] | None = None,
) -> Placement:
    """Choose the parent folder: `data_dir`, else the store, else $PGDYNO_DATA, else /var/tmp.

    A folder that the user named (`data_dir`, $PGDYNO_DATA) must be usable. If the server's user
    cannot enter the store, the next place is used, with a note.
    Raises: SpecError or RefusedError about a folder that was named.
    """
    environ = os.environ if environ is None else environ
    if data_dir is not None:
        check_folder(data_dir, user=user, option="--data-dir", allow_tmpfs=allow_tmpfs)
        return Placement(data_dir.absolute())
    notes: list[str] = []
    if store_dir is not None:
        why_not = _why_not(store_dir, user, allow_tmpfs)
        if not why_not:
            return Placement(store_dir.absolute())
        notes.append(f"the scratch server is not in {store_dir}: {why_not}")
    if environ.get("PGDYNO_DATA"):
        folder = Path(environ["PGDYNO_DATA"])
        check_folder(folder, user=user, option="$PGDYNO_DATA", allow_tmpfs=allow_tmpfs)
        return Placement(folder.absolute(), tuple(notes))
    check_folder(LAST_PLACE, user=user, option="--data-dir", allow_tmpfs=allow_tmpfs)
    return Placement(LAST_PLACE, tuple(notes))


def check_folder(folder: Path, *, user: UserIds, option: str, allow_tmpfs: bool) -> None:
    """Raise unless a cluster's folder can be made inside `folder`."""
    # A symbolic link to nothing or to itself does not "exist", and nothing can be made there.
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise SpecError(f"{option} {folder} is not a folder.", hint="name a folder")
    if not folder.exists() and not folder.absolute().parent.is_dir():
        raise SpecError(
            f"{option} {folder} cannot be created: {folder.absolute().parent} does not exist.",
            hint="check the path: a folder elsewhere would be on another disk",
        )
    for ancestor in (folder.absolute(), *folder.absolute().parents):
        if (ancestor / "PG_VERSION").exists():
            raise RefusedError(
                f"{option} {folder} is inside {ancestor}, the data directory of a PostgreSQL.",
                hint="name another folder; pgdyno creates its own folder inside",
            )
    why_not = _why_not(folder, user, allow_tmpfs)
    if why_not.startswith("it is memory"):
        raise RefusedError(
            f"{option} {folder}: {why_not}, so the result would not describe a disk.",
            hint="name a folder on a disk, or add --allow-tmpfs",
        )
    if why_not:
        raise SpecError(f"{option} {folder}: {why_not}.", hint="name another folder")


def wal_parent(
    wal_dir: Path | None, data_parent: Path, *, user: UserIds, allow_tmpfs: bool
) -> Path | None:
    """Return the parent of the WAL folder, or None if the WAL is in the data directory."""
    if wal_dir is None or wal_dir.absolute() == data_parent:
        return None
    check_folder(wal_dir, user=user, option="--wal-dir", allow_tmpfs=allow_tmpfs)
    return wal_dir.absolute()


def check_space(needed: Mapping[str, int], data_parent: Path, wal_parent: Path | None) -> None:
    """Raise ServerError unless what `needed_bytes` says is free, on one file system or on two."""
    if wal_parent is None or mount_of(data_parent) == mount_of(wal_parent):
        total = needed["data"] + needed["wal"]
        check_free_space(data_parent, total, what="The dataset with its WAL")
    else:
        check_free_space(data_parent, needed["data"], what="The dataset")
        check_free_space(wal_parent, needed["wal"], what="The WAL")


def check_free_space(folder: Path, bytes_needed: int, *, what: str) -> None:
    """Raise ServerError unless `bytes_needed` are free on the file system of `folder`."""
    free = free_bytes(folder)
    if free < bytes_needed:
        raise ServerError(
            f"{what} needs about {gigabytes(bytes_needed)} in {folder}, but only "
            f"{gigabytes(free)} are free.",
            hint="choose a smaller dataset, or another folder with --data-dir and --wal-dir",
        )


def _why_not(folder: Path, user: UserIds, allow_tmpfs: bool) -> str:
    existing = nearest_existing(folder)
    mount = mount_of(existing)
    if mount is not None and mount.is_memory and not allow_tmpfs:
        return f"it is memory ({mount.file_system})"
    if mount is not None and mount.is_object_store:
        return f"it is an object store ({mount.file_system})"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"{existing} is not writable"
    if not can_reach(user, existing):
        return f"the server's user {user.name} has no access to {existing}"
    return ""
