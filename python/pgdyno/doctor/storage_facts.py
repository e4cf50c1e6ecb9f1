"""Reads where a folder lies: mount, file system, free space, and the whole devices below."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pgdyno.doctor import host_files
from pgdyno.server.storage import Mount, mount_of, nearest_existing

_SECTOR_BYTES = 512
# What such a device says about rotating is the hypervisor's guess.
_PARAVIRTUAL = ("vd", "xvd", "rbd", "nbd")


@dataclass(frozen=True, slots=True)
class Disk:
    """One whole device. None and "": the kernel does not say.

    `offset_bytes` is where the partition begins that the folder lies on; None without one.
    """

    name: str
    is_rotational: bool | None = None
    scheduler: str = ""
    schedulers: tuple[str, ...] = ()
    write_cache: str = ""
    offset_bytes: int | None = None

    @property
    def is_nvme(self) -> bool:
        """True for a device on NVMe."""
        return self.name.startswith("nvme")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the data, or the WAL, lies; no disks: memory, a network, or layers that hide them."""

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
    name: str, folder: Path, root: Path = Path("/"), *, mountinfo: str | None = None
) -> Place | None:
    """Return where `folder` lies, or None if this user cannot tell.

    Args: name, "data" or "WAL"; root, below which /sys is; mountinfo as in `storage.mount_of`.
    """
    try:
        mount = mount_of(folder.resolve(), mountinfo)
        space = os.statvfs(nearest_existing(folder))
    except OSError:
        return None
    if mount is None:
        return None
    return Place(
        name=name,
        path=str(folder),
        mount_point=str(mount.mount_point),
        file_system=mount.file_system,
        source=mount.source,
        options=tuple(mount.options.split(",")),
        total_bytes=space.f_blocks * space.f_frsize,
        free_bytes=space.f_bavail * space.f_frsize,
        disks=tuple(_disks(_block_folder(mount, root))),
    )


def _block_folder(mount: Mount, root: Path) -> Path | None:
    """Return the device's folder in /sys, by number, or by name for systems of many devices."""
    by_number = root / "sys/dev/block" / mount.device_number
    if by_number.exists():
        return by_number.resolve()
    by_name = root / "sys/class/block" / Path(mount.source).name
    return by_name.resolve() if mount.source.startswith("/dev/") and by_name.exists() else None


def _disks(folder: Path | None, depth: int = 0) -> list[Disk]:
    """Return the whole devices below a partition, a logical volume, an array, or themselves."""
    if folder is None or depth > 8:
        return []
    slaves = sorted((folder / "slaves").glob("*"))
    if slaves:
        found = [disk for slave in slaves for disk in _disks(slave.resolve(), depth + 1)]
        return list(dict.fromkeys(found))
    is_partition = (folder / "partition").exists()
    whole = folder.parent if is_partition else folder
    start = host_files.whole(_text(folder / "start")) if is_partition else None
    rotational = host_files.whole(_text(whole / "queue/rotational"))
    if whole.name.startswith(_PARAVIRTUAL):
        rotational = None
    schedulers = _text(whole / "queue/scheduler")
    return [
        Disk(
            name=whole.name.replace("!", "/"),
            is_rotational=None if rotational is None else rotational == 1,
            scheduler=host_files.chosen(schedulers) or "",
            schedulers=tuple(re.findall(r"[\w-]+", schedulers)),
            write_cache=_text(whole / "queue/write_cache").strip(),
            offset_bytes=None if start is None else start * _SECTOR_BYTES,
        )
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
