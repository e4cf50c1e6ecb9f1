"""Find and remove the scratch clusters of commands that were killed."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import ServerError
from pgdyno.server.scratch.cluster import end_orphan
from pgdyno.server.scratch.placement import LAST_PLACE
from pgdyno.server.scratch.record import FOLDER_PREFIX, ClusterFolder, remove_unfinished


@dataclass(frozen=True, slots=True)
class Leftover:
    """One cluster whose owner had died, and the result of its removal."""

    path: Path
    ended_postmaster: bool
    is_removed: bool


def sweep_leftovers(parents: Iterable[Path] | None = None) -> list[Leftover]:
    """Remove every cluster below `parents` whose owner is dead and which was not to be kept.

    Args: parents, the folders searched, with those directly inside them, as experiments lie in a
    store (None: $PGDYNO_DATA and /var/tmp). A postmaster that outlived its owner is ended if pid
    and start time are the recorded ones. Folders of other users are left alone.
    """
    leftovers = []
    for path in _cluster_folders(_usual_parents() if parents is None else parents):
        folder = ClusterFolder.claim(path)
        if folder is None:
            if remove_unfinished(path):
                leftovers.append(Leftover(path, ended_postmaster=False, is_removed=True))
            continue
        ended = end_orphan(folder.record, path)
        if folder.record.is_kept:
            folder.remove_socket_folder()
            folder.release()
            if ended:
                leftovers.append(Leftover(path, ended_postmaster=True, is_removed=False))
            continue
        with contextlib.suppress(ServerError):  # is_removed reports what cannot be removed.
            folder.remove()
        leftovers.append(Leftover(path, ended_postmaster=ended, is_removed=not path.exists()))
    return leftovers


def kept_clusters(parents: Iterable[Path] | None = None) -> list[Path]:
    """Return the folders of kept clusters that no living command uses, oldest first."""
    folders = []
    for path in _cluster_folders(_usual_parents() if parents is None else parents):
        folder = ClusterFolder.claim(path)
        if folder is not None:
            if folder.record.is_kept:
                folders.append(path)
            folder.release()
    return sorted(folders, key=lambda path: path.stat().st_mtime_ns)


def _usual_parents() -> list[Path]:
    given = os.environ.get("PGDYNO_DATA")
    return [Path(given), LAST_PLACE] if given else [LAST_PLACE]


def _cluster_folders(parents: Iterable[Path]) -> list[Path]:
    # Unlike Path.glob, glob.glob does not fail if others remove folders meanwhile.
    return [
        parent / path
        for parent in dict.fromkeys(parent.absolute() for parent in parents)
        if parent.is_dir() and os.access(parent, os.R_OK | os.X_OK)
        for pattern in (f"{FOLDER_PREFIX}*", f"*/{FOLDER_PREFIX}*")
        for path in sorted(glob.glob(pattern, root_dir=parent))  # noqa: PTH207
    ]
