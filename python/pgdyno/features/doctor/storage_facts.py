"""Reads the place of a folder: mount, file system, free space, and the disks below.

The folder is on this host, or on a host that sent its files. Both have disks in /sys/block.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pgdyno.features.doctor import host_files
from pgdyno.observe.host.disk import Space, spaces_received
from pgdyno.observe.host.files import HERE, HostFiles, ReceivedFiles, text_or_nothing
from pgdyno.server.storage import Mount, mount_in, mount_of, nearest_existing

_SECTOR_BYTES = 512
# Whether such a device rotates is only the hypervisor's guess.
_PARAVIRTUAL = ("vd", "xvd", "rbd", "nbd")


@dataclass(frozen=True, slots=True)
class Disk:
    """One whole device. None or "": the kernel does not report it.

    `offset_bytes`: the start of the folder's partition; None without a partition.
    """

    name: str
    is_rotational: bool | None = None
    scheduler: str = ""
    schedulers: tuple[str, ...] = ()
    write_cache: str = ""
    offset_bytes: int | None = None

    @property
    def is_nvme(self) -> bool:
        """Return whether the device is an NVMe disk."""
        return self.name.startswith("nvme")


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """The place of the data or the WAL. No disks: memory, a network, or layers that hide them.

    `total_bytes` is 0 if the size of the file system is not known.
    """

    name: str
    path: str
    mount_point: str
    file_system: str
    source: str
    options: tuple[str, ...]
    total_bytes: int
    free_bytes: int
    disks: tuple[Disk, ...] = ()


def read_place(
    name: str, folder: Path, files: HostFiles = HERE, *, mountinfo: str | None = None
) -> StoragePlace | None:
    """Return the place of `folder` on this host, or None if this user may not read it.

    Args: name, "data" or "WAL"; files, which have /sys; mountinfo as in `storage.mount_of`.
    """
    try:
        mount = mount_of(folder.resolve(), mountinfo)
        seen = os.statvfs(nearest_existing(folder))
    except OSError:
        return None
    if mount is None:
        return None
    space = Space(seen.f_blocks * seen.f_frsize, seen.f_bavail * seen.f_frsize)
    return _place(name, str(folder), mount, space, files)


def place_received(name: str, files: ReceivedFiles, folder: str = "") -> StoragePlace | None:
    """Return the place of the data or the WAL on another host, or None if not known.

    Args: name, "data" or "WAL"; folder, as the server names it, if the host does not know it.
    """
    key = name.lower()
    told = text_or_nothing(files, f"/server/{key}").strip()
    row = text_or_nothing(files, f"/df/{key}").split(maxsplit=5)
    mount_point = row[5].strip() if len(row) == 6 else ""
    # A folder that the collector found is in the collector's mounts. A folder that the server named
    # is in the server's mounts.
    theirs = next(iter(files.matching("/proc/[1-9]*/mountinfo")), "")
    looks = (
        (told, "/proc/self/mountinfo"),
        (mount_point, "/proc/self/mountinfo"),
        (folder, theirs),
    )
    mounts = (
        mount_in(text_or_nothing(files, table), PurePosixPath(path))
        for path, table in looks
        if path.startswith("/")
    )
    mount = next((mount for mount in mounts if mount is not None), None)
    if mount is None:
        return None
    space = spaces_received(files).get(key, Space(0, 0))
    return _place(name, told or folder or mount_point, mount, space, files)


def _place(name: str, path: str, mount: Mount, space: Space, files: HostFiles) -> StoragePlace:
    return StoragePlace(
        name=name,
        path=path,
        mount_point=str(mount.mount_point),
        file_system=mount.file_system,
        source=mount.source,
        options=tuple(mount.options.split(",")),
        total_bytes=space.total_bytes,
        free_bytes=space.available_bytes,
        disks=tuple(_disks(files, _block_folder(files, mount))),
    )


def _block_folder(files: HostFiles, mount: Mount) -> str:
    """Return the device's folder in /sys by number, or by name for file systems of many disks."""
    for mark in ("/sys/block/*/dev", "/sys/block/*/*/partition"):
        for path in files.matching(mark):
            folder = path.rpartition("/")[0]
            if text_or_nothing(files, f"{folder}/dev").strip() == mount.device_number:
                return folder
    return _named(files, mount.source.rpartition("/")[2]) if mount.source[:5] == "/dev/" else ""


def _named(files: HostFiles, name: str) -> str:
    """Return the folder in /sys of a disk or partition with this name, "" if there is none."""
    if files.exists(f"/sys/block/{name}"):
        return f"/sys/block/{name}"
    paths = files.matching(f"/sys/block/*/{name}/partition")
    return paths[0].rpartition("/")[0] if paths else ""


def _disks(files: HostFiles, folder: str, depth: int = 0) -> list[Disk]:
    """Return the disks below a partition, a logical volume, an array or a disk."""
    if not folder or depth > 8:
        return []
    slaves = [path.rpartition("/")[2] for path in files.matching(f"{folder}/slaves/*")]
    if slaves:
        disks = [disk for name in slaves for disk in _disks(files, _named(files, name), depth + 1)]
        return list(dict.fromkeys(disks))

    def text(path: str) -> str:
        return text_or_nothing(files, path)

    is_partition = files.exists(f"{folder}/partition")
    whole = folder.rpartition("/")[0] if is_partition else folder
    name = whole.rpartition("/")[2]
    start = host_files.whole(text(f"{folder}/start")) if is_partition else None
    rotational = host_files.whole(text(f"{whole}/queue/rotational"))
    if name.startswith(_PARAVIRTUAL):
        rotational = None
    schedulers = text(f"{whole}/queue/scheduler")
    return [
        Disk(
            name=name.replace("!", "/"),
            is_rotational=None if rotational is None else rotational == 1,
            scheduler=host_files.chosen(schedulers) or "",
            schedulers=tuple(re.findall(r"[\w-]+", schedulers)),
            write_cache=text(f"{whole}/queue/write_cache").strip(),
            offset_bytes=None if start is None else start * _SECTOR_BYTES,
        )
    ]
