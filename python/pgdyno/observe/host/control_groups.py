"""Finds the folders of the control groups that limit a process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from pgdyno.server.storage import unescaped


@dataclass(frozen=True, slots=True)
class GroupFolder:
    """One control group folder, and the version of its files (1 or 2)."""

    path: PurePosixPath
    is_unified: bool


def group_folders(cgroup: str, mounts: str, controller: str) -> list[GroupFolder]:
    """Return the folders that limit a process: its group first, then all groups above.

    Args: cgroup, its /proc/<pid>/cgroup; mounts, /proc/mounts; controller, such as "memory".
    """
    groups: dict[bool, str] = {}
    # Names of groups and mounts are of users, and may have any other blank or line end of Unicode.
    for line in cgroup.split("\n"):
        _, controllers, group = [*line.split(":", 2), "", "", ""][:3]
        if not group:
            continue
        if not controllers:
            groups[True] = group
        elif controller in controllers.split(","):
            groups[False] = group
    folders: list[GroupFolder] = []
    for line in mounts.split("\n"):
        _, folder, kind, options = [*line.split(" "), "", "", "", ""][:4]
        is_unified = kind == "cgroup2"
        is_wanted = is_unified or (kind == "cgroup" and controller in options.split(","))
        if not is_wanted or is_unified not in groups:
            continue
        group_path = PurePosixPath(groups[is_unified].lstrip("/"))
        for level in (group_path, *group_path.parents):
            candidate = GroupFolder(PurePosixPath(unescaped(folder)) / level, is_unified)
            if candidate not in folders:
                folders.append(candidate)
    return folders
